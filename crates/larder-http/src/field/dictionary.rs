//! Dictionaries of structured fields (RFC 9651 §3.2), as targeted fields such as `CDN-Cache-Control` are (RFC 9213).

/// A member of a dictionary, without its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its key.
    pub key: Box<str>,
    /// Its value.
    pub value: Value,
}

/// The value of a member, as far as anybody here asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A Boolean: that of a key alone is true.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A string, without its quotes and escapes.
    String(Box<str>),
    /// A token.
    Token(Box<str>),
    /// Any other: a decimal, a byte sequence, a date, a display string, an inner list.
    Other,
}

/// The members of a dictionary in these lines, in order; of a key that comes more than once the last value, at its
/// first place. `None` if it is not one: then it is to be ignored as a whole (§4.2).
pub fn dictionary<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<Member>> {
    let mut text = Vec::new();
    for line in lines {
        if !text.is_empty() {
            text.extend_from_slice(b", ");
        }
        text.extend_from_slice(line);
    }
    let mut reader = Reader { rest: &text };
    reader.skip(b" ");
    let mut members: Vec<Member> = Vec::new();
    while !reader.is_done() {
        let key = reader.key()?;
        let value = match reader.eat(b'=') {
            true => reader.item_or_list()?,
            false => Value::Boolean(true),
        };
        reader.parameters()?;
        match members.iter_mut().find(|member| *member.key == *key) {
            Some(member) => member.value = value,
            None => members.push(Member { key: key.into(), value }),
        }
        reader.skip(b" \t");
        if reader.is_done() {
            return Some(members);
        }
        if !reader.eat(b',') {
            return None;
        }
        reader.skip(b" \t");
        // A comma with nothing after it.
        if reader.is_done() {
            return None;
        }
    }
    Some(members)
}

/// The bytes that are not yet read.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn is_done(&self) -> bool {
        self.rest.is_empty()
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    fn eat(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        if is_there {
            self.rest = &self.rest[1..];
        }
        is_there
    }

    fn skip(&mut self, what: &[u8]) {
        self.take(|byte| what.contains(&byte));
    }

    /// All bytes up to the first that is not meant, as text; they are ASCII.
    fn take(&mut self, is_meant: impl Fn(u8) -> bool) -> &'a str {
        let len = self.rest.iter().position(|&byte| !is_meant(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        str::from_utf8(taken).unwrap_or_default()
    }

    fn key(&mut self) -> Option<&'a str> {
        if !self.peek().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'*') {
            return None;
        }
        Some(self.take(|byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.' | b'*')
        }))
    }

    fn item_or_list(&mut self) -> Option<Value> {
        if !self.eat(b'(') {
            return self.bare_item();
        }
        loop {
            self.skip(b" ");
            if self.eat(b')') {
                return Some(Value::Other);
            }
            self.bare_item()?;
            self.parameters()?;
            if !matches!(self.peek()?, b' ' | b')') {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.eat(b';') {
            self.skip(b" ");
            self.key()?;
            if self.eat(b'=') {
                self.bare_item()?;
            }
        }
        Some(())
    }

    fn bare_item(&mut self) -> Option<Value> {
        match self.peek()? {
            b'-' | b'0'..=b'9' => self.number(),
            b'"' => self.string().map(Value::String),
            b'*' | b'a'..=b'z' | b'A'..=b'Z' => Some(Value::Token(self.take(is_of_token).into())),
            b'?' => {
                self.next();
                match self.next()? {
                    b'0' => Some(Value::Boolean(false)),
                    b'1' => Some(Value::Boolean(true)),
                    _ => None,
                }
            }
            b':' => {
                self.next();
                self.take(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
                self.eat(b':').then_some(Value::Other)
            }
            b'@' => {
                self.next();
                matches!(self.number()?, Value::Integer(_)).then_some(Value::Other)
            }
            b'%' => {
                self.next();
                self.string().map(|_| Value::Other)
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<Value> {
        let is_negative = self.eat(b'-');
        let digits = self.take(|byte| byte.is_ascii_digit());
        if digits.is_empty() || digits.len() > 15 {
            return None;
        }
        if self.eat(b'.') {
            let fraction = self.take(|byte| byte.is_ascii_digit());
            return (digits.len() <= 12 && (1..=3).contains(&fraction.len())).then_some(Value::Other);
        }
        let number: i64 = digits.parse().ok()?;
        Some(Value::Integer(if is_negative { -number } else { number }))
    }

    fn string(&mut self) -> Option<Box<str>> {
        if !self.eat(b'"') {
            return None;
        }
        let mut text = String::new();
        loop {
            match self.next()? {
                b'"' => return Some(text.into()),
                b'\\' => match self.next()? {
                    escaped @ (b'"' | b'\\') => text.push(char::from(escaped)),
                    _ => return None,
                },
                plain @ 0x20..=0x7e => text.push(char::from(plain)),
                _ => return None,
            }
        }
    }
}

fn is_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Option<Vec<(String, Value)>> {
        let members = dictionary([line.as_bytes()])?;
        Some(members.into_iter().map(|member| (member.key.into(), member.value)).collect())
    }

    #[test]
    fn a_dictionary_is_read_whole_or_not_at_all() {
        use Value::{Boolean, Integer, Other, String as Text, Token};
        for (line, expected) in [
            ("", Some(vec![])),
            ("max-age=60", Some(vec![("max-age", Integer(60))])),
            ("  max-age=60 ,\tno-store  ", Some(vec![("max-age", Integer(60)), ("no-store", Boolean(true))])),
            ("a=1, a=2", Some(vec![("a", Integer(2))])),
            ("a;x=1;y=\"2\", b=?0", Some(vec![("a", Boolean(true)), ("b", Boolean(false))])),
            ("a=\"x \\\"y\\\\\"", Some(vec![("a", Text("x \"y\\".into()))])),
            ("a=tok/en:*", Some(vec![("a", Token("tok/en:*".into()))])),
            (
                "a=-5, b=1.5, c=:aGk=:, d=@60, e=%\"x\"",
                Some(vec![("a", Integer(-5)), ("b", Other), ("c", Other), ("d", Other), ("e", Other)]),
            ),
            ("a=(1 \"x\";p tok), b", Some(vec![("a", Other), ("b", Boolean(true))])),
            ("max-age=10000, &&&&&", None),
            ("max-age=", None),
            ("a,", None),
            ("a b", None),
            ("A=1", None),
            ("a=1 2", None),
            ("a=\"x", None),
            ("a=(1", None),
            ("a=1.", None),
            ("a=1234567890123456", None),
            ("a=?2", None),
            ("a=\u{e4}", None),
        ] {
            let expected = expected.map(|list| list.into_iter().map(|(key, value)| (key.to_owned(), value)).collect());
            assert_eq!(read(line), expected, "{line}");
        }
    }

    #[test]
    fn lines_are_one_dictionary() {
        let members = dictionary([&b"a=1"[..], b"b"]).expect("it is one");
        assert_eq!(members.len(), 2);
        assert_eq!(dictionary([&b"a=1"[..], b""]), None, "an empty line is an empty member");
    }
}
