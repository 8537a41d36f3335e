//! An expression of the words of a query.
//!
//! ```text
//! query = any END
//! any   = all { "or" all }
//! all   = not { "and" not }
//! not   = [ "not" ] ( "(" any ")" | test )
//! test  = [ "{" level "}" ] tag { "," tag } [ ":" prefix ] [ "[" field "]" ] [ operator value ]
//!       | "vxid" operator number
//! ```

use super::lex::{self, Kind, QueryError, Word, shown};
use super::number;
use super::{Compile, Expression, Order, Place, Test};
use crate::globs::TagSet;

/// Reads a text of queries, one a line.
pub fn parse(text: &[u8], caseless: bool, compile: Compile<'_>) -> Result<Expression, QueryError> {
    if text.len() > TEXT_BYTES_MAX {
        let what = format!("the query has {} bytes: at most {TEXT_BYTES_MAX} are read", text.len());
        return Err(QueryError::new(text, 0, what));
    }
    let words = lex::words(text)?;
    let mut parser = Parser { text, words: &words, next: 0, depth: 0, caseless, compile };
    let mut queries = Vec::new();
    while parser.next < words.len() {
        if parser.word().kind == Kind::End {
            parser.next += 1;
            continue;
        }
        queries.push(parser.any()?);
        if parser.word().kind != Kind::End {
            return Err(parser.wrong("\"and\", \"or\" or the end of the query"));
        }
    }
    match queries.is_empty() {
        true => Err(QueryError::new(text, 0, "the query is empty: write one, such as RespStatus >= 500")),
        false => Ok(one_of(queries, Expression::Any)),
    }
}

struct Parser<'a> {
    text: &'a [u8],
    /// Never empty; the last one is an end.
    words: &'a [Word<'a>],
    next: usize,
    depth: usize,
    caseless: bool,
    compile: Compile<'a>,
}

impl<'a> Parser<'a> {
    fn any(&mut self) -> Result<Expression, QueryError> {
        let mut all = vec![self.all()?];
        while self.takes("or") {
            all.push(self.all()?);
        }
        Ok(one_of(all, Expression::Any))
    }

    fn all(&mut self) -> Result<Expression, QueryError> {
        let mut all = vec![self.not()?];
        while self.takes("and") {
            all.push(self.not()?);
        }
        Ok(one_of(all, Expression::All))
    }

    fn not(&mut self) -> Result<Expression, QueryError> {
        if self.takes("not") {
            return Ok(Expression::Not(Box::new(self.operand()?)));
        }
        self.operand()
    }

    fn operand(&mut self) -> Result<Expression, QueryError> {
        if !self.takes("(") {
            return self.test();
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let what = format!("parentheses are nested deeper than {DEPTH_MAX}");
            return Err(QueryError::new(self.text, self.words[self.next - 1].at.0, what));
        }
        let inside = self.any()?;
        self.depth -= 1;
        self.expects(")")?;
        Ok(inside)
    }

    fn test(&mut self) -> Result<Expression, QueryError> {
        if self.takes("vxid") {
            return self.vxid();
        }
        let place = self.place()?;
        let at = self.next;
        let test = match self.word().kind {
            Kind::End | Kind::Fixed("and" | "or" | ")") => return Ok(Expression::Record(place, Test::There)),
            Kind::Fixed(is @ ("eq" | "ne")) => {
                self.next += 1;
                let text = self.value("a text")?.to_vec();
                Test::Text { is: is == "eq", text, caseless: self.caseless }
            }
            Kind::Fixed(is @ ("~" | "!~")) => {
                self.next += 1;
                Test::Pattern(is == "~", self.pattern()?)
            }
            Kind::Fixed(word) if order(word).is_some() => {
                self.next += 1;
                self.number(order(word).unwrap_or(Order::Equal))?
            }
            Kind::Fixed(_) | Kind::Value(_) => {
                self.next = at;
                return Err(self.wrong("an operator: ==, !=, <, <=, >, >=, eq, ne, ~ or !~"));
            }
        };
        Ok(Expression::Record(place, test))
    }

    fn vxid(&mut self) -> Result<Expression, QueryError> {
        let order = match self.word().kind {
            Kind::Fixed(word) => order(word),
            Kind::Value(_) | Kind::End => None,
        };
        let Some(order) = order else {
            return Err(self.wrong("==, !=, <, <=, > or >=, as vxid is a number and stands alone"));
        };
        self.next += 1;
        let at = self.word().at.0;
        match self.number(order)? {
            Test::Whole(order, number) => Ok(Expression::Vxid(order, number)),
            Test::There | Test::Fraction(..) | Test::Text { .. } | Test::Pattern(..) => {
                Err(QueryError::new(self.text, at, "a vxid is compared to a whole number"))
            }
        }
    }

