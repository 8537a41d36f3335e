//! The client's side: `vcl_recv` to `vcl_deliver`, and `vcl_synth`.

use std::io::Write as _;
use std::net::IpAddr;

use larder_cache::KeyRef;
use larder_conf::model::LogLevel;
use larder_http::digits::{DIGITS_MAX, digits};
use larder_http::{Known, Method, Version, list, status};
use larder_store::Whole;
use larder_vcl::steps::{Action, Step};

use crate::context::Cx;
use crate::exchange::{Cause, Exchange};
use crate::policy::{Ask, Delivery, Turn};
use crate::records;
use crate::site::VclPolicy;

use super::filters::{esi_base, has_ranges, of_response};
use super::headers::{append_member, collect, keep_original, takes_gzip, weaken_tag};
use super::run::{run, run_at};
use super::turns::{failed, finish, passes, turned};
use super::variables::client::client_address;
use super::variables::page;
use super::{conditions, labels, now, seconds, xids};

/// `vcl_recv` and `vcl_hash`.
pub fn ask(policy: &VclPolicy, ex: &mut Exchange, cx: &Cx) -> Ask {
    if !is_in_order(ex) {
        ex.reply.framing.keep_alive = false;
        cx.stats().bad_requests.add(1);
        return Ask::Turn(Turn::Bad);
    }
    prepare(policy, ex);
    records::vcl(&policy.vcl, None, ex, cx);
    let turn = cx.now();
    ex.vcl.turn = Some(turn);
    let now = seconds(turn);
    let mut recv = run_at(policy, Step::Recv, now, ex, cx);
    let mut policy = policy;
    if recv.action == Action::Vcl
        && let Some(labelled) = labels::switch(policy, recv.label, ex, cx)
    {
        records::vcl(&labelled.vcl, labels::name(policy, recv.label), ex, cx);
        policy = labelled;
        prepare(policy, ex);
        recv = run_at(policy, Step::Recv, now, ex, cx);
    }
    if recv.action == Action::Fail {
        return Ask::Turn(failed(policy, ex, cx));
    }
    if policy.parameters.http_gzip_support && !matches!(recv.action, Action::Pipe | Action::Pass) {
        wash_accept_encoding(ex);
    }
    ex.upstream.cache_key.clear();
    if run_at(policy, Step::Hash, now, ex, cx).action == Action::Fail {
        return Ask::Turn(failed(policy, ex, cx));
    }
    ex.upstream.cache_key.extend_from_slice(&policy.place);
    match recv.action {
        Action::Hash => look(policy, ex, cx),
        Action::Pass => {
            ex.vcl.client.passed_by = Some((Step::Recv, recv.at));
            Ask::Turn(passes(policy, ex, cx))
        }
        Action::Pipe if ex.vcl.client.esi_level > 0 => {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("an include cannot be piped, and is passed"));
            Ask::Turn(passes(policy, ex, cx))
        }
        Action::Pipe => Ask::Turn(pipes(policy, ex, cx)),
        Action::Purge => Ask::Turn(purged(policy, ex, cx)),
        _ => Ask::Turn(turned(policy, recv, ex, cx)),
    }
}

/// Whether the request can be understood: its `Connection` names nothing that belongs to the message itself, and an old
/// client says how long its body is.
fn is_in_order(ex: &Exchange) -> bool {
    let head = &ex.asked.head;
    let mut named = head.fields.all_known(Known::Connection).flat_map(list::members);
    let is_bad = named.any(|name| matches!(Known::of(name), Known::Host | Known::ContentLength));
    let has_body = matches!(head.method, Method::Post | Method::Put);
    let is_endless = head.version == Version::Http10 && has_body && !head.fields.contains_known(Known::ContentLength);
    !is_bad && !is_endless
}

fn look(policy: &VclPolicy, ex: &mut Exchange, cx: &Cx) -> Ask {
    let Some(zone) = policy.zone else { return Ask::Turn(passes(policy, ex, cx)) };
    if !ex.vcl.client.always_miss {
        return Ask::Look(zone);
    }
    match super::lookup::miss(policy, ex, cx) {
        None => {
            cx.stats().misses.add(1);
            Ask::Refresh(zone)
        }
        Some(turn) => Ask::Turn(turn),
    }
}

