//! `early_hints`: a 103 of the origin (RFC 8297) is passed on while its answer is being made.
//!
//! Only the client whose request fetches gets them. They are not stored, so a hit has none.

use std::convert::Infallible;

use larder_http::{Fields, Version, status};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::net::Inbound;
use crate::site::{Backend, Protocol};
use crate::text::Text;

use super::response_fields;
use super::wire::{HeadWriter, Wire};

/// Hints on their way to the client.
pub struct Hinting<'a> {
    backend: &'a Backend,
    wire: Wire,
    incoming: UnboundedReceiver<Fields>,
    /// What the client has not taken yet.
    rest: Vec<u8>,
}

/// The channel for hints of the fetch that is about to begin; none unless this client may get hints.
///
/// Larder takes at most 32 of them from an origin, together no larger than a head may be.
pub fn begin<'a>(
    backend: &'a Backend,
    ex: &mut Exchange,
    cx: &Cx,
    from: &Inbound<'_>,
) -> (Option<Hinting<'a>>, Option<UnboundedSender<Fields>>) {
    let texts = &cx.loc(ex).modules.early_hints;
    let is_reachable = match from {
        Inbound::Connection(_) | Inbound::Stream(_) => true,
        Inbound::Watched(_) | Inbound::Inside(_) | Inbound::Nobody => false,
    };
    let may = !texts.is_empty()
        && is_reachable
        && !ex.is_sub()
        && ex.asked.head.version != Version::Http10
        && matches!(backend.protocol, Protocol::Http(_))
        && Text::any_true(texts, ex, cx);
    if !may {
        return (None, None);
    }
    let (hints, incoming) = unbounded_channel();
    (Some(Hinting { backend, wire: Wire::of(ex.asked.head.version), incoming, rest: Vec::new() }), Some(hints))
}

/// Passes hints on while the fetch runs. A client that does not read them, or has left, does not delay the answer.
pub async fn pass(hinting: Option<&mut Hinting<'_>>, from: &Inbound<'_>) -> Infallible {
    let Some(hinting) = hinting else { return std::future::pending().await };
    while hinting.send(from).await.is_ok() {
        match hinting.incoming.recv().await {
            Some(fields) => hinting.lay_out(&fields, from),
            None => break,
        }
    }
    std::future::pending().await
}

impl Hinting<'_> {
    /// What came with the answer goes out with it, and so does the end of what has begun to go out.
    pub fn finish(mut self, from: &Inbound<'_>, ex: &mut Exchange) {
        while let Ok(fields) = self.incoming.try_recv() {
            self.lay_out(&fields, from);
        }
        ex.reply.hints.append(&mut self.rest);
    }

    fn lay_out(&mut self, fields: &Fields, from: &Inbound<'_>) {
        let mut out = Vec::new();
        let mut head = HeadWriter::new(&mut out, self.wire);
        head.status(status::EARLY_HINTS, b"Early Hints");
        let mut has_any = false;
        for (known, name, value) in fields.iter_known() {
            if response_fields::is_hint(known, name, self.backend) {
                head.field(name, value);
                has_any = true;
            }
        }
        head.end();
        if !has_any {
            return;
        }
        match from {
            Inbound::Stream(handle) => drop(handle.send_head(&out, false)),
            Inbound::Connection(_) => self.rest.extend_from_slice(&out),
            Inbound::Watched(_) | Inbound::Inside(_) | Inbound::Nobody => {}
        }
    }

    /// Writes what is left. May be dropped and called again: nothing is lost or sent twice.
    async fn send(&mut self, from: &Inbound<'_>) -> std::io::Result<()> {
        match from {
            Inbound::Connection(io) => io.write_out(&mut self.rest).await,
            Inbound::Stream(_) | Inbound::Watched(_) | Inbound::Inside(_) | Inbound::Nobody => Ok(()),
        }
    }
}