    /// Where to look.
    fn place(&mut self) -> Result<Place, QueryError> {
        let level = if self.takes("{") { Some(self.level()?) } else { None };
        let mut tags = self.tags()?;
        while self.takes(",") {
            tags = tags.and(self.tags()?);
        }
        let prefix = if self.takes(":") { Some(self.value("the beginning of a record")?.to_vec()) } else { None };
        let mut field = None;
        if self.takes("[") {
            let (at, value) = (self.word().at.0, self.value("the number of a field")?);
            let number = number::whole(value).filter(|(_, length)| *length == value.len());
            match number.and_then(|(number, _)| usize::try_from(number).ok()).filter(|number| *number > 0) {
                Some(number) => field = Some(number),
                None => return Err(QueryError::new(self.text, at, "fields are counted from 1: write [1]")),
            }
            self.expects("]")?;
        }
        Ok(Place { level, tags, prefix, field })
    }

    fn level(&mut self) -> Result<(Order, u32), QueryError> {
        let at = self.word().at.0;
        let value = self.value("a level")?;
        let (order, digits) = match value.split_last() {
            Some((b'+', digits)) => (Order::GreaterOrEqual, digits),
            Some((b'-', digits)) => (Order::LessOrEqual, digits),
            _ => (Order::Equal, value),
        };
        let number = number::whole(digits).filter(|(_, length)| *length == digits.len());
        let Some(level) = number.and_then(|(number, _)| u32::try_from(number).ok()) else {
            let mend = "a level is a number: write {2}, {2+} for 2 and more, {2-} for 2 and less";
            return Err(QueryError::new(self.text, at, mend));
        };
        self.expects("}")?;
        Ok((order, level))
    }

    fn tags(&mut self) -> Result<TagSet, QueryError> {
        if self.word().kind == Kind::Fixed("vxid") {
            return Err(QueryError::new(self.text, self.word().at.0, "vxid stands alone: write vxid == 32770"));
        }
        let at = self.word().at.0;
        let glob = self.value("the name of a tag, such as ReqURL")?;
        TagSet::of_glob(glob).map_err(|error| QueryError::new(self.text, at, error.to_string()))
    }

    fn number(&mut self, order: Order) -> Result<Test, QueryError> {
        let at = self.word().at.0;
        let value = self.value("a number")?;
        let end = value.iter().rposition(|byte| !number::is_space(*byte)).map_or(0, |last| last + 1);
        let value = &value[..end];
        let is_fraction = value.contains(&b'.') || value.contains(&b'e') && !value.contains(&b'x');
        let test = if is_fraction {
            number::fraction(value).map(|number| Test::Fraction(order, number))
        } else {
            let number = number::whole(value).filter(|(_, length)| *length == value.len());
            number.map(|(number, _)| Test::Whole(order, number))
        };
        let wrong = || format!("\"{}\" is no number: texts are compared by eq and ne", shown(value));
        test.ok_or_else(|| QueryError::new(self.text, at, wrong()))
    }

    fn pattern(&mut self) -> Result<Box<dyn super::Pattern>, QueryError> {
        let at = self.word().at.0;
        let source = self.value("a regular expression")?;
        let compiled = match str::from_utf8(source) {
            Ok(source) => (self.compile)(source, self.caseless),
            Err(_) => Err("it is not UTF-8: write \\xff for a byte".to_owned()),
        };
        compiled.map_err(|why| QueryError::new(self.text, at, format!("the regular expression cannot be used: {why}")))
    }

    fn word(&self) -> &'a Word<'a> {
        &self.words[self.next.min(self.words.len() - 1)]
    }

    fn takes(&mut self, fixed: &'static str) -> bool {
        let is = self.word().kind == Kind::Fixed(fixed);
        self.next += usize::from(is);
        is
    }

    fn expects(&mut self, fixed: &'static str) -> Result<(), QueryError> {
        if self.takes(fixed) { Ok(()) } else { Err(self.wrong(&format!("\"{fixed}\""))) }
    }

