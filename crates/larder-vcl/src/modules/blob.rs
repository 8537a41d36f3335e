//! The functions of the module `blob` (vmod_blob(3)). Its objects belong to the VCL, and so to the host.

use crate::functions::encodings::Encoding;
use crate::run::{Failure, Text, Texts, Value};

use super::{Pure, failed, kept, misfit};

/// The functions of `blob`.
pub const FUNCTIONS: [(&str, Pure); 7] = [
    ("decode", decode),
    ("encode", encode),
    ("equal", equal),
    ("length", length),
    ("same", same),
    ("sub", sub),
    ("transcode", transcode),
];

/// The words of the ENUM `case`, in Varnish's order.
const CASES: [&str; 3] = ["LOWER", "UPPER", "DEFAULT"];

fn decode(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let [Value::Word(decoding), Value::Int(length), Value::Text(text)] = args else { return misfit("blob.decode") };
    let decoding = encoding("blob.decode", *decoding)?;
    let bytes = decoded("blob.decode", decoding, *length, *text, texts)?;
    Ok(Value::Blob(texts.keep(&bytes)?))
}

fn encode(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let [Value::Word(word), Value::Word(case), Value::Blob(blob)] = args else { return misfit("blob.encode") };
    let encoding = encoding("blob.encode", *word)?;
    let is_upper = is_upper("blob.encode", encoding, *case)?;
    let text = encoded(encoding, is_upper, texts.bytes(Some(*blob)));
    kept(&text, texts)
}

fn transcode(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let [Value::Word(from), Value::Word(to), Value::Word(case), Value::Int(length), Value::Text(text)] = args else {
        return misfit("blob.transcode");
    };
    let (from, to) = (encoding("blob.transcode", *from)?, encoding("blob.transcode", *to)?);
    let is_upper = is_upper("blob.transcode", to, *case)?;
    let bytes = decoded("blob.transcode", from, *length, *text, texts)?;
    // What is right already stays as it is written, as in Varnish, whatever its padding.
    if from == to && !to.has_hex_digits() && *length <= 0 && text.is_some() {
        return Ok(Value::Text(*text));
    }
    kept(&encoded(to, is_upper, &bytes), texts)
}

/// Whether two blobs are in the same place, or both empty.
fn same(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let [Value::Blob(left), Value::Blob(right)] = args else { return misfit("blob.same") };
    let is_empty = |blob: &Text| texts.bytes(Some(*blob)).is_empty();
    Ok(Value::Bool(left == right || is_empty(left) && is_empty(right)))
}

fn equal(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let [Value::Blob(left), Value::Blob(right)] = args else { return misfit("blob.equal") };
    Ok(Value::Bool(texts.bytes(Some(*left)) == texts.bytes(Some(*right))))
}

fn length(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let [Value::Blob(blob)] = args else { return misfit("blob.length") };
    Ok(Value::Int(i64::try_from(texts.bytes(Some(*blob)).len()).unwrap_or(i64::MAX)))
}

fn sub(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let [Value::Blob(blob), Value::Bytes(length), Value::Bytes(offset)] = args else { return misfit("blob.sub") };
    let len = texts.bytes(Some(*blob)).len();
    if len == 0 {
        return Err(failed("blob.sub", "the blob is empty"));
    }
    let part = usize::try_from(*offset).ok().zip(usize::try_from(*length).ok());
    part.and_then(|(offset, length)| texts.part(*blob, offset, length))
        .map(Value::Blob)
        .ok_or_else(|| failed("blob.sub", &format!("{length} bytes from {offset} on are not in a blob of {len}")))
}

/// The encoding at this place of the ENUM.
fn encoding(function: &str, word: u32) -> Result<Encoding, Failure> {
    let encoding = usize::try_from(word).ok().and_then(|place| Encoding::ALL.get(place));
    encoding.copied().ok_or_else(|| failed(function, "there is no such encoding"))
}

