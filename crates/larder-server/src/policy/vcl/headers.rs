//! The headers of messages.

use larder_http::{Coding, Fields, Known, ResponseHead};
use larder_vcl::policy::Header;
use larder_vcl::run::{Failure, Held, Texts, Value};
use larder_vcl::vars::{Headers, Variable};
use larder_vsl::Tag;

use crate::exchange::Exchange;
use crate::records;
use crate::site::{HeaderList, HeaderName, VclPolicy};
use crate::vsl::Open;

use super::task::Run;

/// The fields of a message.
#[inline]
pub fn fields(of: Headers, ex: &Exchange) -> Option<&Fields> {
    match of {
        Headers::Req => Some(&ex.asked.head.fields),
        Headers::ReqTop => Some(ex.vcl.client.top.as_ref().map_or(&ex.asked.head.fields, |top| &top.head.fields)),
        Headers::Bereq => Some(&ex.vcl.fetch.bereq.fields),
        Headers::Beresp => Some(&ex.vcl.fetch.beresp.fields),
        Headers::Obj | Headers::ObjStale => ex.vcl.page.as_deref().map(|page| &page.fields),
        Headers::Resp => Some(&ex.reply.fields),
    }
}

/// The fields of a message that can be changed.
#[inline]
pub fn fields_mut(of: Headers, ex: &mut Exchange) -> Option<&mut Fields> {
    match of {
        Headers::Req => {
            keep_original(ex);
            Some(&mut ex.asked.head.fields)
        }
        Headers::Bereq => Some(&mut ex.vcl.fetch.bereq.fields),
        Headers::Beresp => Some(std::sync::Arc::make_mut(&mut ex.vcl.fetch.beresp.fields)),
        Headers::Resp => Some(&mut ex.reply.fields),
        Headers::ReqTop | Headers::Obj | Headers::ObjStale => None,
    }
}

/// Remembers the request of the client before it is changed.
pub fn keep_original(ex: &mut Exchange) {
    if !ex.vcl.is_changed {
        ex.vcl.is_changed = true;
        ex.vcl.original.copy_from(&ex.asked.head);
    }
}

/// Makes the request what it was before the first sub.
pub fn roll_back(ex: &mut Exchange) {
    if ex.vcl.is_changed {
        ex.vcl.is_changed = false;
        ex.asked.head.copy_from(&ex.vcl.original);
        ex.request.method = ex.asked.head.method;
    }
}

/// A header that a function is given.
pub struct Field {
    /// Of which message.
    pub of: Headers,
    /// Its name. Nothing has an empty one.
    pub name: Box<str>,
}

impl Field {
    /// The header that a value is. A failure if it has a name that no field can have (RFC 9110 §5.1).
    pub fn of(value: Value, run: &Run<'_>, texts: &Texts<'_>) -> Result<Self, Failure> {
        let (of, name) = match value {
            Value::Header(header) => (header.of, name_of(run.policy, header)?.name.clone()),
            Value::NamedHeader(of, name) => {
                // What stands behind a colon is left out, as in Varnish.
                let name = texts.bytes(name).split(|byte| *byte == b':').next().unwrap_or_default();
                (of, String::from_utf8_lossy(name).into())
            }
            _ => return Err(Failure::host("a header of another type")),
        };
        match name.is_empty() || is_name(name.as_bytes()) {
            true => Ok(Self { of, name }),
            false => Err(Failure::host(format!("\"{}\" is no name of a header", name.escape_debug()))),
        }
    }

    /// The fields of its message, for a change that makes `value` its value.
    ///
    /// A failure for a message that cannot be changed, for what says where a body ends, and for a value that no field can
    /// have.
    pub fn changed<'a>(&self, run: &'a mut Run<'_>, value: &[u8]) -> Result<&'a mut Fields, Failure> {
        check(&self.name, value)?;
        if self.of.rule_of(&self.name).set.is_empty() {
            return Err(Failure::host(format!("the header {} of this message can be read only", self.name)));
        }
        if let Some(open) = run.log() {
            tell_change(open, self.of, &self.name, Some(value), run.ex);
        }
        fields_mut(self.of, run.ex).ok_or_else(|| Failure::host("the headers of this message cannot be set"))
    }
}

