//! `early_hints`: a 103 of the origin (RFC 8297) is passed on while its answer is being made. By RFC 9111 all interim
//! responses are passed on; where the client's connection waits for the fetch alone, together with the answer.
//!
//! Only the client whose request fetches gets them. They are not stored, so a hit has none.

use std::convert::Infallible;

use larder_http::{Version, status};
use larder_origin::Interim;
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
    incoming: UnboundedReceiver<Interim>,
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
) -> (Option<Hinting<'a>>, Option<UnboundedSender<Interim>>) {
    let texts = &cx.loc(ex).modules.early_hints;
    let is_reachable = match from {
        Inbound::Connection(_) | Inbound::Stream(_) => true,
        Inbound::Watched(_) | Inbound::Inside(_) | Inbound::Nobody => false,
    };
    let may = is_reachable
        && may_get_any(backend, ex)
        && (backend.is_rfc9111 || !texts.is_empty() && Text::any_true(texts, ex, cx));
    if !may {
        return (None, None);
    }
    let (hints, incoming) = unbounded_channel();
    (Some(Hinting { backend, wire: Wire::of(ex.asked.head.version), incoming, rest: Vec::new() }), Some(hints))
}

/// Whether the client understands interim responses, and the origin may send some.
fn may_get_any(backend: &Backend, ex: &Exchange) -> bool {
    !ex.is_sub() && ex.asked.head.version != Version::Http10 && matches!(backend.protocol, Protocol::Http(_))
}

/// Interim responses for which nobody waits: they go out with the answer.
pub struct Gathered(UnboundedReceiver<Interim>);

/// The channel for the interim responses of a fetch that nobody but the client's connection drives.
pub fn gather(backend: &Backend, ex: &Exchange) -> (Option<Gathered>, Option<UnboundedSender<Interim>>) {
    if !backend.is_rfc9111 || !may_get_any(backend, ex) {
        return (None, None);
    }
    let (hints, incoming) = unbounded_channel();
    (Some(Gathered(incoming)), Some(hints))
}

impl Gathered {
    /// Has them sent before the answer.
    pub fn finish(mut self, backend: &Backend, ex: &mut Exchange) {
        let wire = Wire::of(ex.asked.head.version);
        while let Ok(interim) = self.0.try_recv() {
            if let Some(head) = head_of(&interim, backend, wire) {
                ex.reply.hints.extend_from_slice(&head);
            }
        }
    }
}

/// The head of an interim response; `None` if nothing of it is for the client.
fn head_of(interim: &Interim, backend: &Backend, wire: Wire) -> Option<Vec<u8>> {
    // Without `early_hints` for all of them, hints alone are passed on.
    if interim.status != status::EARLY_HINTS && !backend.is_rfc9111 {
        return None;
    }
    let mut out = Vec::new();
    let mut head = HeadWriter::new(&mut out, wire);
    head.status(interim.status, b"");
    let mut has_any = false;
    for (known, name, value) in interim.fields.iter_known() {
        if response_fields::is_hint(known, name, backend) {
            head.field(name, value);
            has_any = true;
        }
    }
    head.end();
    (has_any || interim.status != status::EARLY_HINTS).then_some(out)
}

/// Passes hints on while the fetch runs. A client that does not read them, or has left, does not delay the answer.
pub async fn pass(hinting: Option<&mut Hinting<'_>>, from: &Inbound<'_>) -> Infallible {
    let Some(hinting) = hinting else { return std::future::pending().await };
    while hinting.send(from).await.is_ok() {
        match hinting.incoming.recv().await {
            Some(interim) => hinting.lay_out(&interim, from),
            None => break,
        }
    }
    std::future::pending().await
}

impl Hinting<'_> {
    /// What came with the answer goes out with it, and so does the end of what has begun to go out.
    pub fn finish(mut self, from: &Inbound<'_>, ex: &mut Exchange) {
        while let Ok(interim) = self.incoming.try_recv() {
            self.lay_out(&interim, from);
        }
        ex.reply.hints.append(&mut self.rest);
    }

    fn lay_out(&mut self, interim: &Interim, from: &Inbound<'_>) {
        let Some(out) = head_of(interim, self.backend, self.wire) else { return };
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