    fn value(&mut self, what: &str) -> Result<&'a [u8], QueryError> {
        match &self.word().kind {
            Kind::Value(value) => {
                self.next += 1;
                Ok(value)
            }
            Kind::Fixed(_) | Kind::End => Err(self.wrong(what)),
        }
    }

    /// Says what should stand in the place of the next word.
    fn wrong(&self, expected: &str) -> QueryError {
        let word = self.word();
        let found = match word.kind {
            Kind::End => "the end".to_owned(),
            Kind::Fixed(_) | Kind::Value(_) => format!("\"{}\"", shown(&self.text[word.at.0..word.at.1])),
        };
        QueryError::new(self.text, word.at.0, format!("here should be {expected}, and there is {found}"))
    }
}

fn order(word: &str) -> Option<Order> {
    Some(match word {
        "==" => Order::Equal,
        "!=" => Order::NotEqual,
        "<" => Order::Less,
        "<=" => Order::LessOrEqual,
        ">" => Order::Greater,
        ">=" => Order::GreaterOrEqual,
        _ => return None,
    })
}

/// The only one, or what joins several.
fn one_of(mut all: Vec<Expression>, join: fn(Vec<Expression>) -> Expression) -> Expression {
    match all.len() {
        1 => all.remove(0),
        _ => join(all),
    }
}

