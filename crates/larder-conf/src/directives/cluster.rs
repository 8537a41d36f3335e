//! `larder_cluster`, `larder_cluster_away`, `larder_cluster_share`: what several larders share by a Redis or Valkey.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::{Action, Args, DirectiveInfo, HTTP, ONE, directive};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::HttpParts;
use crate::model::{At, Cluster, ClusterAway, ClusterServer, ClusterShare, ClusterShelf, Secret};
use crate::tree::{Directive, Word};
use crate::values;

pub const TABLE: &[DirectiveInfo] = &[
    directive("larder_cluster", HTTP, Args::AtLeast(1), Action::Http(cluster)),
    directive("larder_cluster_away", HTTP, ONE, Action::Http(away)),
    directive("larder_cluster_share", HTTP, Args::Between(1, 2), Action::Http(shelf)),
];

const PARAMETERS: &[&str] = &["name", "node", "sentinel", "ca", "timeout", "share"];

/// `redis[s]://[[USER]:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/DATABASE] [name=] [node=] [sentinel=] [ca=] [timeout=] [share=]`.
fn cluster(http: &mut HttpParts, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let mut cluster = Cluster {
        servers: Vec::new(),
        tls: false,
        user: None,
        password: None,
        database: 0,
        sentinel: None,
        ca: None,
        name: "larder".to_owned(),
        node: own_name(&cx.options.hostname),
        timeout: Duration::from_secs(1),
        share: ClusterShare::default(),
        away: ClusterAway::default(),
        shelf: None,
        span: d.span(),
    };
    let mut said = Vec::new();
    for word in d.args.iter().skip(1) {
        let Some((name, value)) = word.text.split_once('=').filter(|(name, _)| PARAMETERS.contains(name)) else {
            return Err(d.unknown_parameter(word, PARAMETERS));
        };
        if said.contains(&name) {
            let fact = format!("\"{}\" of \"larder_cluster\" is said twice", word.text);
            return Err(Diagnostic::error(fact).at(word.span).help(format!("keep one \"{name}=\"")));
        }
        said.push(name);
        match name {
            "name" => cluster.name = name_of(d, word, value)?,
            "node" => cluster.node = name_of(d, word, value)?,
            "sentinel" => cluster.sentinel = Some(name_of(d, word, value)?),
            "ca" if value.is_empty() => return Err(d.invalid_parameter_value(word, "a file")),
            "ca" => cluster.ca = Some(At { value: cx.conf_path(value), span: word.span }),
            "timeout" => {
                let time = values::time(value).filter(|time| *time <= TIMEOUT_MAX);
                cluster.timeout = time.ok_or_else(|| d.invalid_parameter_value(word, "a time of 60s at most"))?;
            }
            "share" => cluster.share = share(d, word, value)?,
            _ => return Err(d.unknown_parameter(word, PARAMETERS)),
        }
    }
    server(&mut cluster, d.arg(0))?;
    if let Some(ca) = cluster.ca.as_ref().filter(|_| !cluster.tls) {
        return Err(Diagnostic::error("\"ca=\" needs a server that speaks TLS")
            .at(ca.span)
            .help("write \"rediss://\", or leave out \"ca=\""));
    }
    http.cluster = Some(cluster);
    Ok(())
}

/// `off`, or words with commas between.
fn share(d: &Directive, word: &Word, value: &str) -> Outcome<ClusterShare> {
    let mut share = ClusterShare::nothing();
    if value == "off" {
        return Ok(share);
    }
    for what in value.split(',') {
        match what {
            "tickets" => share.tickets = true,
            "limits" => share.limits = true,
            "acme" => share.acme = true,
            _ => {
                let expected = "\"off\", or \"tickets\", \"limits\" and \"acme\" with commas between";
                return Err(d.invalid_parameter_value(word, expected));
            }
        }
    }
    Ok(share)
}

