//! The values of variables for a request; each kind has a file. A variable without a value appends nothing and returns
//! false, which logs write as `-`.

use larder_http::Known;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::variable::Var;

mod append;
mod client;
mod date;
mod map;
mod modules;
mod path;
pub mod pattern;
pub mod profile;
mod request;
mod response;
mod secure_link;
mod server;
mod slice;
#[cfg(test)]
mod tests;
mod text;
mod tls;
mod upstream;
pub mod userid;

use append::{append_joined, append_some, named};
pub use path::{append_filename, document_root, facts, links};
pub use request::{arg, leaving_out, method_name, query_of};

/// Appends the value; false if there is none.
pub fn append(var: &Var, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    ex.eval.reads_answer |= is_of_answer(var);
    match var {
        Var::Client(var) => client::append(*var, ex, cx, out),
        Var::Request(var) => request::append(*var, ex, cx, out),
        Var::File(var) => path::append(*var, ex, cx, out),
        Var::Upstream(var) => upstream::append(*var, ex, cx, out),
        Var::Response(var) => response::append(*var, ex, out),
        Var::Server(var) => server::append(*var, ex, cx, out),
        Var::Module(var) => modules::append(*var, ex, cx, out),
        Var::Http(name) if &**name == "cookie" && omits_cookies(ex) => false,
        Var::Http(name) => append_joined(named(&ex.asked.head.fields, name), name, out),
        Var::SentHttp(name) => response::append_sent(name, ex, cx, out),
        Var::SentTrailer(name) => match &ex.reply.trailers {
            Some(fields) => append_joined(named(fields, name), name, out),
            None => false,
        },
        Var::UpstreamHttp(name) => match &ex.upstream.fields {
            Some(fields) => append_joined(named(fields, name), name, out),
            None => false,
        },
        Var::UpstreamCookie(name) => {
            let fields = ex.upstream.fields.as_ref();
            append_some(fields.and_then(|fields| upstream::set_cookie(fields.all_known(Known::SetCookie), name)), out)
        }
        Var::Cookie(_) if omits_cookies(ex) => false,
        Var::Cookie(name) => {
            let value = larder_http::cookie(ex.asked.head.fields.all_known(Known::Cookie), name.as_bytes());
            append_some(value, out)
        }
        Var::Arg(name) => {
            ex.eval.reads_ignored |=
                request::leaving_out(ex, cx).is_some_and(|profile| profile.is_ignored(name.as_bytes()));
            append_some(arg(&ex.request.args, name.as_bytes()).filter(|_| !name.is_empty()), out)
        }
        Var::Tls(var) => tls::append(*var, &ex.asked.client, out),
        Var::ProxyProtocol(var) => client::append_proxy(*var, ex, out),
        Var::ProxyTlv(name) => {
            append_some(ex.asked.client.proxy.as_ref().and_then(|header| header.tlv(name)).as_deref(), out)
        }
        Var::Slot(slot) => map::append(*slot, ex, cx, out),
    }
}

/// Whether a variable is of the answer, or of what has led to it.
fn is_of_answer(var: &Var) -> bool {
    matches!(
        var,
        Var::Upstream(_)
            | Var::Response(_)
            | Var::SentHttp(_)
            | Var::SentTrailer(_)
            | Var::UpstreamHttp(_)
            | Var::UpstreamCookie(_)
    )
}

/// Whether the cookies of the request are left out now, as they change no page.
pub fn omits_cookies(ex: &Exchange) -> bool {
    ex.eval.leaves_out && ex.upstream.omits_cookies
}
