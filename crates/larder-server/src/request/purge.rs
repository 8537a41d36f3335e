//! Purging by request: `*_cache_purge` in its three forms.
//!
//! A key that ends in `*` means every key that begins with what stands before it.

use std::sync::Arc;

use bytes::Bytes;
use ipnet::IpNet;
use larder_cache::KeyRef;
use larder_conf::model::{Drops, LogLevel};
use larder_http::status;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::policy::directives;
use crate::site::{Handler, MethodPurge, Origin, PurgePolicy};
use crate::target;
use crate::text::Text;

use super::{Content, Response, Slow, Step, Synth, synth};

/// What is to be dropped.
pub struct Purge {
    /// The zone.
    pub zone: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The page of the key, or everything.
    pub drops: Drops,
    /// How success is told.
    pub answer: Answer,
}

/// How success is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A page that names the key, as of the cache purge module.
    Page,
    /// 204, as of NGINX Plus.
    NoContent,
}

/// A location without an origin, such as `location ~ /purge(/.*)`, answers here.
pub fn without_origin(zone: usize, key: Option<&Text>, by: Option<&MethodPurge>, ex: &mut Exchange, cx: &Cx) -> Step {
    let shown = |ex: &mut Exchange| key.map(|key| key.value(ex, cx)).unwrap_or_default();
    let (key, drops) = match by.map(|by| (by, standing(by, ex))) {
        None => (shown(ex), Drops::Page),
        Some((by, Standing::Purges)) => (directives::as_of_a_get(ex, shown), by.drops),
        Some((_, Standing::Forbidden)) => return Step::Synth(Synth::Status(status::FORBIDDEN)),
        Some((_, Standing::Asks)) => return Step::Synth(Synth::Status(status::NOT_FOUND)),
    };
    Slow::Purge(Box::new(Purge { zone, key, drops, answer: Answer::Page })).into()
}

/// The step for a request that purges, in a location with a cache; `None` for every other request.
pub fn asked(origin: &Origin, ex: &mut Exchange, cx: &Cx) -> Option<Step> {
    let cache = origin.policy.directives()?.cache.as_ref()?;
    if ex.is_sub() {
        // A subrequest has the method of its client's request: that of `auth_request` must not purge.
        return None;
    }
    let (drops, answer) = match cache.purge.as_ref()? {
        PurgePolicy::Method(by) => match standing(by, ex) {
            Standing::Asks => return None,
            Standing::Forbidden => return Some(Step::Synth(Synth::Status(status::FORBIDDEN))),
            Standing::Purges => (by.drops, Answer::Page),
        },
        PurgePolicy::When(conditions) => {
            if !Text::any_true(conditions, ex, cx) {
                return None;
            }
            (Drops::Page, Answer::NoContent)
        }
    };
    let zone = match directives::zone(cache, ex, cx) {
        Ok(Some(zone)) => zone,
        Ok(None) => return None,
        Err(name) => {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("cache \"{name}\" not found"));
            return Some(Step::Synth(Synth::Status(status::INTERNAL_SERVER_ERROR)));
        }
    };
    target::note_proxy_host(&origin.backend, ex, cx);
    directives::as_of_a_get(ex, |ex| directives::make_key(cache, &origin.backend, ex, cx));
    Some(Slow::Purge(Box::new(Purge { zone, key: ex.upstream.cache_key.clone(), drops, answer })).into())
}

/// What a request is where `*_cache_purge` lets a method purge; `None` where there is no such rule.
pub fn standing_of(handler: &Handler, ex: &Exchange) -> Option<Standing> {
    let by = match handler {
        Handler::Purge { by, .. } => by.as_ref()?,
        handler => match handler.origin()?.policy.directives()?.cache.as_ref()?.purge.as_ref()? {
            PurgePolicy::Method(by) => by,
            PurgePolicy::When(_) => return None,
        },
    };
    Some(standing(by, ex))
}

/// What a request is where a method purges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has another method.
    Asks,
    /// It has the method, but comes from an address that may not purge.
    Forbidden,
    /// It has the method, and may.
    Purges,
}

fn standing(by: &MethodPurge, ex: &Exchange) -> Standing {
    if crate::vars::method_name(ex) != &by.method[..] {
        return Standing::Asks;
    }
    match is_from(by.from.as_deref(), ex) {
        true => Standing::Purges,
        false => Standing::Forbidden,
    }
}

/// Whether the client is in one of these networks; without any, everybody is.
pub fn is_from(nets: Option<&[IpNet]>, ex: &Exchange) -> bool {
    nets.is_none_or(|nets| ex.remote_ip().is_some_and(|ip| crate::access::is_in(nets, ip)))
}

/// Drops it, and says what came of it.
pub async fn purge(purge: Purge, ex: &mut Exchange, cx: &Cx) -> Step {
    let Purge { zone, key, drops, answer } = purge;
    let zone = Arc::clone(cx.zone(zone));
    let now = cx.now();
    let prefix = match drops {
        // Every key begins with nothing.
        Drops::Zone => Some(&b""[..]),
        Drops::Page => key.strip_suffix(b"*"),
    };
    let is_found = match prefix {
        Some(prefix) => {
            // Looks at every page in memory.
            let prefix = prefix.to_vec();
            tokio::task::spawn_blocking(move || zone.purge_prefix(&prefix, now)).await.is_ok()
        }
        None => zone.purge(&KeyRef::new(&key), now) > 0,
    };
    // Others may have found it.
    cx.worker.shared.sharing.known().await;
    if !is_found {
        return Step::Synth(Synth::Status(status::NOT_FOUND));
    }
    match answer {
        Answer::NoContent => {
            ex.reply.status = status::NO_CONTENT;
            Step::Deliver(Response::own(Content::Empty))
        }
        Answer::Page => {
            ex.reply.status = status::OK;
            ex.reply.fields.set("Content-Type", b"text/html");
            let server = synth::server_name(cx.loc(ex).settings.fields.server_tokens);
            Step::Deliver(Response::own(Content::Bytes(Bytes::from(page(&key, server)))))
        }
    }
}

/// The page of the cache purge module, without the path of a file, which there is none of.
fn page(key: &[u8], server: &str) -> Vec<u8> {
    let mut page = Vec::new();
    page.extend_from_slice(b"<html>\r\n<head><title>Successful purge</title></head>\r\n<body bgcolor=\"white\">\r\n");
    page.extend_from_slice(b"<center><h1>Successful purge</h1>\r\n<br>Key : ");
    for &byte in key {
        match byte {
            b'<' => page.extend_from_slice(b"&lt;"),
            b'>' => page.extend_from_slice(b"&gt;"),
            b'&' => page.extend_from_slice(b"&amp;"),
            b'"' => page.extend_from_slice(b"&quot;"),
            byte => page.push(byte),
        }
    }
    page.extend_from_slice(b"\r\n</center>\r\n<hr><center>");
    page.extend_from_slice(server.as_bytes());
    page.extend_from_slice(b"</center>\r\n</body>\r\n</html>\r\n");
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_shown_as_text() {
        let page = String::from_utf8(page(b"httpGEThost/<script>&\"", "larder")).expect("it is text");
        assert!(page.contains("<br>Key : httpGEThost/&lt;script&gt;&amp;&quot;\r\n"), "{page}");
    }
}
