//! Variables about the client and its connection, with the header of the PROXY protocol.

use larder_http::Known;
use larder_http::proxy_protocol::Addresses;

use crate::auth;
use crate::context::Cx;
use crate::exchange::Exchange;
use crate::variable::{ClientVar, ProxyVar};

use super::append::{append_display, append_ip, append_joined, append_millis, append_number, append_some, append_text};

/// Appends the value; false if there is none.
pub fn append(var: ClientVar, ex: &Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    match var {
        ClientVar::BinaryRemoteAddr => match ex.remote_ip() {
            Some(std::net::IpAddr::V4(ip)) => append_some(Some(&ip.octets()), out),
            Some(std::net::IpAddr::V6(ip)) => append_some(Some(&ip.octets()), out),
            None => append_text("unix:", out),
        },
        ClientVar::Connection => append_number(ex.asked.client.id, out),
        ClientVar::ConnectionRequests => append_number(ex.asked.number, out),
        ClientVar::ConnectionTime => append_millis(crate::worker::age(&ex.asked.client, cx.now()).as_millis(), out),
        ClientVar::Https => append_text(if ex.asked.client.is_secure() { "on" } else { "" }, out),
        ClientVar::Pipe => append_text(if cx.worker.is_pipelined.get() { "p" } else { "." }, out),
        ClientVar::ProxyAddXForwardedFor => {
            if append_joined(ex.asked.head.fields.all_known(Known::XForwardedFor), "x-forwarded-for", out) {
                out.extend_from_slice(b", ");
            }
            append_remote_addr(ex, out)
        }
        ClientVar::RealipRemoteAddr => match ex.asked.client.peer {
            Some(peer) => append_ip(peer.ip(), out),
            None => append_text("unix:", out),
        },
        ClientVar::RealipRemotePort => match ex.asked.client.peer {
            Some(peer) => append_number(peer.port(), out),
            None => true,
        },
        ClientVar::RemoteAddr => append_remote_addr(ex, out),
        ClientVar::RemotePort => match (ex.asked.real_ip, ex.asked.client.peer) {
            (Some((_, 0)), _) | (None, None) => true,
            (Some((_, port)), _) => append_number(port, out),
            (None, Some(peer)) => append_number(peer.port(), out),
        },
        ClientVar::RemoteUser => {
            let credentials = auth::credentials(ex.asked.head.fields.get_known(Known::Authorization));
            append_some(credentials.as_ref().map(|credentials| credentials.user()), out)
        }
        ClientVar::Scheme => append_text(if ex.asked.client.is_secure() { "https" } else { "http" }, out),
        ClientVar::ServerAddr => match ex.asked.client.local {
            Some(local) => append_ip(local.ip(), out),
            None => append_text("unix:", out),
        },
        ClientVar::ServerPort => match ex.asked.client.local {
            Some(local) => append_number(local.port(), out),
            None => true,
        },
        ClientVar::TcpinfoRtt | ClientVar::TcpinfoRttvar | ClientVar::TcpinfoSndCwnd | ClientVar::TcpinfoRcvSpace => {
            false
        }
    }
}

/// Appends a part of the PROXY protocol's header; false if there was none.
pub fn append_proxy(var: ProxyVar, ex: &Exchange, out: &mut Vec<u8>) -> bool {
    let Some(header) = &ex.asked.client.proxy else { return false };
    let Addresses::Inet { source, destination } = &header.addresses else { return false };
    match var {
        ProxyVar::Addr => append_display(source.ip(), out),
        ProxyVar::Port => append_display(source.port(), out),
        ProxyVar::ServerAddr => append_display(destination.ip(), out),
        ProxyVar::ServerPort => append_display(destination.port(), out),
    }
}

fn append_remote_addr(ex: &Exchange, out: &mut Vec<u8>) -> bool {
    match ex.remote_ip() {
        Some(ip) => append_ip(ip, out),
        None => append_text("unix:", out),
    }
}
