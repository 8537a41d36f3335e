//! What a transaction has of what a format needs.

use larder_vsl::{Form, Kind, Member, Record, Tag};

use crate::vsl::handling::Handling;
use crate::vsl::quote::Quoting;
use crate::vsl::text::{behind, trimmed, word};

use super::format::{FIELDS, Field, Format, Watched, Which};

/// What was found.
#[derive(Debug)]
pub struct Fields<'a> {
    fields: [Option<&'a [u8]>; FIELDS],
    /// By the numbers of the format's watches.
    pub found: Vec<Option<&'a [u8]>>,
    pub handling: Handling,
    /// `c` or `b`.
    pub side: &'static str,
    pub vxid: u64,
    /// Whether the request is as it will stay: a client's in front of `vcl_recv`, a backend's behind `vcl_backend_fetch`.
    is_settled: bool,
}

/// Which of several records counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Policy {
    First,
    Last,
    /// As a client has sent it, as a backend has got it.
    Request,
    /// As a client has got it, as a backend has sent it.
    Response,
}

/// Looks through a transaction. `None` if it has no line.
pub fn find<'a>(member: &'a Member, format: &'a Format) -> Option<Fields<'a>> {
    let side = match member.kind {
        Some(Kind::Request) => "c",
        Some(Kind::BeReq) => "b",
        Some(Kind::Session | Kind::Raw) | None => return None,
    };
    let mut fields = Fields {
        fields: [None; FIELDS],
        found: vec![None; format.watches.len()],
        handling: Handling::default(),
        side,
        vxid: member.vxid,
        is_settled: false,
    };
    for (record, _) in member.records() {
        if record.tag.form() != Form::Plain && format.quoting != Quoting::Json {
            continue;
        }
        if !fields.take(record, format) {
            return None;
        }
    }
    Some(fields)
}

impl<'a> Fields<'a> {
    /// A field, if it was found.
    pub fn get(&self, field: Field) -> Option<&'a [u8]> {
        self.fields[field as usize]
    }

    /// Takes what a record has. Returns whether the transaction may have a line.
    fn take(&mut self, record: Record<'a>, format: &'a Format) -> bool {
        let mut text = record.text;
        if record.tag.form() == Form::Plain {
            while let Some(shorter) = text.strip_suffix(b"\0") {
                text = shorter;
            }
        }
        match record.tag {
            Tag::HttpGarbage => return false,
            Tag::PipeAcct => self.words(text, &[(3, Field::BytesReceived), (4, Field::BytesSent)]),
            Tag::BackendOpen => self.words(text, &[(3, Field::Host)]),
            Tag::ReqStart => self.words(text, &[(1, Field::Host)]),
            Tag::BereqMethod | Tag::ReqMethod => self.line(Field::Method, text, Policy::Request),
            Tag::BereqUrl | Tag::ReqUrl => {
                let mark = text.iter().position(|byte| *byte == b'?').unwrap_or(text.len());
                self.line(Field::Url, &text[..mark], Policy::Request);
                self.line(Field::Query, &text[mark..], Policy::Request);
            }
            Tag::BereqProtocol | Tag::ReqProtocol => self.line(Field::Protocol, text, Policy::Request),
            Tag::BerespStatus | Tag::RespStatus => self.line(Field::Status, text, Policy::Response),
            Tag::BereqAcct | Tag::ReqAcct => {
                self.words(text, &[(3, Field::BytesReceived), (5, Field::BodyBytes), (6, Field::BytesSent)]);
            }
            Tag::Timestamp => self.timestamp(text),
            Tag::BereqHeader | Tag::ReqHeader => {
                self.header(text, format, Policy::Request, false);
                if let Some(value) = behind(text, b"Authorization:").and_then(|value| behind(value, b"basic ")) {
                    self.line(Field::Authorization, value, Policy::Request);
                } else if let Some(value) = behind(text, b"Host:") {
                    self.line(Field::HostHeader, value, Policy::Request);
                }
            }
            Tag::BerespHeader | Tag::RespHeader => self.header(text, format, Policy::Response, false),
            Tag::BereqUnset | Tag::ReqUnset => self.header(text, format, Policy::Request, true),
            Tag::BerespUnset | Tag::RespUnset => self.header(text, format, Policy::Response, true),
            Tag::VclCall => {
                let is = |name: &str| text.eq_ignore_ascii_case(name.as_bytes());
                self.is_settled |= is("recv") || is("backend_response");
            }
            Tag::VclReturn if text.eq_ignore_ascii_case(b"restart") => return false,
            _ => {}
        }
        self.handling.take(Record { text, ..record });
        for (number, watch) in format.watches.iter().enumerate() {
            let found = match watch.of {
                Watched::VclLog if record.tag == Tag::VclLog => text.strip_prefix(&watch.prefix[..]),
                Watched::Record(tag, _) if record.tag == tag => behind(text, &watch.prefix),
                Watched::VclLog | Watched::Record(..) => None,
                Watched::RequestHeader(_) | Watched::ResponseHeader(_) => None,
            };
            let found = match watch.of {
                Watched::Record(_, number @ 1..) => found.and_then(|found| word(found, number)),
                _ => found.map(trimmed),
            };
            if let (Some(found), None) = (found, self.found[number]) {
                self.found[number] = Some(found);
            }
        }
        true
    }

    fn words(&mut self, text: &'a [u8], of: &[(usize, Field)]) {
        for (number, field) in of {
            if let (Some(word), None) = (word(text, *number), self.get(*field)) {
                self.fields[*field as usize] = Some(word);
            }
        }
    }

    fn line(&mut self, field: Field, text: &'a [u8], policy: Policy) {
        if self.needs(self.get(field).is_none(), policy) {
            self.fields[field as usize] = Some(trimmed(text));
        }
    }

    /// Whether a record counts: `is_first` if none was found so far.
    fn needs(&self, is_first: bool, policy: Policy) -> bool {
        let is_client = self.side == "c";
        match policy {
            Policy::First => is_first,
            Policy::Last => true,
            Policy::Request => !self.is_settled && (is_first || !is_client),
            Policy::Response => is_client || !self.is_settled && is_first,
        }
    }

    fn header(&mut self, text: &'a [u8], format: &'a Format, policy: Policy, is_unset: bool) {
        for (number, watch) in format.watches.iter().enumerate() {
            let which = match (watch.of, policy) {
                (Watched::RequestHeader(which), Policy::Request) => which,
                (Watched::ResponseHeader(which), Policy::Response) => which,
                _ => continue,
            };
            let Some(value) = behind(text, &watch.prefix) else { continue };
            let (policy, value) = match which {
                Some(Which::First) => (Policy::First, value),
                Some(Which::Last) => (Policy::Last, value),
                None if is_unset => (policy, format.missing.as_bytes()),
                None => (policy, value),
            };
            if self.needs(self.found[number].is_none(), policy) {
                self.found[number] = Some(trimmed(value));
            }
        }
    }

    fn timestamp(&mut self, text: &'a [u8]) {
        let one_of = |names: &[&[u8]]| names.iter().find_map(|name| behind(text, name));
        if let Some(rest) = one_of(&[b"Start:"]) {
            self.words(rest, &[(1, Field::Start)]);
        } else if let Some(rest) = one_of(&[b"Resp:", b"PipeSess:", b"BerespBody:"]) {
            self.words(rest, &[(1, Field::End)]);
        } else if let Some(rest) = one_of(&[b"Process:", b"Pipe:", b"Beresp:"]) {
            self.words(rest, &[(2, Field::FirstByte)]);
        }
    }
}