/// The fields that a message has as a value.
pub fn of_message(message: Variable) -> Option<Headers> {
    Headers::named(message.rule().name, "http")
}

fn name_of(policy: &VclPolicy, header: Header) -> Result<&HeaderName, Failure> {
    policy.vcl.headers.get(header.name.0 as usize).ok_or_else(|| Failure::host("a header that is not there"))
}

/// The text of a header: that of its first line.
#[inline]
pub fn get(run: &mut Run<'_>, header: Header, texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let name = name_of(run.policy, header)?;
    let Some(fields) = fields(header.of, run.ex) else { return Ok(Value::Text(None)) };
    let value = fields.get_as(name.known, &name.name);
    Ok(Value::Text(value.map(|value| texts.keep(value)).transpose()?))
}

/// The same where it lies.
#[inline]
pub fn held<'a>(run: &'a Run<'_>, header: Header) -> Held<'a> {
    let Ok(name) = name_of(run.policy, header) else { return Held::Not };
    Held::Text(fields(header.of, run.ex).and_then(|fields| fields.get_as(name.known, &name.name)))
}

/// Sets a header in place of all its lines.
#[inline]
pub fn set(run: &mut Run<'_>, header: Header, value: Value, texts: &mut Texts<'_>) -> Result<(), Failure> {
    let name = name_of(run.policy, header)?;
    let Value::Text(text) = value else { return Err(Failure::host("a header that is no text")) };
    let bytes = texts.bytes(text);
    check(&name.name, bytes)?;
    if run.ex.log.is_on() {
        tell(run, header.of, name, Some(bytes.trim_ascii()));
    }
    if let Some(fields) = fields_mut(header.of, run.ex) {
        fields.set_sound(name.known, &name.name, bytes.trim_ascii());
    }
    Ok(())
}

/// The same with a whole line, whose value was checked and has no spaces around it.
#[inline]
pub fn set_line(run: &mut Run<'_>, header: Header, line: &[u8]) -> Result<(), Failure> {
    let name = name_of(run.policy, header)?;
    if run.ex.log.is_on() {
        let value = line.get(name.name.len() + 1..).unwrap_or_default().trim_ascii();
        tell(run, header.of, name, Some(value));
    }
    if let Some(fields) = fields_mut(header.of, run.ex) {
        fields.set_line(name.known, &name.name, line);
    }
    Ok(())
}

/// Removes all lines of a header.
#[inline]
pub fn unset(run: &mut Run<'_>, header: Header) -> Result<(), Failure> {
    let name = name_of(run.policy, header)?;
    // A request is kept as it was before its first change.
    let is_there = |ex| fields(header.of, ex).is_some_and(|fields| fields.get_as(name.known, &name.name).is_some());
    if header.of != Headers::Req || is_there(run.ex) {
        if run.ex.log.is_on() {
            tell(run, header.of, name, None);
        }
        if let Some(fields) = fields_mut(header.of, run.ex) {
            fields.remove_as(name.known, &name.name);
        }
    }
    Ok(())
}

/// Removes all lines of several headers.
#[inline]
pub fn unset_all(run: &mut Run<'_>, number: u32) -> Result<(), Failure> {
    let list = run.policy.vcl.header_lists.get(number as usize);
    let list = list.ok_or_else(|| Failure::host("headers that are not there"))?;
    // A request is kept as it was before its first change.
    let is_one_there = |ex| fields(list.of, ex).is_some_and(|fields| fields.contains_any(&list.names));
    if list.of != Headers::Req || is_one_there(run.ex) {
        if run.ex.log.is_on() {
            tell_all(run, list);
        }
        if let Some(fields) = fields_mut(list.of, run.ex) {
            fields.remove_all(&list.names);
        }
    }
    Ok(())
}

