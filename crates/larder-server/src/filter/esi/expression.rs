//! Tests of `<esi:when test="...">`: a text in, a tree out, and whether it holds for a visitor.
//!
//! Source: ESI 1.0, section 5; `&&`, `||` and `has` are Akamai's. What is no test is an error when the page is read, so that
//! nothing is left that could fail for one visitor alone.
//!
//! ```text
//! or      = and { ("|" | "||") and }
//! and     = not { ("&" | "&&") not }
//! not     = "!" not | compare
//! compare = operand [ ("==" | "!=" | "<" | ">" | "<=" | ">=" | "has") operand ]
//! operand = "(" or ")" | 'text' | word | $(VARIABLE)
//! ```

use std::cmp::Ordering;

use super::variable::{self, Fault, Variable, Visitor};

/// How deep parentheses and `!` may lie in each other: each takes room on the stack.
const DEPTH_MAX: usize = 32;
/// The most digits of a number: longer ones are texts, as `f64` cannot tell them apart.
const DIGITS_MAX: usize = 15;
/// How much of a broken variable the log shows.
const SHOWN_BYTES: usize = 64;

/// A test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// One of them holds.
    Any(Vec<Test>),
    /// All of them hold.
    All(Vec<Test>),
    /// It does not hold.
    Not(Box<Test>),
    /// Two operands compared.
    Compare(Operand, Operator, Operand),
    /// A variable has a value; one of a list is `true`.
    Has(Variable),
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A text of the page.
    Text(Box<[u8]>),
    /// A variable.
    Variable(Variable),
}

/// How two operands are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `<=`
    AtMost,
    /// `>=`
    AtLeast,
    /// `has`: the second is a part of the first.
    Has,
}

/// The longer come first.
const OPERATORS: [(&[u8], Operator); 6] = [
    (b"==", Operator::Equal),
    (b"!=", Operator::Unequal),
    (b"<=", Operator::AtMost),
    (b">=", Operator::AtLeast),
    (b"<", Operator::Less),
    (b">", Operator::Greater),
];

impl Test {
    /// Reads a test. An error says why it is none.
    pub fn parse(text: &[u8]) -> Result<Self, Fault> {
        let mut reading = Reading { rest: text, depth: 0 };
        let found = reading.any()?;
        reading.skip_space();
        if !reading.rest.is_empty() {
            return Err("a test with something behind its end".into());
        }
        found.into_test()
    }

    /// Whether it holds.
    pub fn holds(&self, visitor: &Visitor<'_>) -> bool {
        match self {
            Self::Any(tests) => tests.iter().any(|test| test.holds(visitor)),
            Self::All(tests) => tests.iter().all(|test| test.holds(visitor)),
            Self::Not(test) => !test.holds(visitor),
            Self::Has(variable) => {
                let value = variable.value(visitor);
                if variable.is_of_a_list() { value.bytes() == b"true" } else { !value.bytes().is_empty() }
            }
            Self::Compare(left, operator, right) => match (left, right) {
                (Operand::Text(left), Operand::Text(right)) => compare(left, *operator, right),
                (Operand::Text(left), Operand::Variable(right)) => {
                    compare(left, *operator, right.value(visitor).bytes())
                }
                (Operand::Variable(left), Operand::Text(right)) => {
                    compare(left.value(visitor).bytes(), *operator, right)
                }
                (Operand::Variable(left), Operand::Variable(right)) => {
                    compare(left.value(visitor).bytes(), *operator, right.value(visitor).bytes())
                }
            },
        }
    }

    /// The bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let of = |operand: &Operand| match operand {
            Operand::Text(text) => text.len(),
            Operand::Variable(variable) => variable.heap_bytes(),
        };
        match self {
            Self::Any(tests) | Self::All(tests) => {
                tests.capacity() * size_of::<Self>() + tests.iter().map(Self::heap_bytes).sum::<usize>()
            }
            Self::Not(test) => size_of::<Self>() + test.heap_bytes(),
            Self::Compare(left, _, right) => of(left) + of(right),
            Self::Has(variable) => variable.heap_bytes(),
        }
    }
}

/// Compares as numbers what are numbers, and else bytes. Nothing is equal to, other than, or less than an empty text.
fn compare(left: &[u8], operator: Operator, right: &[u8]) -> bool {
    if left.is_empty() || right.is_empty() {
        return false;
    }
    if operator == Operator::Has {
        return memchr::memmem::find(left, right).is_some();
    }
    let order = match (number(left), number(right)) {
        (Some(left), Some(right)) => left.total_cmp(&right),
        _ => left.cmp(right),
    };
    match operator {
        Operator::Equal => order == Ordering::Equal,
        Operator::Unequal => order != Ordering::Equal,
        Operator::Less => order == Ordering::Less,
        Operator::Greater => order == Ordering::Greater,
        Operator::AtMost => order != Ordering::Greater,
        Operator::AtLeast => order != Ordering::Less,
        Operator::Has => false,
    }
}

