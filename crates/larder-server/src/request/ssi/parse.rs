//! SSI commands in the bytes of a page: `<!--#name key="value" -->`.
//!
//! Behaviour: ngx_http_ssi_parse. Bytes in, events out; a command may come in any number of pieces.

use bytes::Bytes;

/// How long the name of a command may be, and that of a parameter.
const NAME_BYTES_MAX: usize = 32;
/// How many parameters a command may have.
pub const PARAMS_MAX: usize = 16;
/// How a command begins.
const BEGIN: &[u8] = b"<!--#";

/// What a page holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes as they are.
    Text(Bytes),
    /// A command.
    Command(Command),
    /// A command that is none, for this reason.
    Broken(String),
}

/// A command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    /// Its name.
    pub name: Vec<u8>,
    /// Its parameters in order; one more than [`PARAMS_MAX`] when there are too many.
    pub params: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Reads a page piece by piece.
pub struct Parser {
    state: State,
    command: Command,
    /// Why the command at hand is none; the first reason counts.
    complaint: Option<String>,
    value_bytes_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In text, of which this many bytes may begin a command.
    Text(usize),
    BeforeName,
    Name,
    BeforeKey,
    Key,
    BeforeEqual,
    BeforeValue,
    /// In a value with this quote.
    Value(u8),
    /// Behind a backslash in a value with this quote.
    Quoted(u8),
    AfterValue,
    /// Behind this many bytes of `-->`.
    End(usize),
    /// After an error, behind this many bytes of `-->`.
    Skip(usize),
}

impl Parser {
    /// For pages whose values have up to this many bytes.
    pub fn new(value_bytes_max: usize) -> Self {
        Self { state: State::Text(0), command: Command::default(), complaint: None, value_bytes_max }
    }

    /// What `piece` holds; the bytes of its text are shared with it.
    pub fn feed(&mut self, piece: &Bytes, events: &mut Vec<Event>) {
        let mut at = 0;
        while at < piece.len() {
            at = match self.state {
                State::Text(matched) => self.text(piece, at, matched, events),
                _ => {
                    self.step(piece[at], events);
                    at + 1
                }
            };
        }
    }

    /// What is left at the end of the page: bytes that might have begun a command.
    pub fn finish(&mut self) -> Option<Bytes> {
        match self.state {
            State::Text(held @ 1..) => {
                self.state = State::Text(0);
                Some(Bytes::from_static(&BEGIN[..held]))
            }
            _ => None,
        }
    }

    /// Text from `at` on; `matched` bytes before it are held back. Returns where it stopped.
    fn text(&mut self, piece: &Bytes, at: usize, mut matched: usize, events: &mut Vec<Event>) -> usize {
        // Bytes of the beginning that came in an earlier piece.
        let mut carried = matched;
        let mut pos = at;
        while pos < piece.len() {
            if matched == 0 {
                match memchr::memchr(b'<', &piece[pos..]) {
                    Some(found) => {
                        pos += found + 1;
                        matched = 1;
                    }
                    None => pos = piece.len(),
                }
                continue;
            }
            let byte = piece[pos];
            if byte == BEGIN[matched] {
                matched += 1;
                pos += 1;
                if matched == BEGIN.len() {
                    push(piece, at, pos.saturating_sub(matched), events);
                    self.state = State::BeforeName;
                    self.command = Command::default();
                    self.complaint = None;
                    return pos;
                }
                continue;
            }
            if carried > 0 {
                events.push(Event::Text(Bytes::from_static(&BEGIN[..carried])));
                carried = 0;
            }
            matched = usize::from(byte == b'<');
            pos += 1;
        }
        push(piece, at, pos.saturating_sub(matched - carried.min(matched)), events);
        self.state = State::Text(matched);
        pos
    }

