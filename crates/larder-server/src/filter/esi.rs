//! ESI in the bytes of a page: bytes in, text and includes out.
//!
//! Behaviour: Varnish's `cache_esi_parse.c`, and beside it all of ESI 1.0 where [`Rules::is_full`] says so. A page may come in
//! any number of pieces, and holds any bytes: what is no ESI goes out as it came, and what is broken is left out and counted.
//!
//! ```text
//! <esi:include src="/part" onerror="continue"/>    an include
//! <esi:remove> ... </esi:remove>                   left out
//! <esi:comment text="..."/>                        left out
//! <!--esi ... -->                                  what is between them
//! <!-- ... -->, <![CDATA[ ... ]]>                  as they are, whatever is in them
//! <esi:choose>, <esi:try> and what is in them      marks, where all is read
//! <esi:vars> $(NAME) </esi:vars>                   a variable, where all is read
//! ```

mod element;
mod expression;
mod flow;
mod markup;
mod nesting;
mod place;
mod url;
mod variable;

use bytes::Bytes;

use element::{Element, Kind, Nest, Rest};
use expression::Test;
pub use flow::{Flow, Turn};
use markup::Markup;
pub use nesting::Mark;
use nesting::Nesting;
use place::{Found, Vars};
pub use url::Include;
pub use variable::{Fault, Place, Variable, Visitor};

/// What of the parameter `feature` concerns the parser.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// A page is read even if its first byte is no `<` (`esi_disable_xml_check`).
    pub reads_any: bool,
    /// Elements are also looked for inside of other tags (`esi_ignore_other_elements`).
    pub reads_tags: bool,
    /// `https://` in an include counts as `http://` (`esi_ignore_https`); otherwise it is refused.
    pub takes_https: bool,
    /// All of ESI 1.0 is read, and URLs are those of RFC 3986; otherwise what Varnish reads.
    pub is_full: bool,
    /// A byte order mark is left out (`esi_remove_bom`).
    pub removes_bom: bool,
}

/// What a page holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Bytes as they are.
    Text(Bytes),
    /// An include.
    Include(Include),
    /// A variable in the text.
    Variable(Variable, Place),
    /// What follows is for some visitors, or depends on others.
    Mark(Mark),
}

/// Reads a page piece by piece. It keeps no more than the element at hand, whose values are limited.
pub struct Parser {
    rules: Rules,
    state: State,
    /// Bytes behind a `<` that may begin something, with it; at most [`LONGEST_BEGINNING`].
    held: Vec<u8>,
    /// Between `<esi:remove>` and its end.
    removes: bool,
    /// The elements that it is in.
    nesting: Nesting,
    /// In `<esi:vars>`, what is known of the text.
    vars: Option<Vars>,
    /// Where in the markup of the page it is.
    markup: Markup,
    /// Where it was before what is open of what only some see.
    before: Vec<Markup>,
    /// Between `<!--esi` and its end.
    in_comment: bool,
    element: Element,
    findings: Findings,
}

/// The fault of a page that is no markup, as most bodies are that are no pages.
pub const NOT_MARKUP: &str = "the page does not begin with \"<\", and is not read (esi_disable_xml_check)";

/// What there was in a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Whether there was any ESI.
    pub has_esi: bool,
    /// How much of it was broken.
    pub faults: u64,
    /// What the first fault was.
    pub first_fault: Option<Fault>,
    /// Whether it has variables, so that not all see the same.
    pub has_variables: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the beginning; bytes of a byte order mark may be held.
    Start,
    /// In the space before the first tag.
    Space,
    /// In a page that is not read.
    Plain,
    /// In text, behind this many bytes of the `-->` that ends an `<!--esi`.
    Text(usize),
    /// Behind a `<`.
    Open,
    /// In a tag that is none of ours.
    Foreign,
    /// In a comment or CDATA, behind this many bytes of its end.
    Until(&'static [u8; 3], usize),
    /// In an element of ESI.
    Element,
}

/// The end of a comment.
const COMMENT_END: &[u8; 3] = b"-->";
/// The end of CDATA.
const CDATA_END: &[u8; 3] = b"]]>";
/// The bytes of a byte order mark in UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// What Varnish takes for one.
const VARNISH_BOM: &[u8] = b"\xeb\xbb\xbf";

/// What stands behind a `<`: the first that matches counts.
const BEGINNINGS: [(&[u8], Beginning); 6] = [
    (b"!--esi", Beginning::EsiComment),
    (b"!---->", Beginning::Nothing),
    (b"!--", Beginning::Comment),
    (b"/esi:", Beginning::EsiEnd),
    (b"esi:", Beginning::Esi),
    (b"![CDATA[", Beginning::Cdata),
];
/// The longest of them, with the `<`.
const LONGEST_BEGINNING: usize = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beginning {
    EsiComment,
    /// An empty comment.
    Nothing,
    Comment,
    EsiEnd,
    Esi,
    Cdata,
}

