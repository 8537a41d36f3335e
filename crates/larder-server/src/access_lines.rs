//! Writes the access log lines of a finished request, in the format of each log.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use larder_conf::model::{LogEscape, LogLevel};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::log::escape;
use crate::logs::Logs;
use crate::site::AccessLogTarget;
use crate::text::Part;
use crate::vars;

impl Logs {
    /// Writes the access lines of a finished exchange.
    pub fn access(&self, ex: &mut Exchange, cx: &Cx) {
        ex.tally.is_logging = true;
        let site = cx.site();
        for (index, condition) in &cx.loc(ex).logs.access {
            if condition.as_ref().is_some_and(|condition| !condition.is_true(ex, cx)) {
                continue;
            }
            let log = &site.logs.access[*index];
            let mut line = ex.eval.scratch.pop().unwrap_or_default();
            for part in &log.format {
                append_part(part, log.escape, ex, cx, &mut line);
            }
            self.append(*index, &line, ex, cx);
            line.clear();
            ex.eval.scratch.push(line);
        }
    }

    fn append(&self, index: usize, line: &[u8], ex: &mut Exchange, cx: &Cx) {
        let logs = &cx.site().logs;
        let target = &logs.access[index].target;
        let now = cx.now();
        let is_buffered = matches!(target, AccessLogTarget::Fixed(sink) if logs.sinks[*sink].buffer.is_some());
        if !is_buffered && self.line_waits() {
            cx.worker.lines_wait(&cx.local);
        }
        let written = match target {
            AccessLogTarget::Fixed(sink) => self.line(*sink, line, now),
            AccessLogTarget::Variable(name) => {
                let name = name.value(ex, cx);
                if !self.is_open(&name)
                    && let Some(root) = missing_root(ex, cx)
                {
                    self.error(cx, ex, LogLevel::Error, format_args!("testing \"{root}\" existence failed"));
                    return;
                }
                let cache = cx.loc(ex).settings.modules.log_file_cache;
                match self.named_line(name, cache, line, now) {
                    Ok(written) => written,
                    Err((path, error)) => {
                        let path = String::from_utf8_lossy(&path).into_owned();
                        let why = crate::log::io_error_text(&error);
                        let message = format_args!("open() \"{path}\" failed{why} while logging request");
                        self.error(cx, ex, LogLevel::Crit, message);
                        return;
                    }
                }
            }
        };
        if let Err(trouble) = written {
            self.main(trouble.level(), trouble);
        }
    }
}

/// The document root, if its path has variables and it is no folder. As in nginx, a host that a client invents then
/// makes no log file.
fn missing_root(ex: &mut Exchange, cx: &Cx) -> Option<String> {
    let loc = cx.loc(ex);
    if loc.files.alias.is_some() || loc.files.root.constant().is_some() {
        return None;
    }
    let root = vars::document_root(ex, cx);
    let is_folder = Path::new(std::ffi::OsStr::from_bytes(&root)).is_dir();
    (!is_folder).then(|| String::from_utf8_lossy(&root).into_owned())
}

fn append_part(part: &Part, how: LogEscape, ex: &mut Exchange, cx: &Cx, line: &mut Vec<u8>) {
    match part {
        Part::Literal(bytes) => line.extend_from_slice(bytes),
        Part::Capture(_) => {}
        Part::Var(var) => {
            let mut value = ex.eval.scratch.pop().unwrap_or_default();
            let found = vars::append(var, ex, cx, &mut value);
            escape::append_value(how, found.then_some(&value[..]), line);
            value.clear();
            ex.eval.scratch.push(value);
        }
    }
}
