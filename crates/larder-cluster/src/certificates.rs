//! Certificates that one node orders for all, and answers that every node gives to a certificate authority.
//!
//! ```text
//! an order:    SET lock NX PX -> the right to order, kept while it goes on -> SET certificate PX -> given up
//!              the others: GETRANGE certificate, until it is there
//! a challenge: SET answer PX -> the authority asks any node -> GET answer
//! ```
//! What an order or a challenge is called is the caller's to say, and whether what is found is of any use. Nothing here waits
//! long for a server: what it does not say in time is [`Away`].

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use redis::Value;
use tokio::sync::oneshot;

use crate::carrier::Level;
use crate::fault::Fault;
use crate::keys::Keys;
use crate::link::{Link, items, text};
use crate::random::random_word;
use crate::settings::Settings;
use crate::share::{Hear, Limits, Line, seldom};

/// What nodes know together of certificates.
pub struct Certificates {
    keys: Keys,
    /// Asks for answers to challenges: many may come, of anybody.
    looks: Arc<Line>,
    tasks: SyncSender<Task>,
}

/// The server is of no use now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away;

/// How it stands with an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderState {
    /// The certificate, as the node wrote it that had it first.
    pub certificate: Option<Vec<u8>>,
    /// How often in a row it failed, on any node.
    pub failures: u32,
    /// How long no node should try again.
    pub wait: Option<Duration>,
}

/// The right of a node to order. It ends when this is dropped, and by itself if nobody keeps it.
pub struct OrderRight {
    lock: String,
    token: String,
    tasks: SyncSender<Task>,
}

/// Takes a line for the log.
pub type SayLine = dyn Fn(Level, &str) + Send + Sync;

type Task = Box<dyn FnOnce(&mut Clerk) + Send>;

impl Certificates {
    /// Begins. `say` takes lines for the log.
    pub fn start(settings: Settings, say: Box<SayLine>) -> std::io::Result<Self> {
        let keys = Keys::of(&settings.name);
        let said = hear(settings.shown(), keys.acme(), say);
        let limits = Limits { questions: LOOKS_MAX, bytes: 1 << 20, together: 64 };
        let looks = Line::start("acme challenges", settings.clone(), limits, Arc::clone(&said))?;
        let (tasks, waiting) = sync_channel(TASKS_MAX);
        let clerk = Clerk { settings, link: None, rests_until: None, said };
        thread::Builder::new().name("acme orders".to_owned()).spawn(move || clerk.run(&waiting))?;
        Ok(Self { keys, looks, tasks })
    }

    /// Has every node answer a challenge for the next minutes.
    pub async fn offer(&self, challenge: &str, answer: Vec<u8>) -> Result<(), Away> {
        let mut commands = redis::pipe();
        commands.cmd("SET").arg(self.keys.challenge(challenge)).arg(answer).arg("PX").arg(CHALLENGE_MS);
        self.ask(commands).await.map(drop)
    }

    /// The answer to a challenge; `None` if no node has offered one, or the server does not say so soon.
    pub async fn answer(&self, challenge: &str) -> Option<Vec<u8>> {
        let mut commands = redis::pipe();
        commands.cmd("GETRANGE").arg(self.keys.challenge(challenge)).arg(0).arg(ANSWER_BYTES_MAX - 1);
        let told = self.looks.ask(commands, None)?;
        match tokio::time::timeout(LOOK_MAX, told).await {
            Ok(Ok(answers)) => answers.first().and_then(bytes),
            Ok(Err(_)) | Err(_) => None,
        }
    }

    /// How it stands with an order.
    pub async fn look(&self, order: &str) -> Result<OrderState, Away> {
        let mut commands = redis::pipe();
        commands.cmd("GETRANGE").arg(self.keys.certificate(order)).arg(0).arg(CERTIFICATE_BYTES_MAX - 1);
        commands.cmd("GET").arg(self.keys.order_failures(order));
        commands.cmd("PTTL").arg(self.keys.order_wait(order));
        let answers = self.ask(commands).await?;
        let [certificate, failures, wait] = &answers[..] else { return Err(Away) };
        Ok(OrderState {
            certificate: bytes(certificate),
            failures: text(failures).and_then(|text| text.parse().ok()).unwrap_or_default(),
            wait: match wait {
                // There is none (-2), or one that no larder wrote (-1).
                Value::Int(left) => u64::try_from(*left).ok().map(Duration::from_millis),
                _ => None,
            },
        })
    }