/// Reads the address. No message repeats it, as it may have a password.
fn server(cluster: &mut Cluster, word: &Word) -> Outcome {
    let wrong = |what: &str| {
        let form = "write redis://HOST:PORT, redis://USER:PASSWORD@HOST:PORT or, for TLS, rediss://HOST:PORT";
        Err(Diagnostic::error(format!("the server of \"larder_cluster\" {what}")).at(word.span).help(form))
    };
    let rest = match word.text.split_once("://") {
        Some(("redis", rest)) => rest,
        Some(("rediss", rest)) => {
            cluster.tls = true;
            rest
        }
        Some(_) | None => return wrong("begins with neither \"redis://\" nor \"rediss://\""),
    };
    let rest = match rest.rsplit_once('@') {
        None => rest,
        Some((login, rest)) => {
            let Some((user, password)) = login.split_once(':') else { return wrong("has a user without a password") };
            let (Some(user), Some(password)) = (decoded(user), decoded(password)) else {
                return wrong("has a \"%\" in its user or password that is no %XX");
            };
            cluster.user = Some(user).filter(|user| !user.is_empty());
            cluster.password = Some(Secret(password));
            rest
        }
    };
    let hosts = match rest.split_once('/') {
        None => rest,
        Some((hosts, database)) => {
            let number = values::number(database).and_then(|number| u32::try_from(number).ok());
            let Some(number) = number else { return wrong("has a database that is no number") };
            cluster.database = number;
            hosts
        }
    };
    let port_of = |port: &str| port.parse().ok().filter(|port| *port > 0);
    let usual_port = if cluster.sentinel.is_some() { SENTINEL_PORT } else { REDIS_PORT };
    for host in hosts.split(',') {
        let (host, port) = match host.strip_prefix('[').and_then(|host| host.split_once(']')) {
            Some((host, "")) => (host, Some(usual_port)),
            Some((host, port)) => (host, port.strip_prefix(':').and_then(port_of)),
            None => match host.split_once(':') {
                Some((host, port)) => (host, port_of(port)),
                None => (host, Some(usual_port)),
            },
        };
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b':');
        if host.is_empty() || !host.bytes().all(is_host) {
            return wrong("has no host, or one that cannot be");
        }
        let Some(port) = port else { return wrong("has a port that is no number from 1 to 65535") };
        cluster.servers.push(ClusterServer { host: host.to_owned(), port });
    }
    Ok(())
}

/// A text in which `%` and two hexadecimal digits are a byte.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        bytes.push(is_hex.then(|| u8::from_str_radix(digits, 16).ok()).flatten()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

fn name_of(d: &Directive, word: &Word, value: &str) -> Outcome<String> {
    // One that begins so would be an option of "larder cluster forget".
    match !value.is_empty() && !value.starts_with('-') && value.len() <= NAME_BYTES_MAX && value.bytes().all(is_of_name)
    {
        true => Ok(value.to_owned()),
        false => {
            Err(d.invalid_parameter_value(word, "up to 64 letters, digits, \".\", \"-\" or \"_\", no \"-\" first"))
        }
    }
}

fn own_name(hostname: &str) -> String {
    let name: String = hostname.chars().filter(|char| char.is_ascii() && is_of_name(*char as u8)).collect();
    match name.get(..name.len().min(NAME_BYTES_MAX)) {
        Some(name) if !name.is_empty() => name.to_owned(),
        Some(_) | None => "node".to_owned(),
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_')
}

/// `serve`, `bypass` or `stale=TIME`.
fn away(http: &mut HttpParts, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let word = d.arg(0);
    let away = match word.text.split_once('=') {
        None if word.text == "serve" => Some(ClusterAway::Serve),
        None if word.text == "bypass" => Some(ClusterAway::Bypass),
        Some(("stale", time)) => values::time(time).filter(|time| *time >= STALE_MIN).map(ClusterAway::Stale),
        Some(_) | None => None,
    };
    let expected = "\"serve\", \"bypass\" or \"stale=TIME\" with a time of 2s or more";
    let away = away.ok_or_else(|| d.invalid(word, expected))?;
    http.cluster_away = Some(At { value: away, span: d.span() });
    Ok(())
}

/// `on`, `off` or the size of the largest page, and `deadline=`.
fn shelf(http: &mut HttpParts, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let word = d.arg(0);
    let bytes = match &*word.text {
        "on" => Some(SHARE_BYTES),
        "off" => None,
        size => {
            let bytes = values::size(size).filter(|bytes| SHARE_RANGE.contains(bytes));
            Some(bytes.ok_or_else(|| d.invalid(word, "\"on\", \"off\" or a size from 1k to 64m"))?)
        }
    };
    let mut deadline = SHARE_DEADLINE;
    for word in d.args.iter().skip(1) {
        let Some(time) = word.text.strip_prefix("deadline=") else {
            return Err(d.unknown_parameter(word, &["deadline"]));
        };
        let time = values::time(time).filter(|time| SHARE_DEADLINES.contains(time));
        deadline = time.ok_or_else(|| d.invalid_parameter_value(word, "a time from 1ms to 1s"))?;
    }
    let shelf = bytes.map(|bytes| ClusterShelf { bytes, deadline });
    http.cluster_shelf = Some(At { value: shelf, span: d.span() });
    Ok(())
}

/// How large a page is at most that `on` shares.
const SHARE_BYTES: usize = 1 << 20;
const SHARE_RANGE: RangeInclusive<usize> = 1 << 10..=64 << 20;
const SHARE_DEADLINE: Duration = Duration::from_millis(5);
const SHARE_DEADLINES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(1);
const REDIS_PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;
const NAME_BYTES_MAX: usize = 64;
const TIMEOUT_MAX: Duration = Duration::from_secs(60);
/// A node that is there is heard several times in it.
const STALE_MIN: Duration = Duration::from_secs(2);