    /// Takes a byte of a command.
    fn step(&mut self, byte: u8, events: &mut Vec<Event>) {
        let is_space = matches!(byte, b' ' | b'\r' | b'\n' | b'\t');
        self.state = match self.state {
            State::Text(held) => State::Text(held),
            State::BeforeName | State::BeforeKey | State::BeforeEqual | State::BeforeValue if is_space => self.state,
            State::BeforeName => {
                self.command.name.push(byte);
                State::Name
            }
            State::Name if is_space => State::BeforeKey,
            State::Name | State::BeforeKey | State::AfterValue if byte == b'-' => State::End(1),
            State::Name => self.name(byte),
            State::BeforeKey => {
                // One too many tells that there are too many.
                self.command.params.truncate(PARAMS_MAX);
                self.command.params.push((vec![byte], Vec::new()));
                State::Key
            }
            State::Key if is_space => State::BeforeEqual,
            State::Key | State::BeforeEqual if byte == b'=' => State::BeforeValue,
            State::Key if byte != b'-' => self.key(byte),
            State::Key | State::BeforeEqual => self.unexpected(byte, "after", "parameter in"),
            State::BeforeValue if matches!(byte, b'"' | b'\'') => State::Value(byte),
            State::BeforeValue => self.unexpected(byte, "before value of", "parameter in"),
            State::Value(quote) if byte == quote => State::AfterValue,
            State::Value(quote) if byte == b'\\' => self.value(byte, State::Quoted(quote)),
            State::Value(quote) | State::Quoted(quote) => self.value(byte, State::Value(quote)),
            State::AfterValue if is_space => State::BeforeKey,
            State::AfterValue => self.unexpected_after_value(byte),
            State::End(1) if byte == b'-' => State::End(2),
            State::End(2) if byte == b'>' => {
                events.push(Event::Command(std::mem::take(&mut self.command)));
                State::Text(0)
            }
            State::End(_) => {
                let name = shown(&self.command.name);
                self.broken(format!("unexpected \"{}\" symbol in \"{name}\" SSI command", char::from(byte)))
            }
            State::Skip(2) if byte == b'>' => {
                events.push(Event::Broken(self.complaint.take().unwrap_or_default()));
                State::Text(0)
            }
            State::Skip(matched @ (0 | 1)) if byte == b'-' => State::Skip(matched + 1),
            State::Skip(_) => State::Skip(0),
        };
    }

    /// A byte of the command's name.
    fn name(&mut self, byte: u8) -> State {
        if self.command.name.len() == NAME_BYTES_MAX {
            let name = shown(&self.command.name);
            return self.broken(format!("the \"{name}{}...\" SSI command is too long", char::from(byte)));
        }
        self.command.name.push(byte);
        State::Name
    }

    /// A byte of a parameter's name.
    fn key(&mut self, byte: u8) -> State {
        if self.param().0.len() >= NAME_BYTES_MAX {
            let (key, name) = (shown(&self.param().0), shown(&self.command.name));
            let byte = char::from(byte);
            return self.broken(format!("too long \"{key}{byte}...\" parameter in \"{name}\" SSI command"));
        }
        self.param().0.push(byte);
        State::Key
    }

    /// A byte of a value, after which the parser is in `next`.
    fn value(&mut self, byte: u8, next: State) -> State {
        if self.param().1.len() >= self.value_bytes_max {
            let (key, value) = self.param().clone();
            return self.broken(format!(
                "too long \"{}{}...\" value of \"{}\" parameter in \"{}\" SSI command",
                shown(&value),
                char::from(byte),
                shown(&key),
                shown(&self.command.name)
            ));
        }
        self.param().1.push(byte);
        next
    }

    fn unexpected_after_value(&mut self, byte: u8) -> State {
        let (key, value) = self.param().clone();
        self.broken(format!(
            "unexpected \"{}\" symbol after \"{}\" value of \"{}\" parameter in \"{}\" SSI command",
            char::from(byte),
            shown(&value),
            shown(&key),
            shown(&self.command.name)
        ))
    }

    fn unexpected(&mut self, byte: u8, place: &str, of: &str) -> State {
        let (key, name) = (shown(&self.param().0), shown(&self.command.name));
        self.broken(format!(
            "unexpected \"{}\" symbol {place} \"{key}\" {of} \"{name}\" SSI command",
            char::from(byte)
        ));
        State::Skip(usize::from(byte == b'-'))
    }

    fn broken(&mut self, complaint: String) -> State {
        self.complaint.get_or_insert(complaint);
        State::Skip(0)
    }

