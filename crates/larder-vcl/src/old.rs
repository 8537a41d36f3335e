//! Forms of older versions of VCL, and how they are written now.

use larder_source::{Diagnostic, Span};

/// What to say about inline C.
pub fn inline_c(span: Span) -> Box<Diagnostic> {
    Diagnostic::error("larder runs no inline C")
        .at(span)
        .help("the modules std, header, cookie, var and blob have what C is mostly used for")
}

/// How a declaration of VCL 3 is written now.
pub fn declaration(word: &str) -> Option<&'static str> {
    match word {
        "director" => {
            Some("import directors; and in sub vcl_init: new NAME = directors.round_robin(); NAME.add_backend(...);")
        }
        _ => None,
    }
}

/// How a statement of VCL 3 is written now. What was purged with an expression in parentheses is banned now.
pub fn statement(word: &str, has_parentheses: bool) -> Option<&'static str> {
    if word == "purge" && has_parentheses {
        return Some("write ban(...);, with the same expression");
    }
    find(
        word,
        &[
            ("error", "write return (synth(STATUS, \"REASON\"));"),
            ("remove", "write unset"),
            ("purge", "write return (purge); in vcl_recv"),
            ("esi", "write set beresp.do_esi = true;"),
            ("ban_url", "write ban(\"req.url ~ \" + PATTERN);"),
            ("purge_url", "write ban(\"req.url ~ \" + PATTERN);"),
            ("log", "write import std; and std.log(...);"),
            ("rollback", "write import std; and std.rollback(req);"),
            ("restart", "write return (restart);"),
            ("pass", "write return (pass);"),
            ("deliver", "write return (deliver);"),
        ],
    )
}

/// What a sub of VCL 3 is called now.
pub fn sub(name: &str) -> Option<&'static str> {
    find(
        name,
        &[
            ("vcl_fetch", "it is called vcl_backend_response now, and req is bereq there"),
            ("vcl_error", "it is called vcl_synth now; vcl_backend_error is for errors of a backend"),
            ("vcl_timeout", "it is gone, and nothing has taken its place"),
            ("vcl_discard", "it is gone, and nothing has taken its place"),
        ],
    )
}

/// What a variable of an older VCL is called now.
pub fn variable(name: &str) -> Option<&'static str> {
    find(
        name,
        &[
            ("req.request", "it is called req.method now"),
            ("bereq.request", "it is called bereq.method now"),
            ("req.backend", "it is called req.backend_hint now"),
            ("req.backend.healthy", "write import std; and std.healthy(req.backend_hint)"),
            ("beresp.response", "it is called beresp.reason now"),
            ("resp.response", "it is called resp.reason now"),
            ("obj.response", "it is called obj.reason now, or resp.reason in vcl_synth"),
            ("beresp.cacheable", "it is beresp.uncacheable now, the other way round"),
            ("obj.cacheable", "it is beresp.uncacheable now, the other way round"),
            ("beresp.saintmode", "it is gone: return (abandon) or (retry), or set beresp.grace"),
            ("beresp.backend.port", "it is gone"),
            ("beresp.do_pass", "write set beresp.uncacheable = true;"),
            ("client.port", "write import std; and std.port(client.ip)"),
            ("server.port", "write import std; and std.port(server.ip)"),
            ("obj.lastuse", "it is gone; obj.age and obj.hits are left"),
            ("req.hash.ignore_busy", "it is called req.hash_ignore_busy now"),
        ],
    )
}

/// How a `return` of an older VCL is written now. `sub` is where it stands.
pub fn action(sub: &str, action: &str) -> Option<&'static str> {
    match (sub, action) {
        ("vcl_recv", "lookup") => Some("write return (hash);"),
        ("vcl_hash", "hash") => Some("write return (lookup);"),
        ("vcl_hit", "fetch" | "miss") => {
            Some("write return (restart); after set req.hash_always_miss = true;, or return (pass);")
        }
        (_, "hit_for_pass") => {
            Some("write return (pass(120s)); in vcl_backend_response, or set beresp.uncacheable = true;")
        }
        ("vcl_recv" | "vcl_hit" | "vcl_miss" | "vcl_pass" | "vcl_deliver", "error") => {
            Some("write return (synth(STATUS, \"REASON\"));")
        }
        ("vcl_backend_response", "fetch") => Some("write return (deliver); or return (retry);"),
        ("vcl_backend_response" | "vcl_backend_error", "restart") => Some("write return (retry);"),
        _ => None,
    }
}

/// How a function that modules have no longer is written now.
pub fn function(name: &str) -> Option<&'static str> {
    find(
        name,
        &[
            ("std.real2integer", "write std.integer(real = ...)"),
            ("std.real2time", "write std.time(real = ...)"),
            ("std.time2integer", "write std.integer(time = ...)"),
            ("std.time2real", "write std.real(time = ...)"),
            ("std.restart", "write return (restart);"),
            ("std.author", "it is gone"),
        ],
    )
}

fn find(word: &str, table: &[(&str, &'static str)]) -> Option<&'static str> {
    table.iter().find(|(old, _)| *old == word).map(|(_, now)| *now)
}
