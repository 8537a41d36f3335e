//! `access_log`, `error_log` and `log_format`.

use std::time::Duration;

use super::{Action, Args, Contexts, DirectiveInfo, HSL, HSLI, HTTP, LIMIT_EXCEPT, directive, http, repeated};
use crate::cx::{Cx, Reference};
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::{HttpParts, Level};
use crate::model::{
    AccessLog, AccessLogTarget, At, ErrorLog, LogEscape, LogFileCache, LogFormat, LogLevel, LogTarget, Syslog,
    SyslogServer,
};
use crate::tree::{Directive, Word};
use crate::{template, values};

const ACCESS_LOG: Contexts = HSLI.or(LIMIT_EXCEPT);

pub const TABLE: &[DirectiveInfo] = &[
    directive("open_log_file_cache", HSL, Args::Between(1, 4), Action::Level(open_log_file_cache)),
    repeated("access_log", ACCESS_LOG, Args::AtLeast(1), Action::Level(access_log)),
    repeated("log_format", HTTP, Args::AtLeast(2), Action::Http(log_format)),
    directive(
        "log_subrequest",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.settings.logs.subrequests, d.flag())),
    ),
    repeated(
        "error_log",
        HSL,
        Args::AtLeast(1),
        Action::Level(|l, cx, d| {
            let log = error_log(cx, d)?;
            l.list(|s| &mut s.logs.error).push(log);
            Ok(())
        }),
    ),
];

/// The levels of messages.
pub const LEVELS: &[(&str, LogLevel)] = &[
    ("emerg", LogLevel::Emerg),
    ("alert", LogLevel::Alert),
    ("crit", LogLevel::Crit),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("notice", LogLevel::Notice),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
];

/// The parts of nginx that can be debugged one by one; here all are.
const DEBUG_LEVELS: [&str; 7] =
    ["debug_core", "debug_alloc", "debug_mutex", "debug_event", "debug_http", "debug_mail", "debug_stream"];

const FACILITIES: [&str; 24] = [
    "kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock", "authpriv", "ftp", "ntp",
    "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7",
];

/// What is gathered before it is compressed, unless `buffer=` says more or less.
const GZIP_BUFFER_BYTES: usize = 64 * 1024;

/// One `error_log`, of whatever context.
pub fn error_log(cx: &Cx<'_>, d: &Directive) -> Outcome<ErrorLog> {
    let target = d.arg(0);
    let mut level = None;
    for word in &d.args[1..] {
        let found = LEVELS.iter().find(|(name, _)| *name == word.text).map(|(_, level)| *level);
        let found = found.or_else(|| DEBUG_LEVELS.contains(&word.text.as_str()).then_some(LogLevel::Debug));
        match (found, level) {
            (None, _) => {
                return Err(Diagnostic::error(format!("invalid log level \"{}\"", word.text))
                    .at(word.span)
                    .label("it must be debug, info, notice, warn, error, crit, alert or emerg"));
            }
            (Some(_), Some(known)) if known != LogLevel::Debug => {
                return Err(Diagnostic::error(format!("duplicate log level \"{}\"", word.text)).at(word.span));
            }
            (found, _) => level = found,
        }
    }
    let target = match target.text.as_str() {
        "stderr" => LogTarget::Stderr,
        "" => LogTarget::Stderr,
        text if text.starts_with("memory:") => {
            return Err(Diagnostic::error("\"error_log memory:\" is not available in this version of larder")
                .at(target.span)
                .help("log to a file or to stderr"));
        }
        text => match text.strip_prefix("syslog:") {
            Some(arguments) => LogTarget::Syslog(syslog(target, arguments)?),
            None => LogTarget::File(cx.path(text)),
        },
    };
    Ok(ErrorLog { target, level: level.unwrap_or(LogLevel::Error) })
}