    /// The parameter at hand.
    fn param(&mut self) -> &mut (Vec<u8>, Vec<u8>) {
        if self.command.params.is_empty() {
            self.command.params.push(Default::default());
        }
        self.command.params.last_mut().expect("one was pushed if there was none")
    }
}

/// Bytes in a message.
pub fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn push(piece: &Bytes, start: usize, end: usize, events: &mut Vec<Event>) {
    if start < end {
        events.push(Event::Text(piece.slice(start..end)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a page that comes in pieces of `bytes`, with neighbouring texts joined.
    fn read(page: &str, bytes: usize) -> Vec<String> {
        let mut parser = Parser::new(8);
        let mut events = Vec::new();
        for piece in page.as_bytes().chunks(bytes) {
            parser.feed(&Bytes::copy_from_slice(piece), &mut events);
        }
        events.extend(parser.finish().map(Event::Text));
        let mut out: Vec<String> = Vec::new();
        let mut was_text = false;
        for event in events {
            let is_text = matches!(event, Event::Text(_));
            let line = match event {
                Event::Text(bytes) => shown(&bytes),
                Event::Command(command) => {
                    let params = command.params.iter().map(|(key, value)| format!(" {}={}", shown(key), shown(value)));
                    format!("[{}{}]", shown(&command.name), params.collect::<String>())
                }
                Event::Broken(why) => format!("!{why}"),
            };
            match out.last_mut().filter(|_| was_text && is_text) {
                Some(last) => last.push_str(&line),
                None => out.push(line),
            }
            was_text = is_text;
        }
        out
    }

    #[test]
    fn commands_are_found_however_the_page_is_cut() {
        for (page, expected) in [
            ("", &[][..]),
            ("plain", &["plain"]),
            ("a<!--#echo var=\"x\" -->b", &["a", "[echo var=x]", "b"]),
            ("<!--# echo var='x'-->", &["[echo var=x]"]),
            ("<!--#endif -->", &["[endif]"]),
            ("<!--#else--><!--#endif-->", &["[else]", "[endif]"]),
            ("<!--#set var = \"a\"\n\tvalue=\"b c\" -->", &["[set var=a value=b c]"]),
            ("<!--#a b=\"x\\\"y\" -->", &["[a b=x\\\"y]"]),
            ("<!--#a b='x\"y' -->", &["[a b=x\"y]"]),
            ("<<!--#a -->", &["<", "[a]"]),
            ("<!<!--#a -->", &["<!", "[a]"]),
            ("<!--<!--#a -->", &["<!--", "[a]"]),
            ("<!-- a --><b>", &["<!-- a --><b>"]),
            ("<!---#a -->", &["<!---#a -->"]),
            ("x<!--", &["x<!--"]),
            ("x<", &["x<"]),
            ("a<b<!-", &["a<b<!-"]),
        ] {
            for bytes in 1..=page.len().max(1) {
                assert_eq!(read(page, bytes), expected, "{page:?} in pieces of {bytes}");
            }
        }
    }

    #[test]
    fn a_broken_command_ends_where_its_comment_ends() {
        for (page, expected) in [
            ("<!--#a b -->c", "unexpected \"-\" symbol after \"b\" parameter in \"a\" SSI command"),
            ("<!--#a b-->c", "unexpected \"-\" symbol after \"b\" parameter in \"a\" SSI command"),
            ("<!--#a b=c -->c", "unexpected \"c\" symbol before value of \"b\" parameter in \"a\" SSI command"),
            (
                "<!--#a b=\"c\"d -->c",
                "unexpected \"d\" symbol after \"c\" value of \"b\" parameter in \"a\" SSI command",
            ),
            ("<!--#a -x -- -->c", "unexpected \"x\" symbol in \"a\" SSI command"),
            ("<!--#a b=\"123456789\" -->c", "too long \"123456789...\" value of \"b\" parameter in \"a\" SSI command"),
            (
                "<!--#a123456789012345678901234567890123 -->c",
                "the \"a12345678901234567890123456789012...\" SSI command is too long",
            ),
        ] {
            for bytes in [1, 3, page.len()] {
                assert_eq!(
                    read(page, bytes),
                    [format!("!{expected}"), "c".to_owned()],
                    "{page:?} in pieces of {bytes}"
                );
            }
        }
    }
}