    /// Gives a certificate to all nodes for so long.
    pub async fn put(&self, order: &str, certificate: Vec<u8>, time: Duration) -> Result<(), Away> {
        let mut commands = redis::pipe();
        commands.cmd("SET").arg(self.keys.certificate(order)).arg(certificate).arg("PX").arg(millis(time));
        self.ask(commands).await.map(drop)
    }

    /// Tells all nodes that an order has failed, so often in a row, and how long none should try again.
    pub async fn fail(&self, order: &str, failures: u32, wait: Duration) -> Result<(), Away> {
        let (failed, wait_key) = (self.keys.order_failures(order), self.keys.order_wait(order));
        let mut commands = redis::pipe();
        let kept = wait.saturating_add(FAILURES_KEPT);
        commands.cmd("SET").arg(failed).arg(failures).arg("PX").arg(millis(kept));
        commands.cmd("SET").arg(wait_key).arg(1).arg("PX").arg(millis(wait));
        self.ask(commands).await.map(drop)
    }

    /// Forgets that an order has failed.
    pub async fn succeed(&self, order: &str) -> Result<(), Away> {
        let mut commands = redis::pipe();
        commands.cmd("DEL").arg(self.keys.order_failures(order)).arg(self.keys.order_wait(order));
        self.ask(commands).await.map(drop)
    }

    /// Takes the right to order, unless another node has it.
    pub async fn take(&self, order: &str) -> Result<Option<OrderRight>, Away> {
        // It is there before it is asked for, so that it is given up even if the answer comes too late.
        let right = OrderRight { lock: self.keys.order_lock(order), token: random_word(), tasks: self.tasks.clone() };
        let (lock, token) = (right.lock.clone(), right.token.clone());
        let is_taken = done(&self.tasks, move |clerk| clerk.ask(&set_lock(&lock, &token))).await?;
        match is_taken.first() {
            Some(Value::Okay) => Ok(Some(right)),
            Some(Value::Nil) => Ok(None),
            _ => Err(Away),
        }
    }

    async fn ask(&self, commands: redis::Pipeline) -> Result<Vec<Value>, Away> {
        done(&self.tasks, move |clerk| clerk.ask(&commands)).await
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        self.looks.end();
    }
}

impl OrderRight {
    /// Keeps it for further thirty seconds. False if another node has it.
    pub async fn keep(&self) -> Result<bool, Away> {
        let (lock, token) = (self.lock.clone(), self.token.clone());
        done(&self.tasks, move |clerk| clerk.keep(&lock, &token)).await
    }
}

impl Drop for OrderRight {
    fn drop(&mut self) {
        let (lock, token) = (std::mem::take(&mut self.lock), std::mem::take(&mut self.token));
        // If it cannot be given up now, it ends by itself.
        let _ = self.tasks.try_send(Box::new(move |clerk| {
            let _ = clerk.give_up(&lock, &token);
        }));
    }
}

/// Who asks the server, one question after the other: a lock is looked at and changed over one connection.
struct Clerk {
    settings: Settings,
    link: Option<Link>,
    /// Nothing is asked before, as the server could not be reached.
    rests_until: Option<Instant>,
    said: Arc<Hear>,
}

impl Clerk {
    fn run(mut self, tasks: &Receiver<Task>) {
        while let Ok(task) = tasks.recv() {
            task(&mut self);
        }
    }

    fn ask(&mut self, commands: &redis::Pipeline) -> Result<Vec<Value>, Away> {
        self.over_link(|kept, settings| Link::ask_over(kept, settings, |link| link.ask(commands)))
    }

    fn over_link<T>(&mut self, ask: impl FnOnce(&mut Option<Link>, &Settings) -> Result<T, Fault>) -> Result<T, Away> {
        if self.rests_until.is_some_and(|until| Instant::now() < until) {
            return Err(Away);
        }
        match ask(&mut self.link, &self.settings) {
            Ok(answer) => Ok(answer),
            Err(fault) => {
                if matches!(fault, Fault::Unreachable(_)) {
                    self.rests_until = Some(Instant::now() + REST);
                }
                self.link = None;
                (self.said)(Some(&fault));
                Err(Away)
            }
        }
    }

