//! Server side includes: the commands of a page (ngx_http_ssi_filter_module).
//!
//! `parse.rs` finds them, `text.rs` knows variables, and here is what each does. What `set`, `block` and regular
//! expressions leave behind is shared by a page and all that it includes; the rest belongs to one page.

mod include;
pub(crate) mod parse;
mod text;

use std::rc::Rc;

use bytes::Bytes;
use larder_conf::model::LogLevel;
use larder_http::{Escape, escape_html, escape_uri};

use crate::exchange::SsiShared;
use crate::regex::{Captures, Regex};

use super::compose::parts::{Page, Unwanted};
use super::pieces::Pieces;
use super::subrequest;
use include::Include;
use parse::{Command, Event, PARAMS_MAX, Parser, shown};

/// What stands for an error, until `config errmsg` says otherwise.
const ERROR_TEXT: &[u8] = b"[an error occurred while processing the directive]";
/// What `echo` says of a variable that has no value.
const NO_VALUE: &[u8] = b"(none)";

/// Reads `source` to its end, and does what its commands say.
pub async fn run(page: &mut Page, mut source: Pieces) -> Result<(), Unwanted> {
    let settings = &page.cx.loc(&page.ex).settings.subrequests.ssi;
    let mut parser = Parser::new(settings.value_bytes);
    let mut document = Document {
        shared: page.ex.request.nested.ssi.get_or_insert_default().clone(),
        output: Output::Sent,
        condition: Condition::Outside,
        was_chosen: false,
        encoding: Encoding::Entity,
        error_text: Bytes::from_static(ERROR_TEXT),
        silent: settings.silent_errors,
        includes: 0,
    };
    let mut events = Vec::new();
    loop {
        match source.next(&page.cx).await {
            Ok(Some(piece)) => parser.feed(&piece, &mut events),
            Ok(None) => break,
            Err(why) => return Err(page.cut_off(why).await),
        }
        for event in events.drain(..) {
            document.event(event, page).await?;
        }
    }
    match parser.finish() {
        Some(held) => document.text(held, page).await,
        None => Ok(()),
    }
}

/// One page on its way.
struct Document {
    shared: Rc<SsiShared>,
    output: Output,
    condition: Condition,
    /// Whether a branch of the `if` at hand has been chosen.
    was_chosen: bool,
    encoding: Encoding,
    error_text: Bytes,
    silent: bool,
    /// How many includes there have been in this page.
    includes: usize,
}

/// What becomes of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// It goes out.
    Sent,
    /// It is of a branch that was not chosen.
    Dropped,
    /// It goes to the last block.
    Block,
}

/// Where in an `if` the page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Condition {
    Outside,
    /// After `if` or `elif`.
    If,
    /// After `else`.
    Else,
}

/// How `echo` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    None,
    Url,
    Entity,
}

/// Why a command did nothing.
enum Failure {
    /// It is wrong, and the page says so; the log does already, or gets this.
    Wrong(Option<String>),
    /// The page ends here.
    Unwanted,
}

impl From<Unwanted> for Failure {
    fn from(_: Unwanted) -> Self {
        Self::Unwanted
    }
}

fn wrong(why: impl Into<String>) -> Failure {
    Failure::Wrong(Some(why.into()))
}

type Done<T = ()> = Result<T, Failure>;

/// What a command may be.
struct CommandInfo {
    name: &'static [u8],
    /// The parameters that may be there.
    may: &'static [&'static [u8]],
    /// Those that must.
    must: &'static [&'static [u8]],
    /// In which part of an `if` it may stand at the latest; `Outside` for one that belongs to no `if`.
    latest: Condition,
}

const fn command(
    name: &'static [u8],
    may: &'static [&'static [u8]],
    must: &'static [&'static [u8]],
    latest: Condition,
) -> CommandInfo {
    CommandInfo { name, may, must, latest }
}

/// All of them.
const COMMANDS: &[CommandInfo] = &[
    command(b"include", &[b"virtual", b"file", b"wait", b"set", b"stub"], &[], Condition::Outside),
    command(b"echo", &[b"var", b"default", b"encoding"], &[b"var"], Condition::Outside),
    command(b"config", &[b"errmsg", b"timefmt"], &[], Condition::Outside),
    command(b"set", &[b"var", b"value"], &[b"var", b"value"], Condition::Outside),
    command(b"if", &[b"expr"], &[b"expr"], Condition::Outside),
    command(b"elif", &[b"expr"], &[b"expr"], Condition::If),
    command(b"else", &[], &[], Condition::If),
    command(b"endif", &[], &[], Condition::Else),
    command(b"block", &[b"name"], &[b"name"], Condition::Outside),
    command(b"endblock", &[], &[], Condition::Outside),
];

