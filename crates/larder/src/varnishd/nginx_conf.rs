//! The configuration that `larder varnishd` writes for itself.

use std::fmt::Write;
use std::path::Path;

use super::listen::Found;
use super::settings::Settings;
use super::storages::{Storage, TRANSIENT};

/// What the configuration depends on.
pub struct Facts<'a> {
    /// Where to listen.
    pub endpoints: &'a [Found],
    /// The parameters.
    pub settings: &'a Settings,
    /// Where pages are stored.
    pub storages: &'a [Storage],
    /// The folder of this server.
    pub folder: &'a Path,
    /// The name of this server.
    pub identity: &'a str,
    /// The user that serves, if that can be chosen.
    pub user: Option<&'a str>,
    /// Where the error log is.
    pub log: &'a str,
    /// The path of the VCL.
    pub vcl: Option<&'a Path>,
    /// Labels, and the paths of their VCLs.
    pub labels: &'a [(String, &'a Path)],
    /// Names of VCLs, and their paths.
    pub names: &'a [(&'a str, &'a Path)],
}

/// The text of the configuration.
pub fn write(facts: &Facts<'_>) -> String {
    write_below(&["# Written by `larder varnishd`.", "daemon off;", "master_process off;"], facts)
}

/// The same for whoever serves it as any other configuration, below these lines.
pub fn write_below(head: &[&str], facts: &Facts<'_>) -> String {
    let mut text = String::new();
    let mut line = |depth: usize, words: &str| {
        let _ = writeln!(text, "{:width$}{words}", "", width = 4 * depth);
    };
    head.iter().for_each(|words| line(0, words));
    line(0, "worker_processes auto;");
    if let Some(user) = facts.user {
        line(0, &format!("user {};", quoted(user)));
    }
    line(0, &format!("error_log {} warn;", quoted(facts.log)));
    line(0, "events {}");
    line(0, "http {");
    for directive in LIKE_VARNISHD {
        line(1, &format!("{directive};"));
    }
    for directive in limits(facts.settings) {
        line(1, &format!("{directive};"));
    }
    line(1, &format!("client_body_temp_path {};", quoted(&facts.folder.join("bodies").display().to_string())));
    write_storages(facts, &mut line);
    line(1, "server {");
    let backlog = facts.settings.own().backlog.max(1);
    for endpoint in facts.endpoints {
        let proxy = if endpoint.endpoint.has_proxy_header { " proxy_protocol" } else { "" };
        for listen in endpoint.listens() {
            let name = quoted(&endpoint.endpoint.name);
            line(2, &format!("listen {}{proxy} backlog={backlog};", quoted(&listen)));
            line(2, &format!("vcl_endpoint {name} {};", quoted(listen.strip_prefix("unix:").unwrap_or(&listen))));
        }
    }
    line(2, &format!("vcl_identity {};", quoted(facts.identity)));
    match facts.vcl {
        Some(path) => {
            line(2, &format!("vcl {};", quoted(&path.display().to_string())));
            for (label, path) in facts.labels {
                line(2, &format!("vcl_label {label} {};", quoted(&path.display().to_string())));
            }
            for (name, path) in facts.names {
                line(2, &format!("vcl_name {name} {};", quoted(&path.display().to_string())));
            }
            write_parameters(facts.settings, &mut line);
            line(2, "location / {}");
        }
        None => line(2, "location / { return 503; }"),
    }
    line(1, "}");
    line(0, "}");
    text
}

/// What nginx does to requests and answers and varnishd does not.
const LIKE_VARNISHD: [&str; 11] = [
    "access_log off",
    "server_tokens off",
    "etag off",
    "merge_slashes off",
    "underscores_in_headers on",
    "ignore_invalid_headers off",
    "client_max_body_size 0",
    "keepalive_requests 1000000000",
    "default_type application/octet-stream",
    "absolute_redirect off",
    "vcl_raw_requests on",
];

/// The limits of what clients may send and how long they may take.
fn limits(settings: &Settings) -> Vec<String> {
    let own = settings.own();
    let idle = (settings.vcl().timeout_idle * 1000.0).ceil().max(1.0);
    // A head that is within the limit of its bytes is not too long for the number of its lines.
    let lines = (own.head_bytes_max / own.line_bytes_max).max(1);
    vec![
        format!("keepalive_timeout {idle}ms"),
        format!("client_header_timeout {idle}ms"),
        format!("client_body_timeout {idle}ms"),
        format!("send_timeout {}s", own.send_seconds.max(1)),
        format!("large_client_header_buffers {lines} {}", own.line_bytes_max),
        // The first line of a head takes five of the lines that Varnish counts.
        format!("max_headers {}", own.lines_max - 5),
        format!("http2 {}", if settings.speaks_http2 { "on" } else { "off" }),
    ]
}

fn write_storages(facts: &Facts<'_>, line: &mut impl FnMut(usize, &str)) {
    for storage in facts.storages.iter().filter(|storage| storage.name != TRANSIENT) {
        let (path, words) = storage.zone(facts.folder);
        line(1, &format!("proxy_cache_path {} {words};", quoted(&path.display().to_string())));
    }
    if let Some(first) = facts.storages.iter().find(|storage| storage.name != TRANSIENT) {
        line(1, &format!("proxy_cache {};", first.name));
    }
}

fn write_parameters(settings: &Settings, line: &mut impl FnMut(usize, &str)) {
    for (name, value) in settings.all() {
        line(2, &format!("vcl_parameter {name} {};", quoted(value)));
    }
}

/// Quotes a word.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}
