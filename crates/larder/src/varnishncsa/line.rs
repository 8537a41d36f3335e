//! A line, put together of what a transaction has.

use std::io::Write;

use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine, GeneralPurpose, GeneralPurposeConfig};
use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;

use crate::vsl::quote;

use super::fields::Fields;
use super::format::{Field, Format, Item, Time};

/// Appends the line of a transaction. Without the time of its start, a format that has one gives no line.
pub fn append(format: &Format, fields: &Fields<'_>, zone: &TimeZone, out: &mut Vec<u8>) {
    let start = out.len();
    for item in &format.items {
        let value = |value: &[u8], out: &mut Vec<u8>| quote::append(value, format.quoting, out);
        match item {
            Item::Text(text) => out.extend_from_slice(text),
            Item::Field(field, missing) => value(fields.get(*field).unwrap_or(missing.as_bytes()), out),
            Item::Found(number, missing) => value(fields.found[*number].unwrap_or(missing.as_bytes()), out),
            Item::Time(time) => {
                if append_time(time, fields, zone, out).is_none() {
                    out.truncate(start);
                    return;
                }
            }
            Item::RequestLine => append_request_line(format, fields, out),
            Item::User => value(user(fields).as_deref().unwrap_or(b"-"), out),
            Item::HitOrMiss => out.extend_from_slice(fields.handling.hit_or_miss.as_bytes()),
            Item::Handling => out.extend_from_slice(fields.handling.name.as_bytes()),
            Item::Side => out.extend_from_slice(fields.side.as_bytes()),
            Item::Vxid => append_number(fields.vxid, 0, out),
        }
    }
    out.push(b'\n');
}

fn append_request_line(format: &Format, fields: &Fields<'_>, out: &mut Vec<u8>) {
    let value = |field, missing: &str, out: &mut Vec<u8>| {
        quote::append(fields.get(field).unwrap_or(missing.as_bytes()), format.quoting, out);
    };
    value(Field::Method, "-", out);
    out.push(b' ');
    if !fields.get(Field::HostHeader).is_some_and(|host| host.starts_with(b"http://")) {
        out.extend_from_slice(b"http://");
    }
    value(Field::HostHeader, "localhost", out);
    value(Field::Url, "", out);
    value(Field::Query, "", out);
    out.push(b' ');
    value(Field::Protocol, "HTTP/1.0", out);
}

/// The user of `Authorization: Basic`.
fn user(fields: &Fields<'_>) -> Option<Vec<u8>> {
    let mut user = BASE64.decode(fields.get(Field::Authorization)?).ok()?;
    // A text ends at a zero byte, the user at a colon.
    let end = user.iter().position(|byte| matches!(byte, b':' | 0)).unwrap_or(user.len());
    user.truncate(end);
    Some(user)
}

/// `None` if nobody knows when the request began.
fn append_time(time: &Time, fields: &Fields<'_>, zone: &TimeZone, out: &mut Vec<u8>) -> Option<()> {
    let seconds = |field| str::from_utf8(fields.get(field)?).ok()?.parse::<f64>().ok().filter(|time| time.is_finite());
    let start = seconds(Field::Start)?;
    let end = seconds(Field::End).unwrap_or(start);
    match time {
        Time::Formatted(form) => {
            // What is beyond the times that can be shown is not the time of a request.
            let at = Timestamp::from_second(start.floor() as i64).ok()?.to_zoned(zone.clone());
            out.extend_from_slice(strtime::format(form, &at).ok()?.as_bytes());
        }
        Time::Since1970(parts) => append_number((start * f64::from(*parts)) as i64, 0, out),
        Time::Fraction(parts, digits) => append_number((start.fract() * f64::from(*parts)) as i64, *digits, out),
        Time::Taken(parts) => append_number(((end - start) * f64::from(*parts)) as i64, 0, out),
    }
    Some(())
}

fn append_number(number: impl std::fmt::Display, digits: usize, out: &mut Vec<u8>) {
    // Writing to a buffer does not fail.
    let _ = write!(out, "{number:0digits$}");
}

/// With or without `=` at the end.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

#[cfg(test)]
mod tests {
    use super::super::fields;
    use super::*;
    use larder_vsl::{Grouping, Groups, Kind, Limits, Tag, Writer};
    use std::time::Duration;