/// Makes the request ready for the first sub, and again after a restart.
fn prepare(policy: &VclPolicy, ex: &mut Exchange) {
    if !ex.vcl.client.is_ready {
        ex.vcl.client.is_ready = true;
        if ex.vcl.client.xid == 0 {
            xids::number_request(ex);
        }
        prepare_fields(policy, ex);
        if ex.vcl.client.esi_level == 0 {
            records::added_fields(ex, &[Known::XForwardedFor, Known::Via]);
        }
    }
    if let Some(url) = ex.request.way.url.take() {
        // The client has not asked for it, or not for it alone.
        let method = ex.asked.head.method_name().to_vec();
        ex.asked.head.ask(&method, &url);
        if ex.vcl.is_changed {
            let method = ex.vcl.original.method_name().to_vec();
            ex.vcl.original.ask(&method, &url);
        }
        records::url(ex);
    }
    let client = &mut ex.vcl.client;
    client.is_hit = false;
    client.is_hitmiss = false;
    client.is_hitpass = false;
    client.waited_since = None;
    client.filters = None;
    ex.vcl.fetch.reset();
    ex.vcl.page = None;
    ex.vcl.body.clear();
}

/// What Varnish writes into each request.
fn prepare_fields(policy: &VclPolicy, ex: &mut Exchange) {
    if let Some(host) = ex.asked.head.target_host() {
        let host = host.to_vec();
        ex.asked.head.fields.set_as(Known::Host, "Host", &host);
    }
    if ex.vcl.client.esi_level > 0 {
        // The page that includes it has them already.
        return;
    }
    let mut address = ex.eval.lend();
    match client_address(ex) {
        Some(client) => append_ip(client.ip().to_canonical(), &mut address),
        None => address.extend_from_slice(b"0.0.0.0"),
    }
    let fields = &mut ex.asked.head.fields;
    append_member(fields, Known::XForwardedFor, &address);
    append_member(fields, Known::Via, &policy.names.via);
    collect(fields, Known::CacheControl);
    ex.eval.take_back(address);
}

/// Writes an address; one of IPv4 comes with nearly every request.
fn append_ip(ip: IpAddr, out: &mut Vec<u8>) {
    let IpAddr::V4(ip) = ip else {
        // Writing to memory does not fail.
        return drop(write!(out, "{ip}"));
    };
    for (at, part) in ip.octets().into_iter().enumerate() {
        if at > 0 {
            out.push(b'.');
        }
        if part >= 100 {
            out.push(b'0' + part / 100);
        }
        if part >= 10 {
            out.push(b'0' + part / 10 % 10);
        }
        out.push(b'0' + part % 10);
    }
}

/// There are two forms of a page, so there are two requests: for gzip, and for no coding.
fn wash_accept_encoding(ex: &mut Exchange) {
    let Some(now) = ex.asked.head.fields.get_known(Known::AcceptEncoding) else { return };
    match takes_gzip(ex) {
        true if now == b"gzip" && ex.asked.head.fields.all_known(Known::AcceptEncoding).nth(1).is_none() => {}
        true => {
            keep_original(ex);
            ex.asked.head.fields.set_line(Known::AcceptEncoding, "Accept-Encoding", b"Accept-Encoding: gzip\r\n");
        }
        false => {
            keep_original(ex);
            ex.asked.head.fields.remove("Accept-Encoding");
        }
    }
}

/// `vcl_pipe`: the request is passed, and the connection ends behind its response.
fn pipes(policy: &VclPolicy, ex: &mut Exchange, cx: &Cx) -> Turn {
    super::fetch::begin_pipe(policy, ex, cx);
    let ended = run(policy, Step::Pipe, ex, cx);
    match ended.action {
        Action::Pipe => {
            let Some(pipe) = cx.worker.shared.pipes.enter(policy.parameters.pipe_sess_max) else {
                cx.stats().pipes_refused.add(1);
                cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("too many pipes (pipe_sess_max)"));
                return failed(policy, ex, cx);
            };
            cx.stats().pipes.add(1);
            super::fetch::pipe(policy, pipe, ex, cx);
            ex.reply.framing.keep_alive = false;
            Turn::Pass(Cause::Other("pipe"))
        }
        _ => turned(policy, ended, ex, cx),
    }
}

/// Drops all variants of the page, and runs `vcl_purge`. A request that begins again from there misses, whatever its key.
fn purged(policy: &VclPolicy, ex: &mut Exchange, cx: &Cx) -> Turn {
    ex.vcl.client.always_miss = true;
    if let Some(zone) = policy.zone.filter(|_| !ex.is_walk()) {
        let variants = cx.zone(zone).purge(&KeyRef::new(&ex.upstream.cache_key), cx.now());
        ex.tally.has_purged |= cx.worker.shared.sharing.is_shared();
        cx.stats().purges.add(1);
        cx.stats().purged.add(variants as u64);
    }
    let ended = run(policy, Step::Purge, ex, cx);
    turned(policy, ended, ex, cx)
}

