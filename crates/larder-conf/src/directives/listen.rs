//! `listen` and `server_name`.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{Action, Args, DirectiveInfo, SERVER, repeated};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{At, Listen, ListenAddress, Pattern, ServerName};
use crate::span::Span;
use crate::tree::{Directive, Word};
use crate::values;

pub const TABLE: &[DirectiveInfo] = &[
    repeated("listen", SERVER, Args::AtLeast(1), Action::Level(listen)),
    repeated("server_name", SERVER, Args::AtLeast(1), Action::Level(server_name)),
];

/// The parameters of `listen`.
const PARAMETERS: &[&str] = &[
    "default_server",
    "backlog",
    "rcvbuf",
    "sndbuf",
    "ipv6only",
    "so_keepalive",
    "deferred",
    "fastopen",
    "reuseport",
    "bind",
    "ssl",
    "http2",
    "proxy_protocol",
    "larder_admin",
];

/// How many ports one `listen 8000-8010` may name.
const PORTS_MAX: u16 = 1024;

/// `*:port`, as a server without `listen` has it.
pub fn listen_default(port: u16) -> Listen {
    Listen {
        address: ListenAddress::Tcp(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port)),
        is_default: false,
        backlog: None,
        rcvbuf: None,
        sndbuf: None,
        ipv6only: true,
        keepalive: None,
        deferred: false,
        fastopen: None,
        ssl: false,
        http2: false,
        proxy_protocol: false,
        admin: false,
        has_options: false,
        span: Span { file: 0, start: 0, end: 0 },
    }
}

fn listen(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let addresses = addresses(d.arg(0))?;
    let mut listen = Listen { span: d.span(), ..listen_default(0) };
    let outcome = d.args[1..].iter().try_for_each(|word| parameter(&mut listen, d, word));
    // Also with a wrong parameter it is known where the server listens, so that no error follows from it.
    // QUIC is another socket than TCP.
    if !d.args.iter().any(|word| word.text == "quic") {
        let listens = addresses.into_iter().map(|address| Listen { address, ..listen.clone() });
        level.listens.extend(listens);
    }
    outcome
}

fn parameter(listen: &mut Listen, d: &Directive, word: &Word) -> Outcome {
    let text = word.text.as_str();
    let wrong = |what: &str| {
        let value = text.split_once('=').map_or(text, |(_, value)| value);
        Diagnostic::error(format!("invalid {what} \"{value}\"")).at(word.span)
    };
    let small = |value: &str| values::number(value).and_then(|n| i32::try_from(n).ok());
    match (text, text.split_once('=')) {
        ("default_server" | "default", _) => {
            listen.is_default = true;
            return Ok(());
        }
        // As in nginx these are options of the protocol, not of the socket.
        ("ssl", _) => {
            listen.ssl = true;
            return Ok(());
        }
        ("http2", _) => {
            listen.http2 = true;
            return Ok(());
        }
        ("proxy_protocol", _) => {
            listen.proxy_protocol = true;
            return Ok(());
        }
        ("larder_admin", _) => {
            listen.admin = true;
            return Ok(());
        }
        ("http3" | "quic", _) => {
            return Err(Diagnostic::error(format!("\"listen ... {text}\" is not available in this version of larder"))
                .at(word.span)
                .label("HTTP/3 is not built yet")
                .help("remove this line; browsers use HTTP/2 where \"listen ... ssl\" and \"http2 on\" stand"));
        }
        ("spdy", _) => {
            return Err(d.invalid_parameter(word).help("SPDY is gone; use \"http2 on\""));
        }
        ("bind" | "reuseport" | "multipath", _) => {}
        ("deferred", _) => listen.deferred = true,
        (_, Some(("backlog", value))) => {
            listen.backlog = Some(small(value).filter(|&n| n > 0).ok_or_else(|| wrong("backlog"))?);
        }
        (_, Some(("rcvbuf", value))) => listen.rcvbuf = Some(values::size(value).ok_or_else(|| wrong("rcvbuf"))?),
        (_, Some(("sndbuf", value))) => listen.sndbuf = Some(values::size(value).ok_or_else(|| wrong("sndbuf"))?),
        (_, Some(("fastopen", value))) => listen.fastopen = Some(small(value).ok_or_else(|| wrong("fastopen"))?),
        (_, Some(("setfib", _) | ("accept_filter", _))) => {
            return Err(Diagnostic::error(format!("\"{text}\" is not supported on this platform"))
                .at(word.span)
                .label("only FreeBSD has it"));
        }
        (_, Some(("ipv6only", value))) => {
            listen.ipv6only = match value {
                "on" => true,
                "off" => false,
                _ => {
                    return Err(d.invalid_parameter(word).label("it must be ipv6only=on or ipv6only=off"));
                }
            };
        }
        (_, Some(("so_keepalive", value))) => {
            listen.keepalive = Some(keepalive(value).ok_or_else(|| wrong("so_keepalive value:"))?);
        }
        _ => return Err(d.unknown_parameter(word, PARAMETERS)),
    }
    listen.has_options = true;
    Ok(())
}

