//! The functions of the module `std` that need nothing but their arguments.

use std::iter;

use crate::functions::wildcard::{self, Rules};
use crate::functions::{addresses, dates, numbers, query};
use crate::run::{Failure, Texts, Value};

use super::{Pure, failed, kept, misfit};

/// The functions of `std` that need nothing but their arguments.
pub const FUNCTIONS: [(&str, Pure); 14] = [
    ("bytes", bytes),
    ("duration", duration),
    ("fnmatch", fnmatch),
    ("integer", integer),
    ("ip", ip),
    ("port", port),
    ("querysort", querysort),
    ("real", real),
    ("round", round),
    ("strftime", strftime),
    ("strstr", strstr),
    ("time", time),
    ("tolower", tolower),
    ("toupper", toupper),
];

fn round(args: &[Value], _: &mut Texts<'_>) -> Result<Value, Failure> {
    match args {
        [Value::Real(number)] => Ok(Value::Real(number.round())),
        _ => misfit("std.round"),
    }
}

fn querysort(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    match args {
        [Value::Text(None)] => Ok(Value::Text(None)),
        [Value::Text(url)] => {
            let sorted = query::querysort(texts.bytes(*url));
            kept(&sorted, texts)
        }
        _ => misfit("std.querysort"),
    }
}

fn toupper(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    match args {
        [Value::Text(text)] => Ok(Value::Text(Some(texts.changed(*text, <[u8]>::make_ascii_uppercase)?))),
        _ => misfit("std.toupper"),
    }
}

fn tolower(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    match args {
        [Value::Text(text)] => Ok(Value::Text(Some(texts.changed(*text, <[u8]>::make_ascii_lowercase)?))),
        _ => misfit("std.tolower"),
    }
}

fn strstr(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let [Value::Text(Some(within)), Value::Text(Some(wanted))] = args else { return Ok(Value::Text(None)) };
    let (bytes, wanted) = (texts.bytes(Some(*within)), texts.bytes(Some(*wanted)));
    let found = memchr::memmem::find(bytes, wanted);
    Ok(Value::Text(found.and_then(|at| texts.part(*within, at, bytes.len() - at))))
}

fn fnmatch(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    match args {
        [Value::Text(None), ..] => Err(failed("std.fnmatch", "the pattern is not there")),
        [_, Value::Text(None), ..] => Err(failed("std.fnmatch", "the subject is not there")),
        [pattern, subject, Value::Bool(pathname), Value::Bool(noescape), Value::Bool(period)] => {
            let rules = Rules { pathname: *pathname, noescape: *noescape, period: *period };
            let (Value::Text(pattern), Value::Text(subject)) = (*pattern, *subject) else {
                return misfit("std.fnmatch");
            };
            Ok(Value::Bool(wildcard::matches(texts.bytes(pattern), texts.bytes(subject), rules)))
        }
        _ => misfit("std.fnmatch"),
    }
}

fn port(args: &[Value], _: &mut Texts<'_>) -> Result<Value, Failure> {
    match args {
        [Value::Ip(address)] => Ok(Value::Int(address.port().into())),
        _ => misfit("std.port"),
    }
}

fn duration(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let [text, fallback, real, integer] = args else { return misfit("std.duration") };
    converted("std.duration", *fallback, [text, real, integer], |value| match value {
        Value::Text(text) => numbers::duration(texts.bytes(text)).map(Value::Real),
        Value::Int(number) => Some(Value::Real(number as f64)),
        value => Some(value),
    })
}

fn bytes(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let [text, fallback, real, integer] = args else { return misfit("std.bytes") };
    converted("std.bytes", *fallback, [text, real, integer], |value| match value {
        Value::Text(text) => numbers::bytes(texts.bytes(text)).map(Value::Bytes),
        Value::Real(number) => numbers::whole_bytes(number).map(Value::Bytes),
        Value::Int(number) => (number >= 0).then_some(Value::Bytes(number)),
        value => Some(value),
    })
}

fn integer(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let [text, fallback, others @ ..] = args else { return misfit("std.integer") };
    converted("std.integer", *fallback, iter::once(text).chain(others), |value| match value {
        Value::Text(text) => numbers::integer(texts.bytes(text)).map(Value::Int),
        Value::Bool(value) => Some(Value::Int(value.into())),
        Value::Bytes(number) => Some(Value::Int(number)),
        Value::Real(number) => numbers::whole_int(number).map(Value::Int),
        value => Some(value),
    })
}