/// How deep parentheses may be nested.
const DEPTH_MAX: usize = 100;
/// How long a text of queries may be.
const TEXT_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::plain;

    /// The form of an expression.
    fn form(text: &[u8]) -> Result<String, String> {
        fn one(expression: &Expression) -> String {
            let join = |all: &[Expression], word: &str| all.iter().map(one).collect::<Vec<_>>().join(word);
            match expression {
                Expression::Any(all) => format!("({})", join(all, "|")),
                Expression::All(all) => format!("({})", join(all, "&")),
                Expression::Not(inside) => format!("!{}", one(inside)),
                Expression::Vxid(order, number) => format!("vxid {order:?} {number}"),
                Expression::Record(place, test) => {
                    let names = crate::ALL.iter().filter(|tag| place.tags.has(**tag)).map(|tag| tag.name());
                    let mut text = names.collect::<Vec<_>>().join(",");
                    if let Some((order, level)) = place.level {
                        text = format!("{{{order:?} {level}}}{text}");
                    }
                    if let Some(prefix) = &place.prefix {
                        text += &format!(":{}", prefix.escape_ascii());
                    }
                    if let Some(field) = place.field {
                        text += &format!("[{field}]");
                    }
                    match test {
                        Test::There => text,
                        Test::Whole(order, number) => format!("{text} {order:?} {number}"),
                        Test::Fraction(order, number) => format!("{text} {order:?} {number:?}"),
                        Test::Text { is, text: other, caseless } => {
                            format!("{text} is {is} '{}' {caseless}", other.escape_ascii())
                        }
                        Test::Pattern(is, pattern) => format!("{text} matches {is} {pattern:?}"),
                    }
                }
            }
        }
        parse(text, false, &plain::compile).map(|expression| one(&expression)).map_err(|error| error.to_string())
    }

    #[test]
    fn queries_are_read_with_their_precedence() {
        for (text, expected) in [
            ("ReqURL", "ReqURL"),
            ("ReqURL or RespStatus and not Hit", "(ReqURL|(RespStatus&!Hit))"),
            ("(ReqURL or RespStatus) and not (Hit)", "((ReqURL|RespStatus)&!Hit)"),
            ("ReqURL\n\n# all\n RespStatus == 200 # good\n", "(ReqURL|RespStatus Equal 200)"),
            ("RespStatus \\\n >= \\\n 500", "RespStatus GreaterOrEqual 500"),
            ("RespStatus == 0x1f4", "RespStatus Equal 500"),
            ("Timestamp:Process[2] > 0.8", "Timestamp:Process[2] Greater 0.8"),
            ("Timestamp:Resp[2] > 1.", "Timestamp:Resp[2] Greater 1.0"),
            ("Length < 1e3", "Length Less 1000.0"),
            ("Length <= '5 '", "Length LessOrEqual 5"),
            ("ReqURL eq /a", "ERROR"),
            ("ReqURL eq '/a'", "ReqURL is true '/a' false"),
            ("ReqURL ne a.b", "ReqURL is false 'a.b' false"),
            ("ReqURL,Resps*:a eq 1", "ReqURL,RespStatus:a is true '1' false"),
            ("{2+}End", "{GreaterOrEqual 2}End"),
            ("{3-}End", "{LessOrEqual 3}End"),
            ("{0}End", "{Equal 0}End"),
            ("vxid == 32770 or vxid<5", "(vxid Equal 32770|vxid Less 5)"),
            ("ReqURL ~ \"^/a\"", "ReqURL matches true Plain(\"^/a\", false)"),
            ("ReqURL !~ a and End", "(ReqURL matches false Plain(\"a\", false)&End)"),
        ] {
            match expected {
                "ERROR" => assert!(form(text.as_bytes()).is_err(), "{text}"),
                expected => assert_eq!(form(text.as_bytes()), Ok(expected.to_owned()), "{text}"),
            }
        }
    }

    #[test]
    fn an_error_says_what_would_be_right() {
        for (text, place, expected) in [
            ("", 1, "the query is empty: write one, such as RespStatus >= 500"),
            (" # nothing\n\n", 1, "the query is empty: write one, such as RespStatus >= 500"),
            ("(ReqURL", 8, "here should be \")\", and there is the end"),
            ("()", 2, "here should be the name of a tag, such as ReqURL, and there is \")\""),
            ("ReqURL)", 7, "here should be \"and\", \"or\" or the end of the query, and there is \")\""),
            ("ReqURL eq a b", 13, "here should be \"and\", \"or\" or the end of the query, and there is \"b\""),
            ("not not ReqURL", 5, "here should be the name of a tag, such as ReqURL, and there is \"not\""),
            ("End and", 8, "here should be the name of a tag, such as ReqURL, and there is the end"),
            ("End and\nEnd", 8, "here should be the name of a tag, such as ReqURL, and there is the end"),
            ("ReqURL /", 8, "\"/\" has no meaning here: put values with it into quotes"),
            ("ReqURL a", 8, "here should be an operator: ==, !=, <, <=, >, >=, eq, ne, ~ or !~, and there is \"a\""),
            ("ReqURL ~", 9, "here should be a regular expression, and there is the end"),
            ("ReqURL ~ \"(\"", 10, "the regular expression cannot be used: missing closing parenthesis"),
            ("RespStatus == 1x", 15, "\"1x\" is no number: texts are compared by eq and ne"),
            ("RespStatus == ''", 15, "\"\" is no number: texts are compared by eq and ne"),
            (
                "RespStatus == 99999999999999999999",
                15,
                "\"99999999999999999999\" is no number: texts are compared by eq and ne",
            ),
            ("{x}End", 2, "a level is a number: write {2}, {2+} for 2 and more, {2-} for 2 and less"),
            ("{-1}End", 2, "a level is a number: write {2}, {2+} for 2 and more, {2-} for 2 and less"),
            ("{1End", 2, "a level is a number: write {2}, {2+} for 2 and more, {2-} for 2 and less"),
            ("{1 End", 4, "here should be \"}\", and there is \"End\""),
            ("End[0]", 5, "fields are counted from 1: write [1]"),
            ("End[1", 6, "here should be \"]\", and there is the end"),
            ("End:", 5, "here should be the beginning of a record, and there is the end"),
            ("Bogus", 1, "no tag is called \"Bogus\": docs/monitoring.md lists them, and \"*\" means each"),
            (
                "vxid",
                5,
                "here should be ==, !=, <, <=, > or >=, as vxid is a number and stands alone, and there is the end",
            ),
            (
                "vxid eq 1",
                6,
                "here should be ==, !=, <, <=, > or >=, as vxid is a number and stands alone, and there is \"eq\"",
            ),
            ("vxid == 1.5", 9, "a vxid is compared to a whole number"),
            ("{1}vxid == 1", 4, "vxid stands alone: write vxid == 32770"),
            ("End,vxid == 1", 5, "vxid stands alone: write vxid == 32770"),
        ] {
            let error = parse(text.as_bytes(), false, &plain::compile).unwrap_err();
            assert_eq!((error.what.as_str(), error.at + 1), (expected, place), "{text}");
        }
        let error = form(b"ReqURL ~ '\xff'").unwrap_err();
        assert!(error.starts_with("the regular expression cannot be used: it is not UTF-8"), "{error}");
    }

    #[test]
    fn what_is_long_or_deep_has_a_limit() {
        let deep = |depth: usize| format!("{}End{}", "(".repeat(depth), ")".repeat(depth)).into_bytes();
        assert_eq!(form(&deep(100)), Ok("End".to_owned()));
        let error = form(&deep(10_000)).unwrap_err();
        assert!(error.starts_with("parentheses are nested deeper than 100 (position 101)"), "{error}");
        // Side by side is not deep.
        let wide = form("End or (End and End) or ".repeat(10_000).as_bytes().strip_suffix(b" or ").unwrap()).unwrap();
        assert_eq!(wide.matches('&').count(), 10_000);
        let error = form(&b"End or ".repeat(1 << 18)).unwrap_err();
        assert!(error.starts_with("the query has 1835008 bytes"), "{error}");
    }
}