/// A number, as `-12` or `1.5`; `None` for any other text.
fn number(text: &[u8]) -> Option<f64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let (whole, part) = match memchr::memchr(b'.', digits) {
        Some(dot) => (&digits[..dot], Some(&digits[dot + 1..])),
        None => (digits, None),
    };
    let are_digits = |text: &[u8]| !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    if digits.len() > DIGITS_MAX || !are_digits(whole) || part.is_some_and(|part| !are_digits(part)) {
        return None;
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    // There is one zero.
    Some(number + 0.0)
}

/// A text that is read.
struct Reading<'a> {
    rest: &'a [u8],
    /// How deep it is.
    depth: usize,
}

/// What was read.
enum Found {
    Test(Test),
    Operand(Operand),
}

impl Found {
    fn into_test(self) -> Result<Test, Fault> {
        match self {
            Self::Test(test) => Ok(test),
            Self::Operand(Operand::Variable(variable)) => Ok(Test::Has(variable)),
            Self::Operand(Operand::Text(_)) => Err("a test of a text alone".into()),
        }
    }

    fn into_operand(self) -> Result<Operand, Fault> {
        match self {
            Self::Operand(operand) => Ok(operand),
            Self::Test(_) => Err("a test that compares a test".into()),
        }
    }
}

impl Reading<'_> {
    fn any(&mut self) -> Result<Found, Fault> {
        self.listed(Self::all, b'|', Test::Any)
    }

    fn all(&mut self) -> Result<Found, Fault> {
        self.listed(Self::not, b'&', Test::All)
    }

    /// One of `each`, or several with `between` between them, once or twice.
    fn listed(
        &mut self,
        each: fn(&mut Self) -> Result<Found, Fault>,
        between: u8,
        make: fn(Vec<Test>) -> Test,
    ) -> Result<Found, Fault> {
        let first = each(self)?;
        if !self.takes(&[between]) {
            return Ok(first);
        }
        let mut tests = vec![first.into_test()?];
        loop {
            if self.rest.first() == Some(&between) {
                self.rest = &self.rest[1..];
            }
            tests.push(each(self)?.into_test()?);
            if !self.takes(&[between]) {
                return Ok(Found::Test(make(tests)));
            }
        }
    }

    fn not(&mut self) -> Result<Found, Fault> {
        if !self.takes(b"!") {
            return self.compare();
        }
        self.deeper(|reading| {
            let test = reading.not()?.into_test()?;
            Ok(Found::Test(Test::Not(Box::new(test))))
        })
    }

    fn compare(&mut self) -> Result<Found, Fault> {
        let left = self.operand()?;
        let Some(operator) = self.operator() else { return Ok(left) };
        let right = self.operand()?;
        Ok(Found::Test(Test::Compare(left.into_operand()?, operator, right.into_operand()?)))
    }

    fn operator(&mut self) -> Option<Operator> {
        self.skip_space();
        let signs = OPERATORS.iter().find(|(signs, _)| self.rest.starts_with(signs));
        if let Some((signs, operator)) = signs {
            self.rest = &self.rest[signs.len()..];
            return Some(*operator);
        }
        let after = self.rest.strip_prefix(b"has").filter(|after| !after.first().is_some_and(is_of_a_word))?;
        self.rest = after;
        Some(Operator::Has)
    }

    fn operand(&mut self) -> Result<Found, Fault> {
        self.skip_space();
        match self.rest {
            [b'(', rest @ ..] => {
                self.rest = rest;
                self.deeper(|reading| {
                    let found = reading.any()?;
                    if reading.takes(b")") {
                        Ok(found)
                    } else {
                        Err("a test with a parenthesis that does not end".into())
                    }
                })
            }
            [quote @ (b'\'' | b'"'), rest @ ..] => {
                let end = memchr::memchr(*quote, rest).ok_or("a test with a quote that does not end")?;
                self.rest = &rest[end + 1..];
                Ok(Found::Operand(Operand::Text(rest[..end].into())))
            }
            [b'$', ..] => {
                let (variable, len) = variable::at_start(self.rest).ok_or_else(|| broken(self.rest))?;
                if variable.is_unknown() {
                    return Err(format!("a test with the unknown variable {variable}").into());
                }
                self.rest = &self.rest[len..];
                Ok(Found::Operand(Operand::Variable(variable)))
            }
            rest => {
                let len = rest.iter().take_while(|byte| is_of_a_word(byte)).count();
                if len == 0 {
                    return Err("a test that larder does not understand".into());
                }
                self.rest = &rest[len..];
                Ok(Found::Operand(Operand::Text(rest[..len].into())))
            }
        }
    }

    fn deeper(&mut self, read: impl FnOnce(&mut Self) -> Result<Found, Fault>) -> Result<Found, Fault> {
        if self.depth == DEPTH_MAX {
            return Err("a test with too many parentheses or \"!\" in each other".into());
        }
        self.depth += 1;
        let found = read(self);
        self.depth -= 1;
        found
    }

    fn takes(&mut self, sign: &[u8]) -> bool {
        self.skip_space();
        let rest = self.rest.strip_prefix(sign);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }
}