fn real(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let [text, fallback, others @ ..] = args else { return misfit("std.real") };
    converted("std.real", *fallback, iter::once(text).chain(others), |value| match value {
        Value::Text(text) => numbers::real(texts.bytes(text)).map(Value::Real),
        Value::Bool(value) => Some(Value::Real(f64::from(u8::from(value)))),
        Value::Bytes(number) => Some(Value::Real(number as f64)),
        Value::Int(number) => Some(Value::Real(number as f64)),
        value => Some(value),
    })
}

fn time(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let [text, fallback, real, integer] = args else { return misfit("std.time") };
    converted("std.time", *fallback, [text, real, integer], |value| match value {
        Value::Text(text) => dates::time(texts.bytes(text)).map(Value::Real),
        Value::Int(number) => Some(Value::Real(number as f64)),
        value => Some(value),
    })
}

/// What becomes of the one value that was given; else the fallback, or a failure.
fn converted<'a>(
    name: &str,
    fallback: Value,
    given: impl IntoIterator<Item = &'a Value>,
    convert: impl Fn(Value) -> Option<Value>,
) -> Result<Value, Failure> {
    let mut given = given.into_iter().filter(|value| **value != Value::Nothing);
    let value = match (given.next(), given.next()) {
        (Some(value), None) => *value,
        (None, _) => return Err(failed(name, "not enough arguments")),
        (Some(_), Some(_)) => return Err(failed(name, "too many arguments")),
    };
    // A text that is not there is no number.
    let converted = if value == Value::Text(None) { None } else { convert(value) };
    match (converted, fallback) {
        (Some(value), _) => Ok(value),
        (None, Value::Nothing) => Err(failed(name, "conversion failed")),
        (None, fallback) => Ok(fallback),
    }
}

/// Only addresses in digits: names are for who can wait for an answer.
fn ip(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let [Value::Text(text), fallback, Value::Bool(_), port] = args else { return misfit("std.ip") };
    let str_of = |text| std::str::from_utf8(texts.bytes(text)).ok();
    let port = match port {
        Value::Text(port) => str_of(*port).and_then(addresses::port),
        _ => Some(80),
    };
    let address = str_of(*text).zip(port).and_then(|(text, port)| addresses::address(text, port));
    match (address, fallback) {
        (Some(address), _) => Ok(Value::Ip(address)),
        (None, fallback @ Value::Ip(_)) => Ok(*fallback),
        (None, _) => Err(failed("std.ip", "conversion failed")),
    }
}