/// Tells the transaction log that headers are unset.
#[cold]
fn tell_all(run: &Run<'_>, list: &HeaderList) {
    if let (Some(open), Some(fields)) = (run.log(), fields(list.of, run.ex)) {
        records::unset(open, tags(list.of).1, fields, |name| list.names.contains(Known::of(name), name));
    }
}

/// Tells the transaction log that a header is set to a value, or unset.
#[cold]
fn tell(run: &Run<'_>, of: Headers, name: &HeaderName, value: Option<&[u8]>) {
    if let Some(open) = run.log() {
        tell_change(open, of, &name.name, value, run.ex);
    }
}

/// The same for any name.
fn tell_change(open: &Open, of: Headers, name: &str, value: Option<&[u8]>, ex: &Exchange) {
    let (set, unset) = tags(of);
    if let Some(fields) = fields(of, ex) {
        records::unset(open, unset, fields, |own| own.eq_ignore_ascii_case(name.as_bytes()));
    }
    if let Some(value) = value {
        open.header(set, name.as_bytes(), value);
    }
}

/// The tags for what is set in a message, and for what is removed from it.
fn tags(of: Headers) -> (Tag, Tag) {
    match of {
        Headers::Req | Headers::ReqTop => (Tag::ReqHeader, Tag::ReqUnset),
        Headers::Bereq => (Tag::BereqHeader, Tag::BereqUnset),
        Headers::Beresp => (Tag::BerespHeader, Tag::BerespUnset),
        Headers::Resp => (Tag::RespHeader, Tag::RespUnset),
        Headers::Obj | Headers::ObjStale => (Tag::ObjHeader, Tag::ObjUnset),
    }
}

/// How many lines a header has; `None` if it is not known.
pub fn lines(run: &Run<'_>, header: Header) -> Option<usize> {
    let name = name_of(run.policy, header).ok()?;
    Some(fields(header.of, run.ex)?.all_as(name.known, &name.name).count())
}

/// Whether a field can have this name: a token (RFC 9110 §5.1).
pub fn is_name(name: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !name.is_empty() && name.iter().all(is_token)
}

/// A failure for a value that no field can have.
fn check(name: &str, value: &[u8]) -> Result<(), Failure> {
    match foreign_byte(value) {
        Some(byte) => Err(Failure::host(format!("the header {name} would have the byte 0x{byte:02x}"))),
        None => Ok(()),
    }
}

/// A byte that neither the value of a field nor a reason can have, if there is one.
pub fn foreign_byte(value: &[u8]) -> Option<u8> {
    // All of them are looked at, which is done for many at a time.
    if value.iter().fold(true, |is_good, byte| is_good & is_of_a_value(*byte)) {
        return None;
    }
    value.iter().copied().find(|byte| !is_of_a_value(*byte))
}

/// Whether a byte may stand in the value of a field (RFC 9110 §5.5).
fn is_of_a_value(byte: u8) -> bool {
    byte == b'\t' || byte >= b' ' && byte != 0x7f
}

/// Adds to the end of a list a member that has no CR, LF or NUL.
pub fn append_member(fields: &mut Fields, known: Known, member: &[u8]) {
    if !fields.contains_known(known) {
        return fields.push_sound(known, known.name().as_bytes(), member);
    }
    let mut list = joined(fields, known);
    list.extend_from_slice(b", ");
    list.extend_from_slice(member);
    fields.set(known.name(), &list);
}

/// Makes one line of several.
pub fn collect(fields: &mut Fields, known: Known) {
    if fields.all_known(known).nth(1).is_some() {
        let list = joined(fields, known);
        fields.set(known.name(), &list);
    }
}