/// `on`, `off` or `idle:interval:count`, of which the kernel's own values are kept.
fn keepalive(value: &str) -> Option<bool> {
    if let Some(flag) = values::flag(value) {
        return Some(flag);
    }
    let parts: Vec<&str> = value.split(':').collect();
    let is_time = |text: &&str| text.is_empty() || values::time(text).is_some();
    let is_count = |text: &&str| text.is_empty() || values::number(text).is_some();
    let fits = parts.len() <= 3
        && parts.iter().take(2).all(is_time)
        && parts.iter().skip(2).all(is_count)
        && parts.iter().any(|part| !part.is_empty());
    fits.then_some(true)
}

/// One address, or one a port where a range is given.
fn addresses(word: &Word) -> Outcome<Vec<ListenAddress>> {
    const DEFAULT_PORT: u16 = 80;
    let text = word.text.as_str();
    let wrong = |what: &str| {
        Diagnostic::error(format!("{what} in \"{text}\" of the \"listen\" directive"))
            .at(word.span)
            .label("it must be a port, address:port, [IPv6]:port, *:port or unix:/path")
    };
    if let Some(path) = text.strip_prefix("unix:") {
        // A unix socket's address in the kernel has this much room.
        const SOCKET_PATH_BYTES_MAX: usize = 107;
        return match path.len() {
            0 => Err(wrong("no path")),
            length if length > SOCKET_PATH_BYTES_MAX => Err(wrong("too long path")),
            _ => Ok(vec![ListenAddress::Unix(path.into())]),
        };
    }
    let (host, ports) = match text.rsplit_once(':') {
        _ if text.starts_with('[') => match text.split_once("]:") {
            Some((host, ports)) => (&host[1..], Some(ports)),
            None => (text.strip_suffix(']').map_or("", |host| &host[1..]), None),
        },
        Some((host, ports)) => (host, Some(ports)),
        None if text.bytes().all(|b| b.is_ascii_digit() || b == b'-') => ("*", Some(text)),
        None => (text, None),
    };
    let (first, last) = match ports {
        None => (DEFAULT_PORT, DEFAULT_PORT),
        Some(ports) => {
            let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
            let port = |text: &str| values::number(text).and_then(|n| u16::try_from(n).ok()).filter(|&n| n > 0);
            (port(first).ok_or_else(|| wrong("invalid port"))?, port(last).ok_or_else(|| wrong("invalid port"))?)
        }
    };
    if first > last || last - first >= PORTS_MAX {
        return Err(wrong("invalid port range"));
    }
    let ip = match host {
        "" => return Err(wrong("no host")),
        "*" => Ipv4Addr::UNSPECIFIED.into(),
        "localhost" => Ipv4Addr::LOCALHOST.into(),
        _ if text.starts_with('[') => host.parse::<Ipv6Addr>().map_err(|_| wrong("invalid IPv6 address"))?.into(),
        _ => host.parse::<Ipv4Addr>().map_err(|_| wrong("host not found"))?.into(),
    };
    Ok((first..=last).map(|port| ListenAddress::Tcp(SocketAddr::new(ip, port))).collect())
}

fn server_name(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    for word in &d.args {
        let name = name(word)?;
        if word.text.contains('/') && !matches!(name, ServerName::Regex(_)) {
            cx.report(
                Diagnostic::warning(format!("server name \"{}\" has suspicious symbols", word.text)).at(word.span),
            );
        }
        level.first_name.get_or_insert_with(|| match &name {
            ServerName::Hostname => cx.options.hostname.to_ascii_lowercase(),
            ServerName::Dotted(name) => name.clone(),
            // With its tilde, as `$server_name` of nginx has it.
            ServerName::Regex(_) => word.text.clone(),
            ServerName::Exact(_) | ServerName::Suffix(_) | ServerName::Prefix(_) => word.text.to_ascii_lowercase(),
        });
        level.names.push(At { value: name, span: word.span });
    }
    Ok(())
}