/// Whether digits are written in upper case. For an encoding without hexadecimal digits no case may be given.
fn is_upper(function: &str, encoding: Encoding, case: u32) -> Result<bool, Failure> {
    let case = usize::try_from(case).ok().and_then(|place| CASES.get(place)).copied().unwrap_or_default();
    match encoding.has_hex_digits() || case == "DEFAULT" {
        true => Ok(case == "UPPER"),
        false => Err(failed(function, &format!("case={case} is for the encodings HEX and URL"))),
    }
}

/// The bytes of a text, or of its first `length` bytes if that is more than 0.
fn decoded(
    function: &str,
    encoding: Encoding,
    length: i64,
    text: Option<Text>,
    texts: &Texts<'_>,
) -> Result<Vec<u8>, Failure> {
    let bytes = texts.bytes(text);
    let length = usize::try_from(length).ok().filter(|length| *length > 0).unwrap_or(usize::MAX);
    let within = &bytes[..length.min(bytes.len())];
    // As in Varnish, all of a HEX text has to be right.
    let is_right = encoding != Encoding::Hex || bytes.iter().all(u8::is_ascii_hexdigit);
    encoding.decode(within).filter(|_| is_right).ok_or_else(|| {
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES_MAX)]).into_owned();
        failed(function, &format!("the text that begins with {shown:?} is not of this encoding"))
    })
}

/// How much of a text a message shows.
const SHOWN_BYTES_MAX: usize = 80;

/// A text of these bytes. It ends before a zero byte, as in Varnish, so that none gets into a header.
fn encoded(encoding: Encoding, is_upper: bool, bytes: &[u8]) -> Vec<u8> {
    let mut text = encoding.encode(bytes, is_upper);
    text.truncate(memchr::memchr(0, &text).unwrap_or(text.len()));
    text
}

#[cfg(test)]
mod tests {
    use super::super::tests::shown;
    use super::*;

    /// The words of `decoding`, `encoding` and `case`.
    const IDENTITY: Result<Value, &str> = Ok(Value::Word(0));
    const BASE64: Result<Value, &str> = Ok(Value::Word(1));
    const HEX: Result<Value, &str> = Ok(Value::Word(5));
    const URL: Result<Value, &str> = Ok(Value::Word(6));
    const LOWER: Result<Value, &str> = Ok(Value::Word(0));
    const UPPER: Result<Value, &str> = Ok(Value::Word(1));
    const DEFAULT: Result<Value, &str> = Ok(Value::Word(2));

    #[test]
    fn the_words_are_those_of_the_signatures() {
        let blob = crate::vmods::find("blob").expect("there is the module");
        let encode = crate::vmods::function(blob, "encode").expect("there is the function").function();
        assert_eq!(encode.parameters[1].words, CASES);
        let names = ["IDENTITY", "BASE64", "BASE64URL", "BASE64URLNOPAD", "BASE64CF", "HEX", "URL"];
        assert_eq!(encode.parameters[0].words, names);
        let own: Vec<_> = Encoding::ALL.iter().map(|encoding| format!("{encoding:?}").to_ascii_uppercase()).collect();
        assert_eq!(own, names);
    }