/// The fault of a text that begins like a variable and is none.
fn broken(text: &[u8]) -> Fault {
    let shown = &text[..text.len().min(SHOWN_BYTES)];
    format!("a test with a broken variable: {}", shown.escape_ascii()).into()
}

fn is_of_a_word(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

#[cfg(test)]
mod tests {
    use larder_http::Fields;

    use super::*;

    fn visitor(fields: &Fields) -> Visitor<'_> {
        Visitor {
            fields,
            named: Some(b"a.test"),
            target: b"/p?n=9&big=9007199254740993",
            around: variable::Place::Text,
        }
    }

    #[test]
    fn a_test_holds_as_the_note_says() {
        let fields: Fields =
            [("Cookie", "group=Advanced; visits=10; two=a b; id=a'b; zero=-0"), ("Accept-Language", "en, de")]
                .into_iter()
                .collect();
        for (text, expected) in [
            ("1==1", true),
            ("!(1==1)", false),
            ("!1==2", true),
            ("!!(1==1)", true),
            ("!('a'<='c')", false),
            ("(1==1)|('abc'=='def')", true),
            ("(4!=5)&(4==5)", false),
            ("1==2 || 1==1 && 2==3", false),
            ("1==1 | 1==2 & 1==2", true),
            ("(1==1 | 1==2) & 1==2", false),
            ("$(HTTP_COOKIE{group})=='Advanced'", true),
            ("$(HTTP_COOKIE{group})==Advanced", true),
            ("$(HTTP_COOKIE{group}) == 'advanced'", false),
            ("'Advanced' == $(HTTP_COOKIE{group})", true),
            ("$(HTTP_COOKIE{two})==\"a b\"", true),
            ("$(HTTP_COOKIE{visits}) > 9", true),
            ("$(HTTP_COOKIE{visits}) > '9'", true),
            ("$(HTTP_COOKIE{visits}) >= 10.0 & $(HTTP_COOKIE{visits})<=10", true),
            ("$(HTTP_COOKIE{visits}) < $(QUERY_STRING{n})", false),
            ("$(HTTP_COOKIE{visits}) < 9a", true),
            ("3.01.23 < 3.1", true),
            ("-2 < -1.5", true),
            ("$(HTTP_COOKIE{zero}) == 0", true),
            ("$(QUERY_STRING{big}) == 9007199254740992", false),
            ("$(HTTP_HOST) == 'a.test'", true),
            ("$(HTTP_ACCEPT_LANGUAGE{de})", true),
            ("$(HTTP_ACCEPT_LANGUAGE{fr})", false),
            ("!$(HTTP_ACCEPT_LANGUAGE{fr})", true),
            ("$(HTTP_ACCEPT_LANGUAGE{de})==true", true),
            ("$(HTTP_COOKIE{group})", true),
            ("($(HTTP_COOKIE{none}))", false),
            ("($(HTTP_COOKIE{group}))=='Advanced'", true),
            // Nothing compares with what is not there.
            ("$(HTTP_COOKIE{none})=='x'", false),
            ("$(HTTP_COOKIE{none})!='x'", false),
            ("$(HTTP_COOKIE{none})==''", false),
            ("''==''", false),
            ("$(HTTP_COOKIE{none}|'x')=='x'", true),
            ("$(HTTP_COOKIE{group}) has 'van'", true),
            ("$(HTTP_COOKIE{group}) has 'Van'", false),
            ("$(HTTP_COOKIE{group}) has ''", false),
        ] {
            let test = Test::parse(text.as_bytes()).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            assert_eq!(test.holds(&visitor(&fields)), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_test_is_refused() {
        let deep = [["("; 33].concat(), "1==1".to_owned(), [")"; 33].concat()].concat();
        let nots = format!("{}(1==1)", "!".repeat(1000));
        let megabyte = "(".repeat(1 << 20);
        for text in [
            "",
            " ",
            "1",
            "'a'",
            "(1 & 4)",
            "('abc' | 'def')",
            "1==",
            "==1",
            "1==1)",
            "(1==1",
            "1=1",
            "1==1==1",
            "(1==1)==1",
            "1==1 &",
            "| 1==1",
            "1==1 &&& 1==1",
            "$(HTTP_COOKIE{a}",
            "$(HTTP_COOKIE{a})=='b",
            "$(NONE)=='a'",
            "$(none)=='a'",
            "$(HTTP_COOKIE{a}) matches 'b'",
            "$(HTTP_COOKIE{a}) hasnt 'b'",
            "a b",
            "1==1;",
            "\u{0}",
            &deep,
            &nots,
            &megabyte,
        ] {
            assert!(Test::parse(text.as_bytes()).is_err(), "{}", &text[..text.len().min(60)]);
        }
        let just = [["("; 32].concat(), "1==1".to_owned(), [")"; 32].concat()].concat();
        assert!(Test::parse(just.as_bytes()).is_ok());
        let many = vec!["1==2"; 100_000].join("|");
        assert!(Test::parse(many.as_bytes()).is_ok(), "length alone is no depth");
    }
}