/// The arguments behind `syslog:`.
fn syslog(word: &Word, arguments: &str) -> Outcome<Syslog> {
    const TAG_BYTES_MAX: usize = 32;
    let wrong = |message: String| Diagnostic::error(message).at(word.span);
    let (mut server, mut facility, mut severity, mut tag) = (None, None, None, None);
    let mut nohostname = false;
    for argument in arguments.split(',') {
        let is_duplicate = match argument.split_once('=') {
            Some(("server", value)) => {
                let parsed = match value.strip_prefix("unix:") {
                    Some(path) => SyslogServer::Unix(path.into()),
                    None => SyslogServer::Udp(with_port(value)),
                };
                if value.is_empty() {
                    return Err(wrong("no host in syslog server \"\"".to_owned()));
                }
                server.replace(parsed).is_some()
            }
            Some(("facility", value)) => {
                let at = FACILITIES.iter().position(|name| *name == value);
                let at = at.and_then(|at| u8::try_from(at).ok());
                facility.replace(at.ok_or_else(|| wrong(format!("unknown syslog facility \"{value}\"")))?).is_some()
            }
            Some(("severity", value)) => {
                let at = LEVELS.iter().position(|(name, _)| *name == value);
                let at = at.and_then(|at| u8::try_from(at).ok());
                severity.replace(at.ok_or_else(|| wrong(format!("unknown syslog severity \"{value}\"")))?).is_some()
            }
            Some(("tag", value)) => {
                if value.len() > TAG_BYTES_MAX {
                    return Err(wrong(format!("syslog tag length exceeds {TAG_BYTES_MAX}")));
                }
                if !value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                    let message = "syslog \"tag\" only allows alphanumeric characters and underscore";
                    return Err(wrong(message.to_owned()));
                }
                tag.replace(value.to_owned()).is_some()
            }
            None if argument == "nohostname" => {
                nohostname = true;
                false
            }
            _ => return Err(wrong(format!("unknown syslog parameter \"{argument}\""))),
        };
        if is_duplicate {
            let name = argument.split('=').next().unwrap_or(argument);
            return Err(wrong(format!("duplicate syslog \"{name}\"")));
        }
    }
    Ok(Syslog {
        server: server.ok_or_else(|| wrong("no syslog server specified".to_owned()))?,
        facility: facility.unwrap_or(23),
        severity: severity.unwrap_or(6),
        tag: tag.unwrap_or_else(|| "nginx".to_owned()),
        nohostname,
    })
}

fn with_port(host: &str) -> String {
    let has_port = match host.rsplit_once(':') {
        Some((before, port)) => {
            port.bytes().all(|b| b.is_ascii_digit()) && (!before.contains(':') || before.ends_with(']'))
        }
        None => false,
    };
    if has_port { host.to_owned() } else { format!("{host}:514") }
}

fn access_log(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let path = d.arg(0);
    if path.text == "off" {
        if let Some(word) = d.args.get(1) {
            return Err(d.invalid_parameter(word));
        }
        level.access_log_off = true;
        return Ok(());
    }
    let target = match path.text.strip_prefix("syslog:") {
        Some(arguments) => AccessLogTarget::Fixed(LogTarget::Syslog(syslog(path, arguments)?)),
        None => {
            let template = template::of(path)?;
            match template::as_literal(&template) {
                Some(text) => AccessLogTarget::Fixed(LogTarget::File(cx.path(text))),
                None if path.text.starts_with(['/', '$']) => AccessLogTarget::Variable(template),
                None => {
                    let joined = cx.path(&path.text);
                    AccessLogTarget::Variable(template::parse_template(&joined.to_string_lossy(), path.span)?)
                }
            }
        }
    };
    let mut log = AccessLog {
        target,
        format: At { value: "combined".to_owned(), span: path.span },
        buffer_bytes: None,
        flush: None,
        gzip: None,
        condition: None,
    };
    for (at, word) in d.args.iter().enumerate().skip(1) {
        let wrong = |what: &str| Diagnostic::error(format!("invalid {what} \"{}\"", word.text)).at(word.span);
        match word.text.split_once('=') {
            // nginx reads the first word as a format whatever it looks like.
            _ if at == 1 && !word.text.starts_with("if=") => {
                log.format = At { value: word.text.clone(), span: word.span };
                cx.references.push(Reference::LogFormat(log.format.clone()));
            }
            Some(("buffer", value)) => {
                let bytes = values::size(value).filter(|&bytes| bytes > 0).ok_or_else(|| wrong("buffer size"))?;
                log.buffer_bytes = Some(bytes);
            }
            Some(("flush", value)) => {
                let time = values::time(value).filter(|time| !time.is_zero()).ok_or_else(|| wrong("flush time"))?;
                log.flush = Some(time);
            }
            Some(("if", value)) => log.condition = Some(template::parse_template(value, word.span)?),
            None if word.text == "gzip" => log.gzip = Some(1),
            Some(("gzip", value)) => {
                let level = values::number(value).and_then(|level| u8::try_from(level).ok());
                let level = level.filter(|level| (1..=9).contains(level));
                let wrong = || Diagnostic::error(format!("invalid compression level \"{value}\"")).at(word.span);
                log.gzip = Some(level.ok_or_else(wrong)?);
            }
            _ => return Err(d.invalid_parameter(word)),
        }
    }
    if log.gzip.is_some() {
        log.buffer_bytes.get_or_insert(GZIP_BUFFER_BYTES);
    }
    let is_buffered = log.buffer_bytes.is_some();
    let message = match &log.target {
        _ if log.flush.is_some() && !is_buffered => {
            format!("no buffer is defined for access_log \"{}\"", path.text)
        }
        AccessLogTarget::Variable(_) if is_buffered => "buffered logs cannot have variables in name".to_owned(),
        AccessLogTarget::Fixed(LogTarget::Syslog(_)) if is_buffered => "logs to syslog cannot be buffered".to_owned(),
        _ => {
            level.list(|s| &mut s.logs.access).push(log);
            return Ok(());
        }
    };
    Err(Diagnostic::error(message).at(d.span()))
}