    /// Whether a lock is this node's, for a while from now on.
    fn keep(&mut self, lock: &str, token: &str) -> Result<bool, Away> {
        self.over_link(|kept, settings| {
            let mut extend = redis::pipe();
            extend.cmd("PEXPIRE").arg(lock).arg(LOCK_MS);
            if Self::change(kept, settings, (lock, token), &extend)? {
                return Ok(true);
            }
            // It may have ended, or the server has lost it.
            let answers = Link::ask_over(kept, settings, |link| link.ask(&set_lock(lock, token)))?;
            Ok(matches!(answers.first(), Some(Value::Okay)))
        })
    }

    fn give_up(&mut self, lock: &str, token: &str) -> Result<bool, Away> {
        self.over_link(|kept, settings| {
            let mut delete = redis::pipe();
            delete.cmd("DEL").arg(lock);
            Self::change(kept, settings, (lock, token), &delete)
        })
    }

    /// Does something to a lock that has this token. False if it has another, or none.
    fn change(
        kept: &mut Option<Link>,
        settings: &Settings,
        (lock, token): (&str, &str),
        deed: &redis::Pipeline,
    ) -> Result<bool, Fault> {
        Link::ask_over(kept, settings, |link| {
            let mut look = redis::pipe();
            look.cmd("WATCH").arg(lock).cmd("GET").arg(lock);
            let answers = link.ask(&look)?;
            if answers.last().and_then(text) != Some(token) {
                let mut leave = redis::pipe();
                leave.cmd("UNWATCH");
                return link.ask(&leave).map(|_| false);
            }
            let mut change = redis::pipe();
            change.cmd("MULTI");
            for command in deed.cmd_iter() {
                change.add_command(command.clone());
            }
            change.cmd("EXEC");
            // Nothing happens if another has changed it since.
            Ok(link.ask(&change)?.last().is_some_and(|answer| !items(answer).is_empty()))
        })
    }
}

/// Has what the server refuses written to the log, once in a while. Whether it is away is not for this to say.
fn hear(server: String, keys: String, say: Box<SayLine>) -> Arc<Hear> {
    seldom(SAID_AGAIN, move |fault| {
        let fault = match fault {
            // What a key of the wrong type is refused with.
            Fault::WrongType { .. } => &Fault::NoCertificate(keys.clone()),
            fault => fault,
        };
        say(Level::Warn, &format!("cluster: {server} shares no certificates: it {fault}"));
    })
}

/// Has the clerk do something, and waits for that.
async fn done<T: Send + 'static>(
    tasks: &SyncSender<Task>,
    task: impl FnOnce(&mut Clerk) -> Result<T, Away> + Send + 'static,
) -> Result<T, Away> {
    let (tell, told) = oneshot::channel();
    let task = Box::new(move |clerk: &mut Clerk| {
        // Who has left is not asked for any more.
        if !tell.is_closed() {
            drop(tell.send(task(clerk)));
        }
    });
    tasks.try_send(task).map_err(|_| Away)?;
    match tokio::time::timeout(TASK_MAX, told).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => Err(Away),
    }
}

fn set_lock(lock: &str, token: &str) -> redis::Pipeline {
    let mut set = redis::pipe();
    set.cmd("SET").arg(lock).arg(token).arg("NX").arg("PX").arg(LOCK_MS);
    set
}

/// The bytes of a key that is there.
fn bytes(answer: &Value) -> Option<Vec<u8>> {
    match answer {
        Value::BulkString(bytes) if !bytes.is_empty() => Some(bytes.clone()),
        _ => None,
    }
}

/// A time as the server takes it: ten years at most.
fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX).clamp(1, 10 * 365 * 24 * 3600 * 1000)
}

/// How many looks for challenges wait at once: anybody may ask for one.
const LOOKS_MAX: usize = 256;
/// How long a look for a challenge may take.
const LOOK_MAX: Duration = Duration::from_millis(300);
const TASKS_MAX: usize = 256;
/// How long a question waits: more than connecting to one server and asking it.
const TASK_MAX: Duration = Duration::from_secs(5);
/// How long nothing is asked of a server that could not be reached.
const REST: Duration = Duration::from_secs(1);
/// Longer than any try at an order.
const CHALLENGE_MS: u64 = 15 * 60 * 1000;
/// How long the right to order lasts if nobody keeps it.
const LOCK_MS: u64 = 30_000;
/// How long after its wait a failure counts for the next one.
const FAILURES_KEPT: Duration = Duration::from_secs(24 * 3600);
/// How often the same refusal is written to the log.
const SAID_AGAIN: Duration = Duration::from_secs(3600);
const ANSWER_BYTES_MAX: usize = 64 << 10;
const CERTIFICATE_BYTES_MAX: usize = 1 << 20;