fn name(word: &Word) -> Outcome<ServerName> {
    let text = word.text.as_str();
    if let Some(source) = text.strip_prefix('~') {
        if source.is_empty() {
            return Err(Diagnostic::error(format!("empty regex in server name \"{text}\"")).at(word.span));
        }
        // As nginx does: names are compared in lower case, so a pattern with capitals ignores case.
        let caseless = source.bytes().any(|b| b.is_ascii_uppercase());
        return Ok(ServerName::Regex(Pattern { source: source.to_owned(), caseless, span: word.span }));
    }
    if text.eq_ignore_ascii_case("$hostname") {
        return Ok(ServerName::Hostname);
    }
    let lower = text.to_ascii_lowercase();
    let is_bare = matches!(lower.as_str(), "*" | "*." | ".");
    if is_bare || (lower.starts_with('*') && !lower.starts_with("*.")) {
        return Err(Diagnostic::error(format!("server name \"{text}\" is invalid"))
            .at(word.span)
            .label("a \"*\" stands for whole labels at one end, as in *.example.org and www.example.*")
            .help("a server for all other names is the one with \"listen ... default_server\""));
    }
    if !is_name_or_wildcard(&lower) {
        return Ok(ServerName::Exact(lower));
    }
    Ok(match (lower.strip_prefix("*."), lower.strip_suffix(".*"), lower.strip_prefix('.')) {
        (Some(rest), _, _) => ServerName::Suffix(format!(".{rest}")),
        (_, Some(rest), _) => ServerName::Prefix(format!("{rest}.")),
        (_, _, Some(rest)) => ServerName::Dotted(rest.to_owned()),
        _ => ServerName::Exact(lower),
    })
}

/// Whether a name is one, or has its `*` where a wildcard has it. nginx takes others too as long as no
/// second server makes it look for names.
pub fn is_name_or_wildcard(name: &str) -> bool {
    let rest = name.strip_prefix("*.").or_else(|| name.strip_suffix(".*")).or_else(|| name.strip_prefix('.'));
    let rest_is_name = rest.is_none_or(|rest| !rest.is_empty());
    let rest = rest.unwrap_or(name);
    rest_is_name && !rest.contains('*') && !rest.contains("..") && !rest.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Word {
        Word { text: text.into(), span: Span { file: 0, start: 0, end: 0 }, quoted: false, starts_line: false }
    }

    #[test]
    fn listen_addresses_are_read_as_nginx_reads_them() {
        for (text, expected) in [
            ("80", Some("0.0.0.0:80")),
            ("*:80", Some("0.0.0.0:80")),
            ("*", Some("0.0.0.0:80")),
            ("127.0.0.1", Some("127.0.0.1:80")),
            ("127.0.0.1:8080", Some("127.0.0.1:8080")),
            ("localhost:81", Some("127.0.0.1:81")),
            ("localhost", Some("127.0.0.1:80")),
            ("[::]:80", Some("[::]:80")),
            ("[::1]", Some("[::1]:80")),
            ("8080-8081", Some("0.0.0.0:8080 0.0.0.0:8081")),
            ("127.0.0.1:1-2", Some("127.0.0.1:1 127.0.0.1:2")),
            ("unix:/run/x.sock", Some("/run/x.sock")),
            ("unix:", None),
            ("0", None),
            ("65536", None),
            ("80a", None),
            ("[::1", None),
            ("[x]:80", None),
            (":80", None),
            ("82-81", None),
            ("-", None),
            ("1-65535", None),
            ("example.org:80", None),
            ("", None),
            ("[", None),
        ] {
            let found = addresses(&word(text)).ok().map(|all| {
                let shown: Vec<String> = all
                    .iter()
                    .map(|address| match address {
                        ListenAddress::Tcp(address) => address.to_string(),
                        ListenAddress::Unix(path) => path.display().to_string(),
                    })
                    .collect();
                shown.join(" ")
            });
            assert_eq!(found.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn server_names_have_their_kinds() {
        let exact = |s: &str| Some(ServerName::Exact(s.into()));
        for (text, expected) in [
            ("Example.ORG", exact("example.org")),
            ("", exact("")),
            ("_", exact("_")),
            ("*.example.org", Some(ServerName::Suffix(".example.org".into()))),
            ("www.*", Some(ServerName::Prefix("www.".into()))),
            (".example.org", Some(ServerName::Dotted("example.org".into()))),
            ("$hostname", Some(ServerName::Hostname)),
            ("*", None),
            ("*.", None),
            (".", None),
            ("*example.org", None),
            ("www.*.org", exact("www.*.org")),
            ("*.www.*", exact("*.www.*")),
            ("a..b", exact("a..b")),
            ("~", None),
        ] {
            assert_eq!(name(&word(text)).ok(), expected, "{text}");
        }
        for (text, caseless) in [("~^a$", false), ("~^A$", true)] {
            assert!(matches!(name(&word(text)), Ok(ServerName::Regex(p)) if p.caseless == caseless), "{text}");
        }
    }
}