/// `vcl_deliver`, for the response that is laid out in the exchange.
pub fn deliver(policy: &VclPolicy, ex: &mut Exchange, cx: &Cx) -> Delivery {
    if ex.vcl.fetch.pipe.is_some() {
        // What comes through a pipe is the backend's alone.
        finish(ex);
        return Delivery::Shaped { has_ranges: false };
    }
    let now = seconds(now(ex, cx));
    add_fields(policy, now, ex);
    let is_packed = policy.parameters.http_gzip_support
        && ex.reply.fields.get_known(Known::ContentEncoding).is_some_and(|coding| coding.eq_ignore_ascii_case(b"gzip"));
    ex.vcl.client.unpacks = is_packed && !takes_gzip(ex);
    if ex.vcl.client.unpacks {
        weaken_tag(&mut ex.reply.fields);
    }
    records::response(ex);
    let ended = run_at(policy, Step::Deliver, now, ex, cx);
    match ended.action {
        Action::Deliver => {
            let is_not_modified = conditions::is_not_modified(ex, cx);
            if ex.log.client.is_some() {
                ex.log.filters = Some(of_response(policy, ex).into_bytes());
            }
            finish(ex);
            if is_not_modified {
                if ex.vcl.client.unpacks {
                    ex.reply.fields.remove("Content-Encoding");
                }
                return Delivery::NotModified;
            }
            if !ex.vcl.client.skips_esi {
                ex.reply.esi_base = esi_base(ex).map(Box::from);
            }
            Delivery::Shaped { has_ranges: has_ranges(policy, ex) }
        }
        _ => Delivery::Turn(turned(policy, ended, ex, cx)),
    }
}

/// The length of the body as the cache or the backend has it.
fn length_of(ex: &Exchange) -> Option<u64> {
    let page = ex.vcl.page.as_ref().filter(|_| ex.vcl.client.is_hit);
    let stored = page.and_then(|page| page.body.whole()).map(Whole::len);
    stored.or_else(|| match page {
        Some(page) => page.fields.content_length(),
        None => ex.upstream.fields.as_ref()?.content_length(),
    })
}

/// What Varnish adds to each response, but for what `vcl_deliver` drops unread.
fn add_fields(policy: &VclPolicy, now: f64, ex: &mut Exchange) {
    let adds = policy.vcl.adds;
    let mut room = [0; DIGITS_MAX];
    if adds.number {
        add_number(ex);
    }
    if adds.age {
        let page = ex.vcl.page.as_ref().filter(|_| ex.vcl.client.is_hit);
        let age = page.map_or(now - ex.vcl.fetch.answer.origin, |page| page::age(page, now));
        ex.reply.fields.set_sound(Known::Age, "Age", digits(age.max(0.0) as u64, &mut room));
    }
    if adds.via {
        append_member(&mut ex.reply.fields, Known::Via, &policy.names.via);
    }
    if adds.length
        && let Some(length) = length_of(ex)
    {
        ex.reply.fields.set_sound(Known::ContentLength, "Content-Length", digits(length, &mut room));
    }
    // What is passed has the ranges of its origin, if any; what is fetched for the cache has ours, kept or not.
    let has_ranges = policy.parameters.http_range_support && ex.reply.status == status::OK;
    if adds.ranges && has_ranges && !ex.vcl.fetch.is_uncacheable {
        ex.reply.fields.set_sound(Known::AcceptRanges, "Accept-Ranges", b"bytes");
    }
}

/// `X-Varnish`: the number of the request, and that of the one that has fetched the page.
fn add_number(ex: &mut Exchange) {
    let mut room = [0; DIGITS_MAX];
    let mut number = ex.eval.lend();
    number.extend_from_slice(digits(ex.vcl.client.xid, &mut room));
    match ex.vcl.page.as_ref().filter(|_| ex.vcl.client.is_hit) {
        Some(page) => {
            let stored = page.fields.get_known(Known::XVarnish).unwrap_or_default();
            number.push(b' ');
            number.extend(stored.iter().take_while(|byte| byte.is_ascii_digit()));
        }
        // A hit that was passed.
        None if ex.vcl.client.is_hit => {
            number.push(b' ');
            number.extend_from_slice(digits(ex.vcl.fetch.xid, &mut room));
        }
        None => {}
    }
    ex.reply.fields.set_sound(Known::XVarnish, "X-Varnish", &number);
    ex.eval.take_back(number);
}