    /// The line of a transaction of lines `TAG TEXT`.
    fn line(kind: Kind, json: bool, format: &str, records: &str) -> String {
        let mut writer = Writer::new(kind, 2);
        writer.record(Tag::Begin, usize::MAX, |out| out.extend_from_slice(b"req 1 rxreq"));
        for record in records.split(" | ") {
            let (tag, text) = record.split_once(' ').unwrap_or((record, ""));
            writer.record(Tag::of_name(tag).unwrap(), usize::MAX, |out| out.extend_from_slice(text.as_bytes()));
        }
        let mut groups = Groups::new(Grouping::Vxid, Limits::default());
        groups.add(writer.finish(), Duration::ZERO);
        let group = groups.next_ready().unwrap();
        let zone = TimeZone::get("Europe/Berlin").unwrap_or(TimeZone::UTC);
        let format = Format::read(format.as_bytes(), json, &TimeZone::UTC).unwrap();
        let mut out = Vec::new();
        if let Some(fields) = fields::find(&group.members[0], &format) {
            append(&format, &fields, &zone, &mut out);
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_client_is_shown_what_it_has_asked_and_got() {
        let (client, backend) = (Kind::Request, Kind::BeReq);
        let changed = "ReqMethod GET | ReqHeader A: 1 | ReqHeader A: 2 | VCL_call RECV | ReqMethod POST | \
                       ReqUnset A: 1 | ReqHeader A: 3 | RespStatus 200 | RespHeader B: 1 | RespUnset B: 1 | \
                       RespHeader B: 2 | RespStatus 503";
        let fetched = "BereqMethod GET | BereqHeader A: 1 | BereqUnset A: 1 | BereqHeader A: 2 | BerespStatus 200 | \
                       BerespHeader B: 1 | VCL_call BACKEND_RESPONSE | BereqMethod PUT | BerespStatus 404 | \
                       BerespHeader B: 2";
        let headers = "%m %s %{a}i %{a:first}i %{a:last}i %{b}o %{b:first}o %{b:last}o %{none}i";
        for (kind, format, records, expected) in [
            (client, headers, changed, "GET 503 1 1 3 2 1 2 -\n"),
            (backend, headers, fetched, "GET 200 2 1 2 1 1 2 -\n"),
            (client, "%{a}i", "ReqUnset A: 1", "-\n"),
            (client, "%r", "ReqMethod GET", "GET http://localhost HTTP/1.0\n"),
            (
                client,
                "%r",
                "ReqURL /a?b | ReqHeader Host: http://x | ReqProtocol HTTP/2.0",
                "- http://x/a?b HTTP/2.0\n",
            ),
            (client, "%U|%q", "ReqURL /a?b?c", "/a|?b?c\n"),
            (client, "%u", "ReqHeader Authorization: Basic YTpiOmM=", "a\n"),
            (client, "%u", "ReqHeader authorization: bAsIc YTpiOmM", "a\n"),
            (client, "%u", "ReqHeader Authorization: Basic ?", "-\n"),
            (client, "%u", "ReqHeader Authorization: Bearer YTpi", "-\n"),
            (client, "%u", "ReqHeader Authorization: Basic Iglh", "\\\"\\ta\n"),
            (client, "%{VCL_Log:k}x|%{VCL_Log:K}x", "VCL_Log k: v  | VCL_Log k:w", "v|\n"),
            (client, "%{VSL:Timestamp:Resp[2]}x", "Timestamp Resp: 1.5 0.25", "0.25\n"),
            (client, "%{VSL:Timestamp[9]}x|%{VSL:End}x", "Timestamp Resp: 1.5", "-|-\n"),
            (client, "a", "VCL_return restart", ""),
            (client, "%h", "HttpGarbage x | ReqStart 1.2.3.4 5 a0", "1.2.3.4\n"),
            (Kind::Session, "a", "SessClose x", ""),
        ] {
            assert_eq!(line(kind, false, format, records), expected, "{format}: {records}");
        }
        assert_eq!(line(client, true, "%{a}i|%s|%{b}i", "ReqHeader A: é\"\t"), "é\\\"|0|\n");
        assert_eq!(line(client, true, "%{VSL:Hash}x", "Hash a\0b"), "a\\u0000b\n");
        assert_eq!(line(client, true, "a", "HttpGarbage x"), "");
    }

    #[test]
    fn how_a_page_was_found_is_told() {
        for (records, expected) in [
            ("VCL_call RECV", "- -\n"),
            ("VCL_call RECV | VCL_call HIT", "hit hit\n"),
            ("VCL_call MISS", "miss miss\n"),
            ("HitMiss 5 1.0 | VCL_call MISS", "miss hitmiss\n"),
            ("HitPass 5 1.0 | VCL_call PASS", "miss hitpass\n"),
            ("VCL_call PASS", "miss pass\n"),
            ("VCL_call HIT | VCL_call SYNTH", "miss synth\n"),
            ("VCL_call HIT | VCL_call RECV", "- -\n"),
            ("VCL_return pipe", "miss pipe\n"),
            ("Cache HIT pages http://a/", "hit hit\n"),
            ("Cache STALE pages", "hit hit\n"),
            ("Cache EXPIRED pages", "miss miss\n"),
            ("Cache BYPASS", "miss pass\n"),
            ("Cache", "- -\n"),
        ] {
            let format = "%{Varnish:hitmiss}x %{Varnish:handling}x";
            assert_eq!(line(Kind::Request, false, format, records), expected, "{records}");
        }
    }

    #[test]
    fn times_are_local_and_a_line_without_one_is_none() {
        let both = "Timestamp Start: 1795659187.133912 0 0 | Timestamp Resp: 1795659188.5 1 1";
        for (format, records, expected) in [
            ("%t", both, "[26/Nov/2026:03:13:07 +0100]\n"),
            ("%{%d.%m. %H:%M}t", both, "26.11. 03:13\n"),
            ("%{sec}t %{msec_frac}t", both, "1795659187 133\n"),
            ("%{msec_frac}t %{usec_frac}t", "Timestamp Start: 7.001 0 0", "001 001000\n"),
            ("%T %D %{ms}T", both, "1 1366087 1366\n"),
            ("%T", "Timestamp Start: 5.0 0 0", "0\n"),
            ("%{Varnish:time_firstbyte}x", "Timestamp Process: 1.0 0.5 0.5", "0.5\n"),
            ("a %t", "ReqMethod GET", ""),
            ("%t", "Timestamp Start: soon 0 0", ""),
            ("%t", "Timestamp Start: 1e300 0 0", ""),
            ("%t", "Timestamp Start: inf 0 0", ""),
            ("%{usec}t", "Timestamp Start: 1e300 0 0", "9223372036854775807\n"),
        ] {
            assert_eq!(line(Kind::Request, false, format, records), expected, "{format}: {records}");
        }
    }
}