impl Document {
    async fn event(&mut self, event: Event, page: &mut Page) -> Result<(), Unwanted> {
        let done = match event {
            Event::Text(bytes) => return self.text(bytes, page).await,
            Event::Command(command) => self.command(command, page).await,
            Event::Broken(why) => Err(wrong(why)),
        };
        match done {
            Ok(()) => Ok(()),
            Err(Failure::Unwanted) => Err(Unwanted),
            Err(Failure::Wrong(why)) => {
                if let Some(why) = why {
                    page.cx.local.logs.error(&page.cx, &page.ex, LogLevel::Error, format_args!("{why}"));
                }
                if self.silent {
                    return Ok(());
                }
                page.text(self.error_text.clone()).await
            }
        }
    }

    async fn text(&mut self, bytes: Bytes, page: &mut Page) -> Result<(), Unwanted> {
        match self.output {
            Output::Sent => page.text(bytes).await,
            Output::Dropped => Ok(()),
            Output::Block => {
                self.add_to_block(&bytes);
                Ok(())
            }
        }
    }

    fn add_to_block(&self, bytes: &[u8]) {
        if let Some((_, block)) = self.shared.blocks.borrow_mut().last_mut()
            && self.shared.may_make(bytes.len())
        {
            block.extend_from_slice(bytes);
        }
    }

    async fn command(&mut self, command: Command, page: &mut Page) -> Done {
        let Some(name) = self.admitted(&command)? else { return Ok(()) };
        let param = |name: &[u8]| command.params.iter().find(|(key, _)| key == name).map(|(_, value)| &value[..]);
        match name {
            b"include" => {
                let include = Include {
                    uri: param(b"virtual"),
                    file: param(b"file"),
                    wait: param(b"wait"),
                    set: param(b"set"),
                    stub: param(b"stub"),
                };
                self.include(&include, page).await
            }
            b"echo" => {
                let name = param(b"var").unwrap_or_default();
                self.echo(name, param(b"default"), param(b"encoding"), page).await
            }
            b"config" => {
                if let Some(format) = param(b"timefmt") {
                    page.ex.request.nested.time_format = Some(format.into());
                }
                if let Some(text) = param(b"errmsg") {
                    self.error_text = Bytes::copy_from_slice(text);
                }
                Ok(())
            }
            b"set" => {
                let value = self.value(param(b"value").unwrap_or_default(), page)?;
                self.shared.set(param(b"var").unwrap_or_default(), value);
                Ok(())
            }
            b"block" => {
                let name = param(b"name").unwrap_or_default().to_vec();
                self.shared.blocks.borrow_mut().push((name, Vec::new()));
                self.output = Output::Block;
                Ok(())
            }
            // Also in a branch that was not chosen, as nginx has it.
            b"endblock" => {
                self.output = Output::Sent;
                Ok(())
            }
            _ => self.branch(name, param(b"expr").unwrap_or_default(), page),
        }
    }

