//! Another way to decide, written by hand: it proves that a policy is one arm of an enum and one file.
//!
//! It passes visitors with a session, has keys of its own, keeps every good page for a minute and ten seconds of grace,
//! names itself in the head, and asks for `/` in place of a page that is not there.

use std::time::Duration;

use larder_cache::{Object, Rules, VaryKey};
use larder_http::{Fields, Known, Method, ResponseHead, Time, status};

use crate::exchange::{Cause, Exchange};

use super::{Ask, Delivery, Judgement, Keep, Kept, Lifetime, OnStale, Question, Turn, Validators};

const TTL: Duration = Duration::from_secs(60);
const GRACE: Duration = Duration::from_secs(10);

pub fn ask(ex: &mut Exchange) -> Ask {
    if larder_http::cookie(ex.asked.head.fields.all_known(Known::Cookie), b"session").is_some() {
        return Ask::Pass(Cause::Other("a session"));
    }
    ex.upstream.cache_key.extend_from_slice(b"page:");
    ex.upstream.cache_key.extend_from_slice(&ex.request.uri);
    Ask::Look(0)
}

pub fn rules() -> Rules {
    Rules::default()
}

pub fn stores() -> bool {
    true
}

pub fn on_stale(object: &Object, is_updating: bool, now: Time) -> OnStale {
    match may_be_stale(object, now) {
        true if is_updating => OnStale::Deliver,
        true => OnStale::DeliverAndRefetch,
        false => OnStale::Fetch,
    }
}

pub fn may_be_stale(object: &Object, now: Time) -> bool {
    object.staleness(now) < GRACE
}

pub fn question(stores: bool, ex: &Exchange) -> Question {
    Question {
        stores,
        as_get: stores && ex.request.method == Method::Head,
        leaves_out: false,
        validators: Validators::default(),
    }
}

pub fn judge() -> Judgement {
    Judgement::Response
}

pub fn intercepts() -> bool {
    false
}

pub fn keep(answer: &ResponseHead, now: Time) -> Keep {
    match answer.status {
        200 => {
            let fields = Fields::clone(&answer.fields);
            Keep::Until(Kept { lifetime: confirmed(now), fields, vary: VaryKey::none(), esi_base: None })
        }
        _ => Keep::Not { why: Cause::Other("not 200"), uncacheable_for: None },
    }
}

pub fn confirmed(now: Time) -> Lifetime {
    Lifetime { fresh_until: now.plus(TTL), stale_while_revalidate: GRACE, stale_if_error: GRACE }
}

