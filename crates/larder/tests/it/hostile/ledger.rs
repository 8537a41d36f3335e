//! What both origins share: which ids clients asked for, what came, and what was wrong with it.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The part of a header's value, or of a host, by which an attack is known in a page.
const MARK: &str = "evil";

/// An id that nobody can guess: `id` and sixteen digits.
pub fn new_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("id{:016x}", RandomState::new().hash_one(COUNT.fetch_add(1, Ordering::Relaxed)))
}

/// All ids in a text.
pub fn ids_in(text: &[u8]) -> Vec<String> {
    let is_id = |at: &[u8]| at.starts_with(b"id") && at.len() >= 18 && at[2..18].iter().all(u8::is_ascii_hexdigit);
    let places = (0..text.len()).filter(|at| is_id(&text[*at..]));
    places.map(|at| String::from_utf8_lossy(&text[at..at + 18]).into_owned()).collect()
}

/// A request as an origin understood it.
#[derive(Debug)]
pub struct Asked {
    pub method: String,
    pub target: Vec<u8>,
    pub host: String,
    /// Names and values.
    pub fields: Vec<(String, String)>,
}

/// The page that an origin makes of a request: its id, and whatever of an attack reached it.
pub fn page(id: &str, asked: &Asked) -> Vec<u8> {
    let marked = asked.fields.iter().filter(|(_, value)| value.contains(MARK));
    let told: Vec<String> = marked.map(|(name, value)| format!("{name}={value}")).collect();
    let Asked { method, target, host, .. } = asked;
    let target = String::from_utf8_lossy(target);
    format!("<page {id}>{method} {host} {target} {}</page {id}>", told.join(" ")).into_bytes()
}

/// The page of an innocent request.
pub fn innocent_page(id: &str, target: &str) -> Vec<u8> {
    let (method, host) = ("GET".to_owned(), "site.test".to_owned());
    page(id, &Asked { method, target: target.into(), host, fields: Vec::new() })
}

/// What an origin does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Its page.
    Page,
    /// These bytes, of the origin's protocol.
    Raw(Vec<Act>),
}

/// One act of a raw answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Bytes, at once.
    Send(Vec<u8>),
    /// Bytes that leave when the client has read its answer.
    Late(Vec<u8>),
    /// The end of the connection.
    Close,
}

/// Who may ask for what, and what was seen.
#[derive(Default)]
pub struct Ledger(Mutex<State>);

#[derive(Default)]
struct State {
    plans: HashMap<String, Plan>,
    faults: Vec<String>,
    asked: Vec<String>,
}

impl Ledger {
    /// A client is about to send one request with this id.
    pub fn expect(&self, id: &str, plan: Plan) {
        self.lock().plans.insert(id.to_owned(), plan);
    }

    /// An origin has parsed a request: what it does, if this is a request that a client sent, and sent just once.
    pub fn arrived(&self, origin: &str, asked: &Asked) -> Option<(String, Plan)> {
        let mut state = self.lock();
        let shown = format!("{} {}", asked.method, String::from_utf8_lossy(&asked.target));
        let ids = ids_in(&asked.target);
        let [id] = &ids[..] else {
            state.faults.push(format!("{origin} saw a request with {} ids: {shown:?}", ids.len()));
            return None;
        };
        state.asked.push(id.clone());
        match state.plans.remove(id) {
            Some(Plan::Page) => Some((id.clone(), Plan::Page)),
            // A raw answer that is none may be asked for again.
            Some(plan) => {
                state.plans.insert(id.clone(), plan.clone());
                Some((id.clone(), plan))
            }
            None => {
                state.faults.push(format!("{origin} saw a request that no client sent, or one twice: {shown:?}"));
                None
            }
        }
    }

    /// Something that no server may send to an origin.
    pub fn fault(&self, origin: &str, what: impl std::fmt::Display) {
        self.lock().faults.push(format!("{origin}: {what}"));
    }

    /// What was wrong since this was last asked; nobody is expected any more.
    pub fn settle(&self) -> Vec<String> {
        let mut state = self.lock();
        state.plans.clear();
        state.asked.clear();
        std::mem::take(&mut state.faults)
    }

    /// Whether an origin was asked for this id since the ledger was settled.
    pub fn was_asked(&self, id: &str) -> bool {
        self.lock().asked.iter().any(|asked| asked == id)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