fn open_log_file_cache(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    const DEFAULT_VALID: Duration = Duration::from_secs(60);
    const DEFAULT_INACTIVE: Duration = Duration::from_secs(10);
    if let [word] = d.args.as_slice()
        && word.text == "off"
    {
        level.modules().log_file_cache = None;
        return Ok(());
    }
    let mut cache = LogFileCache { max: 0, inactive: DEFAULT_INACTIVE, min_uses: 1, valid: DEFAULT_VALID };
    for word in &d.args {
        let wrong = || Diagnostic::error(format!("invalid \"open_log_file_cache\" parameter \"{}\"", word.text));
        let wrong = || wrong().at(word.span).help("there are max=, inactive=, min_uses=, valid= and off");
        match word.text.split_once('=').ok_or_else(wrong)? {
            ("max", value) => {
                let max = values::number(value).and_then(|max| usize::try_from(max).ok());
                cache.max = max.filter(|max| *max > 0).ok_or_else(wrong)?;
            }
            ("inactive", value) => cache.inactive = values::time(value).ok_or_else(wrong)?,
            ("min_uses", value) => {
                cache.min_uses = values::number(value).filter(|uses| *uses > 0).ok_or_else(wrong)?;
            }
            ("valid", value) => cache.valid = values::time(value).ok_or_else(wrong)?,
            _ => return Err(wrong()),
        }
    }
    if cache.max == 0 {
        return Err(Diagnostic::error("\"open_log_file_cache\" must have \"max\" parameter").at(d.span()));
    }
    level.modules().log_file_cache = Some(cache);
    Ok(())
}

fn log_format(http: &mut HttpParts, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let name = d.arg(0);
    if http.log_formats.iter().any(|known| known.name.value == name.text) {
        return Err(Diagnostic::error(format!("duplicate \"log_format\" name \"{}\"", name.text)).at(name.span));
    }
    let mut pieces = &d.args[1..];
    let mut escape = LogEscape::Default;
    if let Some((first, rest)) = pieces.split_first()
        && let Some(kind) = first.text.strip_prefix("escape=")
    {
        escape = match kind {
            "default" => LogEscape::Default,
            "json" => LogEscape::Json,
            "none" => LogEscape::None,
            _ => {
                return Err(Diagnostic::error(format!("unknown log format escaping \"{kind}\""))
                    .at(first.span)
                    .label("it must be default, json or none"));
            }
        };
        pieces = rest;
    }
    // Each piece is read alone, so that an error points at it.
    let mut format = template::literal("", name.span);
    for piece in pieces {
        format.parts.extend(template::of(piece)?.parts);
    }
    let format = template::joined(format);
    http.log_formats.push(LogFormat { name: At { value: name.text.clone(), span: name.span }, escape, format });
    Ok(())
}