fn joined(fields: &Fields, known: Known) -> Vec<u8> {
    let mut list = Vec::new();
    for line in fields.all_known(known) {
        if !list.is_empty() {
            list.extend_from_slice(b", ");
        }
        list.extend_from_slice(line);
    }
    list
}

/// Makes a tag say that bodies may differ in their bytes.
pub fn weaken_tag(fields: &mut Fields) {
    let Some(tag) = fields.get_known(Known::Etag).filter(|tag| !tag.starts_with(b"W/")) else { return };
    let weak = [b"W/", tag].concat();
    fields.set("ETag", &weak);
}

/// Whether a body is in gzip.
pub fn is_gzip(head: &ResponseHead) -> bool {
    let coding = head.fields.get_known(Known::ContentEncoding);
    coding.is_some_and(|coding| Coding::parse(coding) == Some(Coding::Gzip))
}

/// Whether the client takes gzip: by name, with any weight above zero.
pub fn takes_gzip(ex: &Exchange) -> bool {
    let fields = &ex.asked.head.fields;
    let Some(first) = fields.get_known(Known::AcceptEncoding) else { return false };
    if first == b"gzip" || first.starts_with(b"gzip,") {
        return true;
    }
    fields.all_known(Known::AcceptEncoding).flat_map(larder_http::list::members).any(|member| {
        let mut parts = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let coding = parts.next().unwrap_or_default();
        let is_gzip = coding.eq_ignore_ascii_case(b"gzip") || coding.eq_ignore_ascii_case(b"x-gzip");
        let weight = parts.find_map(|part| part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q=")));
        let weight = weight.map_or(Some(1.0), |weight| std::str::from_utf8(weight).ok()?.parse::<f64>().ok());
        is_gzip && weight.is_some_and(|weight| weight > 0.0)
    })
}

/// Where a message is passed on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Onward {
    /// A request to a backend, for this client alone.
    Pass,
    /// A request to a backend, for the cache.
    Fetch,
    /// An answer into the cache.
    Insert,
    /// An answer to this client alone.
    Answer,
}

/// Drops the fields that are not passed on, with those that `Connection` names. An answer keeps the fields whose meaning
/// is known: whoever named `Vary` or `Cache-Control` there would have a page shared that must not be (RFC 9110 §7.6.1).
pub fn retain_passed_on(fields: &mut Fields, onward: Onward) {
    let named: Vec<Vec<u8>> =
        fields.all_known(Known::Connection).flat_map(larder_http::list::members).map(<[u8]>::to_vec).collect();
    let is_answer = matches!(onward, Onward::Insert | Onward::Answer);
    let is_named = |name: &[u8]| named.iter().any(|own| own.eq_ignore_ascii_case(name));
    fields.retain(|known, name, _| {
        is_passed_on(known, onward) && (is_answer && known != Known::Other || !is_named(name))
    });
}

/// Whether a field is passed on: as in Varnish (`http_headers.h`), neither what concerns a connection, nor, for a page
/// that is to be shared, what concerns one client.
fn is_passed_on(known: Known, onward: Onward) -> bool {
    use Onward::{Answer, Fetch, Insert, Pass};
    match known {
        Known::Connection
        | Known::KeepAlive
        // We have said to go on, or the body is here.
        | Known::Expect
        | Known::Te
        | Known::Trailer
        | Known::TransferEncoding
        | Known::Upgrade
        | Known::Http2Settings => false,
        Known::AcceptRanges => onward == Answer,
        Known::Age => matches!(onward, Pass | Fetch),
        Known::Range | Known::ContentRange | Known::ProxyAuthenticate | Known::ProxyAuthorization => {
            !matches!(onward, Fetch | Insert)
        }
        Known::CacheControl
        | Known::IfMatch
        | Known::IfModifiedSince
        | Known::IfNoneMatch
        | Known::IfRange
        | Known::IfUnmodifiedSince => onward != Fetch,
        _ => true,
    }
}