    /// The name of a command that is to be done here; `None` for one that is of a block or a branch not chosen.
    fn admitted(&self, command: &Command) -> Done<Option<&'static [u8]>> {
        let Some(&CommandInfo { name, may, must, latest }) = COMMANDS.iter().find(|info| *info.name == command.name)
        else {
            return match self.output {
                Output::Sent => Err(wrong(format!("invalid SSI command: \"{}\"", shown(&command.name)))),
                Output::Dropped | Output::Block => Ok(None),
            };
        };
        match self.output {
            Output::Block if name != b"endblock" => {
                self.add_to_block(&written(command));
                return Ok(None);
            }
            Output::Dropped if latest == Condition::Outside && name != b"endblock" => return Ok(None),
            Output::Sent | Output::Dropped | Output::Block => {}
        }
        let shown_name = shown(name);
        if latest != Condition::Outside && (self.condition == Condition::Outside || self.condition > latest) {
            return Err(wrong(format!("invalid context of SSI command: \"{shown_name}\"")));
        }
        if command.params.len() > PARAMS_MAX {
            return Err(wrong(format!("too many SSI command parameters: \"{shown_name}\"")));
        }
        for (at, (key, _)) in command.params.iter().enumerate() {
            let key = &key[..];
            if !may.contains(&key) {
                let key = shown(key);
                return Err(wrong(format!("invalid parameter name: \"{key}\" in \"{shown_name}\" SSI command")));
            }
            if command.params[..at].iter().any(|(earlier, _)| earlier == key) {
                let key = shown(key);
                return Err(wrong(format!("duplicate \"{key}\" parameter in \"{shown_name}\" SSI command")));
            }
        }
        let is_there = |name: &[u8]| command.params.iter().any(|(key, _)| key == name);
        match must.iter().find(|name| !is_there(name)) {
            None => Ok(Some(name)),
            Some(missing) => {
                let missing = shown(missing);
                Err(wrong(format!("mandatory \"{missing}\" parameter is absent in \"{shown_name}\" SSI command")))
            }
        }
    }

    /// `if`, `elif`, `else`, `endif`.
    fn branch(&mut self, name: &[u8], expression: &[u8], page: &mut Page) -> Done {
        match name {
            b"if" if self.condition != Condition::Outside => {
                return Err(wrong("the \"if\" command inside the \"if\" command"));
            }
            b"if" | b"elif" if self.was_chosen => self.output = Output::Dropped,
            b"if" | b"elif" => {
                let holds = self.holds(expression, page)?;
                self.output = if holds { Output::Sent } else { Output::Dropped };
                self.was_chosen = holds;
                self.condition = Condition::If;
            }
            b"else" => {
                self.output = if self.was_chosen { Output::Dropped } else { Output::Sent };
                self.condition = Condition::Else;
            }
            // `endif`.
            _ => {
                self.output = Output::Sent;
                self.was_chosen = false;
                self.condition = Condition::Outside;
            }
        }
        Ok(())
    }

    /// A text with its variables replaced.
    fn value(&self, text: &[u8], page: &mut Page) -> Done<Vec<u8>> {
        let value = text::value(text, |name, out| self.variable(name, page, out)).map_err(wrong)?;
        if self.shared.may_make(value.len()) { Ok(value) } else { Err(wrong("too much is made of variables")) }
    }

    /// Appends the value of a variable: of `set`, a capture, or one of the configuration's. False when there is none.
    fn variable(&self, name: &[u8], page: &mut Page, out: &mut Vec<u8>) -> bool {
        let name = name.to_ascii_lowercase();
        if self.shared.append(&name, out) {
            return true;
        }
        let Ok(name) = std::str::from_utf8(&name) else { return false };
        match page.cx.site().variable(name) {
            Some(var) => crate::vars::append(&var, &mut page.ex, &page.cx, out),
            None => false,
        }
    }

    async fn echo(&mut self, name: &[u8], default: Option<&[u8]>, encoding: Option<&[u8]>, page: &mut Page) -> Done {
        let mut value = Vec::new();
        if !self.variable(name, page, &mut value) {
            value = default.unwrap_or(NO_VALUE).to_vec();
        }
        if value.is_empty() {
            return Ok(());
        }
        // An encoding stays for those that follow.
        match encoding {
            None => {}
            Some(b"none") => self.encoding = Encoding::None,
            Some(b"url") => self.encoding = Encoding::Url,
            Some(b"entity") => self.encoding = Encoding::Entity,
            Some(other) => page.cx.local.logs.error(
                &page.cx,
                &page.ex,
                LogLevel::Error,
                format_args!("unknown encoding \"{}\" in the \"echo\" command", shown(other)),
            ),
        }
        let mut out = Vec::new();
        match self.encoding {
            Encoding::None => out = value,
            Encoding::Url => escape_uri(&value, Escape::Html, &mut out),
            Encoding::Entity => escape_html(&value, &mut out),
        }
        Ok(page.text(out.into()).await?)
    }

    /// Whether the expression of an `if` holds: a text that is not empty, or `left = right`, `left != right`, where
    /// the right side may be a `/regular expression/`.
    fn holds(&self, expression: &[u8], page: &mut Page) -> Done<bool> {
        let invalid = || wrong(format!("invalid expression in \"{}\"", shown(expression)));
        let (left, rest) = text::left_side(expression);
        let left = self.value(&left, page)?;
        let (negate, right) = match rest {
            [] => return Ok(!left.is_empty()),
            [b'=', right @ ..] => (false, right),
            [b'!', b'=', right @ ..] => (true, right),
            _ => return Err(invalid()),
        };
        let right = right.trim_ascii_start();
        if right.len() > 1 && right.starts_with(b"/") {
            let pattern = right[1..].strip_suffix(b"/").ok_or_else(invalid)?;
            let pattern = self.value(pattern, page)?;
            return Ok(self.matches(&pattern, &left)? != negate);
        }
        let right = if right.len() > 2 && right.starts_with(b"\\/") { &right[1..] } else { right };
        Ok((self.value(right, page)? == left) != negate)
    }

    fn matches(&self, pattern: &[u8], subject: &[u8]) -> Done<bool> {
        let pattern = std::str::from_utf8(pattern).map_err(|_| wrong("a regular expression is not in UTF-8"))?;
        let regex = Regex::new(pattern, false).map_err(wrong)?;
        let mut captures = Captures::default();
        if !regex.matches(subject, &mut captures).map_err(|error| wrong(error.to_string()))? {
            return Ok(false);
        }
        for (group, name) in regex.names() {
            self.shared.set(name.as_bytes(), captures.get(*group).unwrap_or_default().to_vec());
        }
        *self.shared.captures.borrow_mut() = captures;
        Ok(true)
    }
}

/// A command as it was written, for a block that is read later.
fn written(command: &Command) -> Vec<u8> {
    let mut out = [b"<!--#", &command.name[..]].concat();
    for (key, value) in &command.params {
        out.extend_from_slice(&[b" ", &key[..], b"=\"", value, b"\""].concat());
    }
    out.extend_from_slice(b" -->");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_commands_as_they_were_written() {
        let command = Command {
            name: b"echo".to_vec(),
            params: vec![(b"var".to_vec(), b"a".to_vec()), (b"default".to_vec(), b"it's".to_vec())],
        };
        assert_eq!(written(&command), b"<!--#echo var=\"a\" default=\"it's\" -->");
    }
}