/// As strftime(3) in UTC; empty for a time that cannot be.
fn strftime(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let [Value::Real(seconds), Value::Text(format)] = args else { return misfit("std.strftime") };
    let formatted = std::str::from_utf8(texts.bytes(*format))
        .ok()
        .and_then(|format| dates::formatted(*seconds as i64, &dates::plain_format(format)));
    kept(formatted.unwrap_or_default().as_bytes(), texts)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::super::tests::shown;
    use super::*;

    #[test]
    fn functions_return_what_varnish_documents() {
        let none = Ok(Value::Text(None));
        let (yes, no) = (Ok(Value::Bool(true)), Ok(Value::Bool(false)));
        let fallback: SocketAddr = "0.0.0.0:80".parse().expect("it is an address");
        let address: SocketAddr = "1.2.3.4:81".parse().expect("it is an address");
        for (name, args, expected) in [
            ("round", vec![Ok(Value::Real(-2.5))], "Real(-3.0)"),
            ("querysort", vec![Err("/?b&a")], "\"/?a&b\""),
            ("querysort", vec![none], "Text(None)"),
            ("toupper", vec![Err("yes \u{e4}!")], "\"YES \u{e4}!\""),
            ("tolower", vec![Err("VerY")], "\"very\""),
            ("tolower", vec![none], "\"\""),
            ("strstr", vec![Err("abcabc"), Err("bc")], "\"bcabc\""),
            ("strstr", vec![Err("abc"), Err("")], "\"abc\""),
            ("strstr", vec![Err("abc"), Err("x")], "Text(None)"),
            ("strstr", vec![Err("abc"), none], "Text(None)"),
            ("fnmatch", vec![Err("/foo/*"), Err("/foo/bar"), yes, no, no], "Bool(true)"),
            ("fnmatch", vec![Err("/foo/*"), Err("/foo/b/c"), yes, no, no], "Bool(false)"),
            ("fnmatch", vec![none, Err("a"), yes, no, no], "std.fnmatch(): the pattern is not there"),
            ("fnmatch", vec![Err("a"), none, yes, no, no], "std.fnmatch(): the subject is not there"),
            ("port", vec![Ok(Value::Ip(address))], "Int(81)"),
            ("ip", vec![Err("1.2.3.4:81"), Ok(Value::Nothing), yes, Ok(Value::Nothing)], &format!("Ip({address})")),
            ("ip", vec![Err("1.2.3.4"), Ok(Value::Nothing), no, Err("81")], &format!("Ip({address})")),
            ("ip", vec![Err("x"), Ok(Value::Ip(fallback)), no, Ok(Value::Nothing)], &format!("Ip({fallback})")),
            ("ip", vec![none, Ok(Value::Nothing), no, Ok(Value::Nothing)], "std.ip(): conversion failed"),
            ("strftime", vec![Ok(Value::Real(784_111_777.9)), Err("%Y%m%dT%H%M%SZ")], "\"19941106T084937Z\""),
            ("strftime", vec![Ok(Value::Real(1e300)), Err("%Y")], "\"\""),
            ("strftime", vec![Ok(Value::Real(0.0)), none], "\"\""),
        ] {
            assert_eq!(shown(&format!("std.{name}"), &args), expected, "{name} {args:?}");
        }
    }

    #[test]
    fn one_value_is_converted_or_the_fallback_is_returned() {
        let nothing = Ok(Value::Nothing);
        let none = Ok(Value::Text(None));
        for (name, args, expected) in [
            ("duration", vec![Err("1w"), nothing, nothing, nothing], "Real(604800.0)"),
            ("duration", vec![Err("1"), Ok(Value::Real(3.0)), nothing, nothing], "Real(3.0)"),
            ("duration", vec![Err("1"), nothing, nothing, nothing], "std.duration(): conversion failed"),
            ("duration", vec![nothing, nothing, Ok(Value::Real(1.5)), nothing], "Real(1.5)"),
            ("duration", vec![nothing, nothing, nothing, Ok(Value::Int(10))], "Real(10.0)"),
            ("duration", vec![nothing, nothing, nothing, nothing], "std.duration(): not enough arguments"),
            ("duration", vec![Err("1s"), nothing, Ok(Value::Real(1.5)), nothing], "std.duration(): too many arguments"),
            ("bytes", vec![Err("2k"), nothing, nothing, nothing], "Bytes(2048)"),
            ("bytes", vec![nothing, nothing, Ok(Value::Real(10.9)), nothing], "Bytes(10)"),
            ("bytes", vec![nothing, Ok(Value::Bytes(1)), Ok(Value::Real(-1.0)), nothing], "Bytes(1)"),
            ("bytes", vec![nothing, nothing, nothing, Ok(Value::Int(-1))], "std.bytes(): conversion failed"),
            ("integer", vec![Err("5"), nothing, nothing, nothing, nothing, nothing, nothing], "Int(5)"),
            ("integer", vec![none, Ok(Value::Int(0)), nothing, nothing, nothing, nothing, nothing], "Int(0)"),
            ("integer", vec![nothing, nothing, Ok(Value::Bool(true)), nothing, nothing, nothing, nothing], "Int(1)"),
            ("integer", vec![nothing, nothing, nothing, Ok(Value::Bytes(7)), nothing, nothing, nothing], "Int(7)"),
            ("integer", vec![nothing, nothing, nothing, nothing, Ok(Value::Real(-1.9)), nothing, nothing], "Int(-1)"),
            (
                "integer",
                vec![nothing, nothing, nothing, nothing, nothing, Ok(Value::Real(1e16)), nothing],
                "std.integer(): conversion failed",
            ),
            ("real", vec![Err("1.5"), nothing, nothing, nothing, nothing, nothing, nothing], "Real(1.5)"),
            ("real", vec![nothing, nothing, Ok(Value::Int(2)), nothing, nothing, nothing, nothing], "Real(2.0)"),
            ("time", vec![Err("1994-11-06T08:49:37"), nothing, nothing, nothing], "Real(784111777.0)"),
            ("time", vec![Err("soon"), Ok(Value::Real(1.0)), nothing, nothing], "Real(1.0)"),
            ("time", vec![nothing, nothing, nothing, Ok(Value::Int(5))], "Real(5.0)"),
        ] {
            assert_eq!(shown(&format!("std.{name}"), &args), expected, "{name} {args:?}");
        }
    }
}