impl Findings {
    /// What was broken, for the log.
    pub fn told(&self) -> Option<String> {
        let fault = self.first_fault.as_ref()?;
        Some(match self.faults {
            1 => format!("ESI: {fault}"),
            faults => format!("ESI: {fault}; {faults} faults in the page"),
        })
    }
}

impl Parser {
    /// For one page.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            state: State::Start,
            held: Vec::new(),
            removes: false,
            nesting: Nesting::default(),
            vars: None,
            markup: Markup::default(),
            before: Vec::new(),
            in_comment: false,
            element: Element::default(),
            findings: Findings::default(),
        }
    }

    /// What `piece` holds; the bytes of its text are shared with it.
    pub fn feed(&mut self, piece: &Bytes, events: &mut Vec<Event>) {
        let mut at = 0;
        while at < piece.len() {
            at = self.step(piece, at, events);
        }
    }

    /// Ends the page: what is held of it goes out.
    pub fn finish(&mut self, events: &mut Vec<Event>) -> Findings {
        match self.state {
            State::Text(matched) => self.emit(Bytes::from_static(&COMMENT_END[..matched]), events),
            State::Start | State::Space | State::Plain => self.let_go(self.held.len(), events),
            State::Open | State::Foreign | State::Until(..) | State::Element => {
                self.fault("the page ends inside a tag");
                self.let_go(self.held.len(), events);
            }
        }
        self.state = State::Plain;
        self.end_reference(events);
        let fault = self.nesting.finish(|mark| events.push(Event::Mark(mark)));
        self.note(fault);
        std::mem::take(&mut self.findings)
    }

    /// Takes bytes from `at` on; returns where it stopped, which is behind `at` or with another state.
    fn step(&mut self, piece: &Bytes, at: usize, events: &mut Vec<Event>) -> usize {
        let bytes = &piece[at..];
        match self.state {
            State::Start => self.start(bytes[0], at, events),
            State::Space => {
                let space = bytes.iter().take_while(|byte| is_space(**byte)).count();
                self.emit(piece.slice(at..at + space), events);
                match bytes.get(space) {
                    None => {}
                    Some(b'<') => self.state = State::Text(0),
                    Some(_) => {
                        self.fault(NOT_MARKUP);
                        self.state = State::Plain;
                    }
                }
                at + space
            }
            State::Plain => {
                self.emit(piece.slice(at..), events);
                piece.len()
            }
            State::Text(matched) => self.text(piece, at, matched, events),
            State::Open => self.open(bytes[0], at, events),
            State::Foreign => {
                let end = memchr::memchr(b'>', bytes).map(|found| at + found + 1);
                if end.is_some() {
                    self.state = State::Text(0);
                }
                self.emit(piece.slice(at..end.unwrap_or(piece.len())), events);
                end.unwrap_or(piece.len())
            }
            State::Until(end, matched) => self.until(end, matched, piece, at, events),
            State::Element => self.element(bytes[0], at, events),
        }
    }

    /// A byte order mark, if it is to be left out.
    fn start(&mut self, byte: u8, at: usize, events: &mut Vec<Event>) -> usize {
        let begins = if self.rules.reads_any { State::Text(0) } else { State::Space };
        self.held.push(byte);
        let is = |mark: &[u8]| self.rules.removes_bom && mark.starts_with(&self.held);
        match (is(BOM) || is(VARNISH_BOM), self.held.len() == BOM.len()) {
            (true, false) => {}
            (true, true) => {
                self.held.clear();
                self.state = begins;
            }
            (false, _) => {
                self.state = begins;
                return self.again(at, events);
            }
        }
        at + 1
    }

    /// Text, to the next `<`; the end of an `<!--esi` is left out.
    fn text(&mut self, piece: &Bytes, at: usize, mut matched: usize, events: &mut Vec<Event>) -> usize {
        let bytes = &piece[at..];
        if matched > 0 {
            match (bytes[0], matched) {
                (b'-', 1) => matched = 2,
                (b'-', _) => self.emit(Bytes::from_static(b"-"), events),
                (b'>', 2) => {
                    matched = 0;
                    self.in_comment = false;
                    self.findings.has_esi = true;
                }
                (_, _) => {
                    self.emit(Bytes::from_static(&COMMENT_END[..matched]), events);
                    self.state = State::Text(0);
                    return at;
                }
            }
            self.state = State::Text(matched);
            return at + 1;
        }
        let found = match self.in_comment {
            true => memchr::memchr2(b'<', b'-', bytes),
            false => memchr::memchr(b'<', bytes),
        };
        let end = at + found.unwrap_or(bytes.len());
        self.emit(piece.slice(at..end), events);
        match piece.get(end) {
            None => return end,
            Some(b'<') => {
                self.held.push(b'<');
                self.state = State::Open;
            }
            Some(_) => self.state = State::Text(1),
        }
        end + 1
    }

    /// A byte behind a `<`, until it is known what that begins.
    fn open(&mut self, byte: u8, at: usize, events: &mut Vec<Event>) -> usize {
        self.held.push(byte);
        let said = &self.held[1..];
        for (beginning, begins) in BEGINNINGS {
            if said.starts_with(beginning) {
                let taken = beginning.len() + 1;
                self.begin(begins, taken, events);
                return self.again(at, events);
            }
            if beginning.starts_with(said) {
                return at + 1;
            }
        }
        self.state = if self.rules.reads_tags { State::Text(0) } else { State::Foreign };
        self.let_go(1, events);
        self.again(at, events)
    }

    /// Goes into what the first `taken` of the held bytes begin.
    fn begin(&mut self, begins: Beginning, taken: usize, events: &mut Vec<Event>) {
        match begins {
            Beginning::EsiComment => {
                if self.removes {
                    self.fault("<!--esi in <esi:remove>");
                }
                self.held.drain(..taken);
                self.in_comment = true;
                self.state = State::Text(0);
            }
            Beginning::Nothing => {
                self.let_go(taken, events);
                self.state = State::Text(0);
            }
            Beginning::Comment => {
                // Its end would be that of an <!--esi around it.
                self.in_comment = false;
                self.let_go(taken, events);
                self.state = State::Until(COMMENT_END, 0);
            }
            Beginning::Cdata => {
                self.let_go(taken, events);
                self.state = State::Until(CDATA_END, 0);
            }
            Beginning::Esi | Beginning::EsiEnd => {
                self.held.drain(..taken);
                self.findings.has_esi = true;
                self.element = Element::new(begins == Beginning::EsiEnd, self.rules.is_full);
                self.state = State::Element;
            }
        }
    }

    /// Reads what is still held once more, of which the last byte was that at `at`. It is shorter each time.
    fn again(&mut self, at: usize, events: &mut Vec<Event>) -> usize {
        debug_assert!(self.held.len() < LONGEST_BEGINNING);
        let held = Bytes::from(std::mem::take(&mut self.held));
        self.feed(&held, events);
        at + 1
    }

    /// A comment or CDATA, to its end.
    fn until(
        &mut self,
        end: &'static [u8; 3],
        mut matched: usize,
        piece: &Bytes,
        at: usize,
        events: &mut Vec<Event>,
    ) -> usize {
        let mut pos = at;
        while pos < piece.len() {
            if matched == 0 {
                let Some(found) = memchr::memchr(end[0], &piece[pos..]) else {
                    pos = piece.len();
                    break;
                };
                pos += found + 1;
                matched = 1;
                continue;
            }
            // Both ends are two of the same byte, and then a `>`.
            matched = match piece[pos] {
                byte if byte == end[0] => 2,
                b'>' if matched == 2 => 3,
                _ => 0,
            };
            pos += 1;
            if matched == 3 {
                break;
            }
        }
        self.state = if matched == 3 { State::Text(0) } else { State::Until(end, matched) };
        self.emit(piece.slice(at..pos), events);
        pos
    }

    /// A byte of an element of ESI.
    fn element(&mut self, byte: u8, at: usize, events: &mut Vec<Event>) -> usize {
        let rest = self.element.take(byte);
        if let Some(fault) = self.element.fault.take() {
            self.fault(fault);
        }
        match rest {
            Rest::More => {}
            Rest::Again => return at,
            Rest::End { is_whole } => {
                self.state = State::Text(0);
                match self.element.kind {
                    Kind::Nest(nest) => self.nested(nest, is_whole, events),
                    _ if is_whole => self.ended(events),
                    _ => {}
                }
            }
        }
        at + 1
    }

    /// Does what an element says that is whole.
    fn ended(&mut self, events: &mut Vec<Event>) {
        let element = std::mem::take(&mut self.element);
        let (is_end, is_empty) = (element.is_end, element.is_empty);
        match element.kind {
            _ if self.nesting.hides() => {}
            Kind::Include | Kind::Comment if self.removes => self.fault("an element in <esi:remove>"),
            Kind::Include | Kind::Comment if is_end => self.fault("the end of an element that has none"),
            Kind::Include if !self.nesting.shows() => self.fault("an element in <esi:choose> or <esi:try> itself"),
            Kind::Include => match element.include(self.rules.takes_https) {
                Ok(include) => {
                    self.end_reference(events);
                    self.findings.has_variables |= include.written.is_some();
                    let place = self.markup.place_of_include();
                    self.markup.pass_unknown();
                    events.push(Event::Include(include.at(place)));
                }
                Err(fault) => self.fault(fault),
            },
            Kind::Comment if !is_empty => self.fault("<esi:comment> without its \"/\""),
            Kind::Comment => {}
            Kind::Remove if is_empty => self.fault("<esi:remove/>"),
            Kind::Remove if self.removes && !is_end => self.fault("<esi:remove> in <esi:remove>"),
            Kind::Remove if !self.removes && is_end => self.fault("</esi:remove> without its beginning"),
            Kind::Remove => self.removes = !is_end,
            Kind::Nest(_) | Kind::Unknown => self.fault("an unknown element"),
        }
    }

    /// Goes into an element that has others in it, or out of it. One that is broken counts: its content is not meant for all.
    fn nested(&mut self, nest: Nest, is_whole: bool, events: &mut Vec<Event>) {
        let element = std::mem::take(&mut self.element);
        if self.removes {
            return self.fault("an element in <esi:remove>");
        }
        let test = (nest == Nest::When && !element.is_end).then(|| match element.test() {
            _ if !is_whole => Err("a broken <esi:when>".into()),
            Some(text) => Test::parse(&text),
            None => Err("<esi:when> without test".into()),
        });
        let test = match test {
            Some(Ok(test)) => Some(Box::new(test)),
            Some(Err(fault)) => {
                self.fault(fault);
                None
            }
            None => None,
        };
        self.end_reference(events);
        let has_variables = &mut self.findings.has_variables;
        let (markup, before) = (&mut self.markup, &mut self.before);
        let mut mark = |mark: Mark| {
            *has_variables |= matches!(mark, Mark::When(Some(_)));
            match mark {
                Mark::End => markup.join(before.pop().unwrap_or(*markup)),
                _ => before.push(*markup),
            }
            events.push(Event::Mark(mark));
        };
        let begun = (!element.is_end).then(|| self.nesting.begin(nest, test, &mut mark)).flatten();
        let ended = (element.is_end || element.is_empty).then(|| self.nesting.end(nest, &mut mark)).flatten();
        self.note(begun);
        self.note(ended);
        self.vars = self.nesting.is_in_vars().then(|| self.vars.take().unwrap_or_default());
    }

    /// Lets go of what may have become a variable.
    fn end_reference(&mut self, events: &mut Vec<Event>) {
        if let Some(vars) = &mut self.vars {
            vars.let_go(&mut self.markup, |found| add(found, events));
        }
    }

    fn emit(&mut self, bytes: Bytes, events: &mut Vec<Event>) {
        if self.removes || bytes.is_empty() || !self.nesting.shows() {
            return;
        }
        let Some(vars) = &mut self.vars else {
            self.markup.pass(&bytes);
            return events.push(Event::Text(bytes));
        };
        let (mut has_any, mut unknown, mut first) = (false, 0_u64, None);
        vars.feed(&bytes, &mut self.markup, |found| {
            if let Found::Variable(variable, _) = &found {
                has_any = true;
                if variable.is_unknown() {
                    unknown += 1;
                    first.get_or_insert_with(|| variable.to_string());
                }
            }
            add(found, events);
        });
        self.findings.has_variables |= has_any;
        self.findings.faults += unknown;
        if let Some(first) = first {
            self.findings.first_fault.get_or_insert_with(|| format!("the unknown variable {first}").into());
        }
    }

    fn note(&mut self, fault: Option<&'static str>) {
        if let Some(fault) = fault {
            self.fault(fault);
        }
    }

    /// Sends the first `count` of the held bytes on.
    fn let_go(&mut self, count: usize, events: &mut Vec<Event>) {
        let bytes: Vec<u8> = self.held.drain(..count).collect();
        self.emit(bytes.into(), events);
    }

    fn fault(&mut self, what: impl Into<Fault>) {
        self.findings.faults += 1;
        self.findings.first_fault.get_or_insert_with(|| what.into());
    }
}

/// Adds what was found in a text with variables.
fn add(found: Found, events: &mut Vec<Event>) {
    match found {
        Found::Text(bytes) if bytes.is_empty() => {}
        Found::Text(bytes) => events.push(Event::Text(bytes)),
        Found::Variable(variable, place) => events.push(Event::Variable(variable, place)),
    }
}

/// What there is in a whole page.
pub fn look(page: &Bytes, rules: Rules) -> Findings {
    let mut parser = Parser::new(rules);
    let mut events = Vec::new();
    for at in (0..page.len()).step_by(LOOKED_AT_BYTES) {
        parser.feed(&page.slice(at..page.len().min(at + LOOKED_AT_BYTES)), &mut events);
        events.clear();
    }
    parser.finish(&mut events)
}

/// How much of a page [`look`] takes at once, so that what it finds takes little memory.
const LOOKED_AT_BYTES: usize = 16 * 1024;

/// Space in XML.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

#[cfg(test)]
mod tests;
