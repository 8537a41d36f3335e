//! The main context and `events`: settings of the process.

use super::{Action, Args, BlockKind, DirectiveInfo, EVENTS, MAIN, NONE, ONE, block, directive, log, repeated};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::model::{At, Main, TransactionLog, TransactionLogPlace, Workers};
use crate::tree::Directive;
use crate::values;

pub const TABLE: &[DirectiveInfo] = &[
    block("events", MAIN, NONE, Action::Block(BlockKind::Events)),
    block("http", MAIN, NONE, Action::Block(BlockKind::Http)),
    directive(
        "user",
        MAIN,
        Args::Between(1, 2),
        Action::Main(|main, _, d| {
            let group = d.args.get(1).map(|word| word.text.clone());
            main.user = Some(At { value: (d.text(0).to_owned(), group), span: d.span() });
            Ok(())
        }),
    ),
    directive(
        "worker_processes",
        MAIN,
        ONE,
        Action::Main(|main, _, d| {
            main.worker_processes = match d.text(0) {
                "auto" => Workers::Auto,
                _ => match d.number(0).ok().and_then(|n| usize::try_from(n).ok()) {
                    Some(count @ 1..) => Workers::Count(count),
                    _ => return Err(d.invalid(d.arg(0), "\"auto\" or a number above zero")),
                },
            };
            Ok(())
        }),
    ),
    directive(
        "worker_rlimit_nofile",
        MAIN,
        ONE,
        Action::Main(|main, _, d| {
            main.worker_rlimit_nofile = Some(d.number(0)?);
            Ok(())
        }),
    ),
    directive(
        "worker_shutdown_timeout",
        MAIN,
        ONE,
        Action::Main(|main, _, d| {
            main.worker_shutdown_timeout = Some(d.time(0)?);
            Ok(())
        }),
    ),
    directive(
        "pid",
        MAIN,
        ONE,
        Action::Main(|main, cx, d| {
            main.pid = Some(cx.path(d.text(0)));
            Ok(())
        }),
    ),
    directive("larder_transaction_log", MAIN, Args::Between(1, 2), Action::Main(transaction_log)),
    directive(
        "ssl_object_cache_inheritable",
        MAIN,
        Args::Flag,
        Action::Main(|main, _, d| {
            main.inherits_certificates = d.flag()?;
            Ok(())
        }),
    ),
    directive(
        "daemon",
        MAIN,
        Args::Flag,
        Action::Main(|main, _, d| {
            main.daemon = d.flag()?;
            Ok(())
        }),
    ),
    directive(
        "master_process",
        MAIN,
        Args::Flag,
        Action::Main(|main, _, d| {
            main.master_process = d.flag()?;
            Ok(())
        }),
    ),
    directive(
        "working_directory",
        MAIN,
        ONE,
        Action::Main(|main, _, d| {
            main.working_directory = Some(d.text(0).into());
            Ok(())
        }),
    ),
    repeated(
        "env",
        MAIN,
        ONE,
        Action::Main(|main, _, d| {
            let (name, value) = match d.text(0).split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (d.text(0), None),
            };
            main.env.push((name.to_owned(), value));
            Ok(())
        }),
    ),
    repeated(
        "error_log",
        MAIN,
        Args::AtLeast(1),
        Action::Main(|main, cx, d| {
            main.error_log.push(log::error_log(cx, d)?);
            Ok(())
        }),
    ),
    repeated(
        "load_module",
        MAIN,
        ONE,
        Action::Main(|_, cx, d| {
            let path = d.text(0);
            let why = "what the module does is built in, or its directives are errors where they stand";
            cx.report(Diagnostic::no_effect(&format!("load_module {path}"), why).at(d.span()));
            Ok(())
        }),
    ),
    directive(
        "worker_connections",
        EVENTS,
        ONE,
        Action::Main(|main, cx, d| {
            main.worker_connections = Some(d.number(0)?);
            cx.note_no_effect(&d.name.text, d.name.span, "connections are limited by open files only");
            Ok(())
        }),
    ),
];

/// `larder_transaction_log on|off|PATH [keep=SIZE]`.
fn transaction_log(main: &mut Main, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let place = match d.text(0) {
        "on" => TransactionLogPlace::Usual,
        "off" => TransactionLogPlace::Off,
        path => TransactionLogPlace::At(cx.path(path.strip_prefix("unix:").unwrap_or(path))),
    };
    let kept_bytes = match d.args.get(1) {
        None => 0,
        Some(word) => match word.text.strip_prefix("keep=").and_then(values::size) {
            Some(_) if place == TransactionLogPlace::Off => {
                return Err(Diagnostic::error("\"keep=\" cannot be used with \"off\" parameter").at(word.span));
            }
            Some(bytes) => bytes,
            None => return Err(d.invalid(word, "keep= and a size such as keep=80m")),
        },
    };
    main.transaction_log = TransactionLog { place, kept_bytes };
    Ok(())
}