pub fn deliver(ex: &mut Exchange) -> Delivery {
    if ex.reply.status == status::NOT_FOUND && ex.request.way.restarts == 0 {
        ex.request.uri = b"/".to_vec();
        ex.request.way.uri_changed = true;
        return Delivery::Turn(Turn::Restart);
    }
    ex.reply.fields.set("X-Policy", b"written");
    Delivery::Go
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;
    use std::sync::Arc;

    use larder_cache::Front;
    use larder_conf::model::ListenAddress;
    use larder_store::Piece;
    use larder_testkit::{Answer, Origin};

    use crate::assemble::site_of;
    use crate::clock;
    use crate::exchange::{Client, Secured};
    use crate::local::{End, Local};
    use crate::logs::{LogFiles, Logs};
    use crate::net::Inbound;
    use crate::request;
    use crate::request::deliver::{self, Outgoing};
    use crate::request::receive::{Received, receive};
    use crate::site::{Handler, Policy, Site};
    use crate::worker::{Shared, Worker};

    /// A site with one location, which has this policy in place of nginx's.
    fn site(origin: &Origin) -> Site {
        let text = format!(
            "error_log stderr; events {{}} http {{ access_log off; proxy_cache_path /nowhere keys_zone=one:1m max_size=0;
             server {{ location / {{ proxy_pass http://{}; }} }} }}",
            origin.address()
        );
        let mut site = site_of(&text);
        for loc in &mut site.locations {
            if let Handler::Origin(origin) = &mut loc.handler {
                origin.policy = Policy::Written;
            }
        }
        site
    }

    /// One worker that serves it.
    fn worker(site: Site) -> Rc<Worker> {
        let site = Arc::new(site);
        let (logs, trouble) = Logs::new(&site, &LogFiles::default());
        assert_eq!(trouble, [""; 0]);
        let local = Local {
            counts: site.counted.of_worker(0),
            fronts: site.caches.zones.iter().map(|_| RefCell::new(Front::new())).collect(),
            site,
            logs,
            files: RefCell::default(),
            groups: RefCell::default(),
            end: End::default(),
        };
        Worker::new(Rc::new(local), Shared::default())
    }

    /// The head and the body of the answer to `GET path` with these lines.
    async fn ask(worker: &Rc<Worker>, path: &str, lines: &str) -> String {
        let cx = worker.cx();
        let listener = &cx.site().listeners[0];
        let client = Rc::new(Client {
            id: 1,
            peer: None,
            local: None,
            bound: ListenAddress::Unix("/run/a.sock".into()),
            began: clock::now(),
            proxy: None,
            secured: Secured::Not,
            xid: Cell::default(),
            log: RefCell::default(),
            ids: None,
        });
        let mut ex = worker.exchange(&client);
        let text = format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n{lines}\r\n");
        let Received::Head { step, .. } = receive(text.as_bytes(), listener, &mut ex, &cx, clock::now()) else {
            panic!("the head is whole");
        };
        let response = request::run(step, &mut ex, &cx, Inbound::Nobody).await.expect("there is an answer");
        let mut head = Vec::new();
        let outgoing = deliver::write(response, &mut ex, &cx, &mut head);
        format!("{}{}", String::from_utf8_lossy(&head), body(outgoing).await)
    }

    /// The body, to its end.
    async fn body(outgoing: Outgoing) -> String {
        let mut reader = match outgoing {
            Outgoing::Stream { reader, .. } => reader,
            Outgoing::Stored(object, _) => object.body.reader(),
            _ => return String::new(),
        };
        let mut all = Vec::new();
        loop {
            match reader.next(1024).await {
                Piece::Data(bytes) => all.extend_from_slice(&bytes),
                Piece::End => return String::from_utf8_lossy(&all).into_owned(),
                _ => panic!("it is small, and the origin goes on"),
            }
        }
    }

    #[test]
    fn another_policy_decides_by_the_same_machine() {
        let origin = Origin::start().expect("a port is free");
        // What nginx's directives would obey: neither kept, nor kept for so long.
        origin.answer("/", Answer::ok("home").field("Cache-Control", "no-store"));
        origin.answer("/gone", Answer::status("404 Not Found").body("gone"));
        let runtime = tokio::runtime::LocalRuntime::new().expect("a runtime");
        runtime.block_on(async {
            let worker = worker(site(&origin));
            let first = ask(&worker, "/", "").await;
            assert!(first.starts_with("HTTP/1.1 200") && first.ends_with("home"), "{first}");
            assert!(first.contains("X-Policy: written\r\n"), "{first}");
            // Another host, the same key.
            let second = ask(&worker, "/", "Accept: a/b\r\n").await;
            assert!(second.contains("X-Policy: written\r\n") && second.ends_with("home"), "{second}");
            assert_eq!(origin.count(), 1, "the second is a hit");
            ask(&worker, "/", "Cookie: session=1\r\n").await;
            assert_eq!(origin.count(), 2, "who has a session is passed");
            let restarted = ask(&worker, "/gone", "").await;
            assert!(restarted.starts_with("HTTP/1.1 200") && restarted.ends_with("home"), "{restarted}");
            assert_eq!(origin.count(), 3, "the page is not there, and the one in its place is a hit");
        });
    }
}