    #[test]
    fn functions_return_what_varnish_documents() {
        let length = |length| Ok(Value::Int(length));
        let none = Ok(Value::Text(None));
        for (name, args, expected) in [
            ("decode", vec![BASE64, length(0), Err("Zm9vYmFyYmF6")], "Blob(\"foobarbaz\")"),
            ("decode", vec![BASE64, length(4), Err("Zm9vYmFyYmF6")], "Blob(\"foo\")"),
            ("decode", vec![IDENTITY, length(-1), Err("foo")], "Blob(\"foo\")"),
            ("decode", vec![HEX, length(99), none], "Blob(\"\")"),
            (
                "decode",
                vec![HEX, length(2), Err("41x")],
                "blob.decode(): the text that begins with \"41x\" is not of this encoding",
            ),
            (
                "decode",
                vec![URL, length(3), Err("a%20b")],
                "blob.decode(): the text that begins with \"a%20b\" is not of this encoding",
            ),
            ("transcode", vec![HEX, BASE64, DEFAULT, length(0), Err("666f6f")], "\"Zm9v\""),
            ("transcode", vec![URL, IDENTITY, DEFAULT, length(0), Err("foo%20bar")], "\"foo bar\""),
            ("transcode", vec![IDENTITY, URL, UPPER, length(0), Err("foo/bar")], "\"foo%2Fbar\""),
            ("transcode", vec![IDENTITY, URL, LOWER, length(0), Err("foo/bar")], "\"foo%2fbar\""),
            ("transcode", vec![HEX, IDENTITY, DEFAULT, length(0), Err("666f6f00626172")], "\"foo\""),
            ("transcode", vec![BASE64, BASE64, DEFAULT, length(0), Err("Zm9vYg")], "\"Zm9vYg\""),
            ("transcode", vec![BASE64, BASE64, DEFAULT, length(6), Err("Zm9vYg")], "\"Zm9vYg==\""),
            ("transcode", vec![HEX, HEX, UPPER, length(0), Err("abc")], "\"0ABC\""),
            ("transcode", vec![IDENTITY, IDENTITY, DEFAULT, length(0), none], "\"\""),
            (
                "transcode",
                vec![HEX, BASE64, UPPER, length(0), Err("41")],
                "blob.transcode(): case=UPPER is for the encodings HEX and URL",
            ),
            ("encode", vec![HEX, DEFAULT, Ok(Value::Word(0))], "blob.encode(): arguments of other types than its own"),
        ] {
            assert_eq!(shown(&format!("blob.{name}"), &args), expected, "{name} {args:?}");
        }
    }

    #[test]
    fn blobs_are_measured_compared_and_cut() {
        let program = crate::program::Program::default();
        let mut made = Vec::new();
        let mut texts = Texts::new(&program, &mut made, 100);
        let [a, b, empty, other] =
            ["abcdef", "abcdef", "", ""].map(|text| Value::Blob(texts.keep(text.as_bytes()).expect("there is room")));
        let bytes = Value::Bytes;
        for (function, args, expected) in [
            (length as Pure, vec![a], Ok(Value::Int(6))),
            (length, vec![empty], Ok(Value::Int(0))),
            (same, vec![a, a], Ok(Value::Bool(true))),
            (same, vec![a, b], Ok(Value::Bool(false))),
            (same, vec![empty, other], Ok(Value::Bool(true))),
            (equal, vec![a, b], Ok(Value::Bool(true))),
            (equal, vec![a, empty], Ok(Value::Bool(false))),
            (sub, vec![empty, bytes(0), bytes(0)], Err("blob.sub(): the blob is empty")),
            (sub, vec![a, bytes(3), bytes(4)], Err("blob.sub(): 3 bytes from 4 on are not in a blob of 6")),
            (sub, vec![a, bytes(-1), bytes(0)], Err("blob.sub(): -1 bytes from 0 on are not in a blob of 6")),
            (
                sub,
                vec![a, bytes(i64::MAX), bytes(1)],
                Err("blob.sub(): 9223372036854775807 bytes from 1 on are not in a blob of 6"),
            ),
        ] {
            let found = function(&args, &mut texts).map_err(|failure| failure.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{args:?}");
        }
        let Ok(Value::Blob(part)) = sub(&[a, bytes(3), bytes(2)], &mut texts) else { panic!("it is a blob") };
        assert_eq!(texts.bytes(Some(part)), b"cde");
        let Ok(whole) = sub(&[a, bytes(6), bytes(0)], &mut texts) else { panic!("it is a blob") };
        assert_eq!(same(&[whole, a], &mut texts), Ok(Value::Bool(true)), "nothing is copied");
        let hex = encode(&[Value::Word(5), Value::Word(1), Value::Blob(part)], &mut texts);
        let Ok(Value::Text(hex)) = hex else { panic!("it is a text") };
        assert_eq!(texts.bytes(hex), b"636465");
    }
}
