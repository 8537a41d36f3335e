//! Programs of a few instructions.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::acl::{Acl, AclLine};
use crate::policy::ObjectId;
use crate::program::{TextAt, ready};

use super::*;

/// A program under construction.
#[derive(Default)]
struct Builder(Program);

impl Builder {
    fn text(&mut self, text: &str) -> Op {
        let at = TextAt { at: self.0.texts.len() as u32, len: text.len() as u32 };
        self.0.texts.extend_from_slice(text.as_bytes());
        Op::Text(at)
    }
}

/// A request whose variables are texts, and whose regular expressions are words.
#[derive(Default)]
struct Request {
    variables: HashMap<String, String>,
    words: Vec<&'static str>,
    said: Vec<String>,
}

impl Host for Request {
    fn get(&mut self, place: Place, texts: &mut Texts<'_>) -> Result<Value, Failure> {
        match self.variables.get(&format!("{place:?}")) {
            None => Ok(Value::Text(None)),
            Some(value) => match texts.keep(value.as_bytes()) {
                Ok(text) => Ok(Value::Text(Some(text))),
                Err(full) => Err(full.into()),
            },
        }
    }

    fn set(&mut self, place: Place, value: Value, texts: &mut Texts<'_>) -> Result<(), Failure> {
        let value = match value {
            Value::Text(text) => String::from_utf8_lossy(texts.bytes(text)).into_owned(),
            other => format!("{other:?}"),
        };
        self.variables.insert(format!("{place:?}"), value);
        Ok(())
    }

    fn set_line(&mut self, header: Header, line: &[u8]) -> Result<(), Failure> {
        self.said.push(format!("{:?} {}", header.of, String::from_utf8_lossy(line).escape_debug()));
        Ok(())
    }

    fn unset(&mut self, place: Place) -> Result<(), Failure> {
        self.variables.remove(&format!("{place:?}"));
        Ok(())
    }

    fn matches(&self, regex: RegexId, subject: &[u8]) -> Result<bool, Failure> {
        match self.words.get(regex.0 as usize) {
            Some(&"") => Err(Failure::host("the limit is reached")),
            Some(word) => Ok(subject.windows(word.len()).any(|window| window == word.as_bytes())),
            None => Err(Failure::host("no such expression")),
        }
    }

    fn substitute(
        &mut self,
        regex: RegexId,
        all: bool,
        subject: Option<Text>,
        with: Option<Text>,
        texts: &mut Texts<'_>,
    ) -> Result<Option<Text>, Failure> {
        let (subject, with) = (texts.bytes(subject).to_vec(), texts.bytes(with).to_vec());
        if !self.matches(regex, &subject)? {
            return Ok(None);
        }
        let (subject, with) = (String::from_utf8_lossy(&subject), String::from_utf8_lossy(&with));
        let word = self.words[regex.0 as usize];
        let replaced = if all { subject.replace(word, &with) } else { subject.replacen(word, &with, 1) };
        texts.keep(replaced.as_bytes()).map(Some).map_err(Failure::from)
    }

    fn name(&mut self, kind: Named, number: u32, texts: &mut Texts<'_>) -> Result<Option<Text>, Failure> {
        Ok(texts.keep(format!("{kind:?} {number}").as_bytes()).ok())
    }

    fn append(&mut self, body: Variable, value: Value, texts: &mut Texts<'_>) -> Result<(), Failure> {
        let Value::Text(value) = value else { return Err(Failure::host("no text")) };
        self.said.push(format!("{body:?} += {}", String::from_utf8_lossy(texts.bytes(value))));
        Ok(())
    }

    fn property(&mut self, property: Property, of: Value, _texts: &mut Texts<'_>) -> Result<Value, Failure> {
        self.said.push(format!("{property:?} of {of:?}"));
        Ok(of)
    }

    fn call(&mut self, callee: Callee, args: &[Value], _texts: &mut Texts<'_>) -> Result<Value, Failure> {
        let Callee::New(ObjectId(number)) = callee else { return Err(Failure::host("no object")) };
        self.said.push(format!("{number}{args:?}"));
        Ok(Value::Int(1))
    }

    fn hash_data(&mut self, text: &[u8]) -> Result<(), Failure> {
        self.said.push(format!("hash {}", String::from_utf8_lossy(text)));
        Ok(())
    }

    fn synthetic(&mut self, body: Value, texts: &mut Texts<'_>) -> Result<(), Failure> {
        let Value::Text(body) = body else { return Err(Failure::host("no text")) };
        self.said.push(format!("body {}", String::from_utf8_lossy(texts.bytes(body))));
        Ok(())
    }

    fn ban(&mut self, expression: &[u8]) -> Result<(), Failure> {
        self.said.push(format!("ban {}", String::from_utf8_lossy(expression)));
        Ok(())
    }
}

const BYTES_MAX: usize = 1000;

const URL: Place = Place::Variable(Variable::ReqUrl);

/// What is on the stack, or the failure, after these instructions.
fn shown(mut builder: Builder, code: Vec<Op>, host: &mut Request) -> String {
    builder.0.code = code;
    builder.0.code.push(Op::Return(Action::Synth, 1));
    builder.0.ready = ready(&builder.0.code);
    let mut machine = Machine::default();
    match machine.run(&builder.0, 0, BYTES_MAX, host) {
        Err(failure) => failure.to_string(),
        Ok(verdict) => match machine.values(verdict) {
            [Value::Text(Some(text))] => {
                format!("{:?}", String::from_utf8_lossy(machine.bytes(&builder.0, Some(*text))))
            }
            values => format!("{values:?}"),
        },
    }
}

#[test]
fn numbers_are_computed_or_fail() {
    use Arithmetic::{Add, Divide, Multiply, Remainder, Subtract};
    for (code, expected) in [
        (vec![Op::Int(7), Op::Int(2), Op::IntBy(Add)], "[Int(9)]"),
        (vec![Op::Int(7), Op::Int(2), Op::IntBy(Divide)], "[Int(3)]"),
        (vec![Op::Int(-7), Op::Int(2), Op::IntBy(Remainder)], "[Int(-1)]"),
        (vec![Op::Int(7), Op::Int(0), Op::IntBy(Remainder)], "division by zero"),
        (vec![Op::Int(numbers::INT_MAX), Op::Int(1), Op::IntBy(Add), Op::ToText], "number overflow"),
        (vec![Op::Int(i64::MAX), Op::Int(1), Op::IntBy(Add)], "INT overflow"),
        (vec![Op::Int(i64::MIN), Op::Negate], "INT overflow"),
        (vec![Op::Bytes(5), Op::Negate], "[Bytes(-5)]"),
        (vec![Op::Real(1.5), Op::Int(2), Op::RealBy(Multiply)], "[Real(3.0)]"),
        (vec![Op::Real(1.0), Op::Real(0.0), Op::RealBy(Divide)], "division by zero"),
        (vec![Op::Real(f64::MAX), Op::Int(2), Op::RealBy(Multiply)], "REAL overflow"),
        (vec![Op::Int(1), Op::Real(0.5), Op::RealBy(Subtract)], "[Real(0.5)]"),
        (vec![Op::Real(1.0), Op::Real(2.0), Op::RealBy(Remainder)], "instruction 2 does not fit its values"),
        (vec![Op::Int(1), Op::Negate], "[Int(-1)]"),
        (vec![Op::Bytes(10), Op::Bytes(11), Op::BytesBy(Subtract)], "[Bytes(-1)]"),
        (vec![Op::Bytes(10), Op::Real(1.55), Op::BytesBy(Multiply)], "[Bytes(15)]"),
        (vec![Op::Bytes(10), Op::Int(0), Op::BytesBy(Divide)], "division by zero"),
        (vec![Op::Bytes(i64::MAX), Op::Int(2), Op::BytesBy(Multiply)], "BYTES overflow"),
        (vec![Op::Int(1), Op::Bool(true), Op::IntBy(Add)], "instruction 2 does not fit its values"),
        (vec![Op::IntBy(Add)], "instruction 0 does not fit its values"),
    ] {
        assert_eq!(shown(Builder::default(), code, &mut Request::default()), expected);
    }
}

#[test]
fn values_are_written_as_texts() {
    let mut builder = Builder::default();
    builder.0.addresses.push("[::1]:80".parse::<SocketAddr>().expect("it is an address"));
    let Op::Text(blob) = builder.text("hi") else { panic!("it is a text") };
    for (code, expected) in [
        (vec![Op::Int(-5), Op::ToText], "\"-5\""),
        (vec![Op::Real(1.0), Op::ToText], "\"1.000\""),
        (vec![Op::Real(1e15), Op::ToText], "number overflow"),
        (vec![Op::Bytes(2048), Op::ToText], "\"2048\""),
        (vec![Op::Bytes(i64::MAX), Op::ToText], "number overflow"),
        (vec![Op::Bool(true), Op::ToText], "\"true\""),
        (vec![Op::Ip(0), Op::ToText], "\"::1\""),
        (vec![Op::NoText, Op::ToText], "[Text(None)]"),
        (vec![Op::Id(Some(3)), Op::NameOf(Named::Backend)], "\"Backend 3\""),
        (vec![Op::Id(None), Op::NameOf(Named::Acl)], "[Text(None)]"),
        (vec![Op::Real(784_111_777.9), Op::TimeToText], "\"Sun, 06 Nov 1994 08:49:37 GMT\""),
        (vec![Op::Real(-1_359_300_000.0), Op::TimeToText], "\"Sun, 05 Dec 1926 08:40:00 GMT\""),
        (vec![Op::Real(1e12), Op::TimeToText], "a TIME that has no date"),
        (vec![Op::Blob(blob), Op::ToText], "\":aGk=:\""),
        (vec![Op::Text(blob), Op::Property(Property::Upper)], "\"HI\""),
        (vec![Op::NoText, Op::Property(Property::Lower)], "[Text(None)]"),
        (vec![Op::Text(blob), Op::Property(Property::Happy)], "instruction 1 does not fit its values"),
        (vec![Op::Id(None), Op::ToText], "instruction 1 does not fit its values"),
    ] {
        let builder = Builder(builder.0.clone());
        assert_eq!(shown(builder, code, &mut Request::default()), expected);
    }
}

#[test]
fn texts_are_joined_and_compared() {
    use Relation::{Equal, Greater, Less, LessOrEqual, NotEqual};
    let mut texts = Builder::default();
    let (a, b, empty) = (texts.text("a"), texts.text("b"), texts.text(""));
    let program = texts.0;
    for (code, expected) in [
        (vec![a, b, a, Op::Join(3)], "\"aba\""),
        (vec![a, Op::NoText, b, Op::Join(3)], "\"ab\""),
        (vec![Op::NoText, empty, Op::Join(2)], "\"\""),
        (vec![Op::Int(1), Op::ToText, a, Op::Join(2), b, Op::Join(2)], "\"1ab\""),
        (vec![a, b, Op::Compare(Less)], "[Bool(true)]"),
        (vec![a, a, Op::Compare(Equal)], "[Bool(true)]"),
        (vec![Op::NoText, empty, Op::Compare(Equal)], "[Bool(false)]"),
        (vec![Op::NoText, empty, Op::Compare(NotEqual)], "[Bool(true)]"),
        (vec![Op::NoText, Op::NoText, Op::Compare(Equal)], "[Bool(false)]"),
        (vec![Op::NoText, Op::NoText, Op::Compare(NotEqual)], "[Bool(true)]"),
        (vec![Op::NoText, a, Op::Compare(Greater)], "[Bool(true)]"),
        (vec![a, Op::NoText, Op::Compare(LessOrEqual)], "[Bool(false)]"),
        (vec![Op::NoText, Op::IsThere], "[Bool(false)]"),
        (vec![empty, Op::IsThere], "[Bool(true)]"),
        (vec![Op::Real(0.0), Op::IsThere, Op::Not], "[Bool(true)]"),
        (vec![a, Op::Int(1), Op::Compare(Equal)], "instruction 2 does not fit its values"),
        (vec![a, Op::Int(1), Op::Join(2)], "instruction 2 does not fit its values"),
    ] {
        let builder = Builder(program.clone());
        assert_eq!(shown(builder, code, &mut Request::default()), expected);
    }
}

#[test]
fn the_run_goes_where_conditions_say() {
    // Each side effect is a call, so that what is not evaluated is seen.
    let call = |number| Op::Call(Callee::New(ObjectId(number)), 0);
    for (code, said) in [
        (vec![Op::Bool(false), Op::And(4), call(1), Op::IsThere, Op::JumpUnless(6), call(2)], vec![]),
        (vec![Op::Bool(true), Op::And(4), call(1), Op::IsThere, Op::JumpUnless(6), call(2)], vec!["1[]", "2[]"]),
        (vec![Op::Bool(true), Op::Or(4), call(1), Op::IsThere, Op::JumpUnless(6), call(2)], vec!["2[]"]),
        (vec![Op::Bool(false), Op::Or(4), call(1), Op::IsThere, Op::JumpUnless(6), call(2)], vec!["1[]", "2[]"]),
        (vec![Op::Jump(2), call(1), call(2)], vec!["2[]"]),
        (vec![Op::Sub(3), call(1), Op::Jump(5), call(2), Op::Back], vec!["2[]", "1[]"]),
    ] {
        let mut host = Request::default();
        let mut code = code;
        code.push(Op::Int(0));
        shown(Builder::default(), code, &mut host);
        assert_eq!(host.said, said);
    }
}

#[test]
fn a_run_ends_whatever_the_program_is() {
    let host = &mut Request::default();
    for (code, expected) in [
        (vec![Op::Jump(0)], "a sub took more than 1000000 steps"),
        (vec![Op::Sub(0)], "subs call each other more than 100 deep"),
        (vec![Op::Jump(99)], "instruction 99 does not fit its values"),
    ] {
        assert_eq!(shown(Builder::default(), code, host), expected);
    }
    let mut builder = Builder::default();
    let text = builder.text(&"x".repeat(300));
    let double = [Op::Get(URL), Op::Get(URL), Op::Join(2), Op::Set(URL)];
    let code = [&[text, Op::Set(URL)], &double[..], &double[..]].concat();
    assert!(shown(builder, code, host).ends_with("take more than 1000 bytes"));
    let (program, mut machine) = (Program { ready: ready(&[Op::Back]), ..Program::default() }, Machine::default());
    let verdict = machine.run(&program, 0, BYTES_MAX, host).expect("it comes to its end");
    assert_eq!((verdict.action, machine.values(verdict)), (None, &[][..]));
}

#[test]
fn variables_expressions_and_lists_are_asked() {
    let mut builder = Builder::default();
    let (foo, bar) = (builder.text("a foo foo"), builder.text("bar"));
    builder.0.addresses.push("10.1.2.3:80".parse::<SocketAddr>().expect("it is an address"));
    let address = "10.0.0.0".parse().expect("it is an address");
    builder.0.acls.push(Acl::new(&[AclLine { address, bits: 8, is_negated: false }]));
    for (code, expected) in [
        (vec![Op::Get(URL), Op::IsThere], "[Bool(false)]"),
        (vec![Op::Holds(Variable::ReqXid)], "[Bool(false)]"),
        (vec![foo, Op::Set(URL), Op::Holds(Variable::ReqUrl)], "[Bool(true)]"),
        (vec![Op::CompareInt(Variable::ReqXid, Relation::Less, 1)], "instruction 0 does not fit its values"),
        (vec![Op::CompareReal(Variable::ReqXid, Relation::Less, 1.0)], "instruction 0 does not fit its values"),
        (vec![foo, Op::Set(URL), Op::Get(URL)], "\"a foo foo\""),
        (vec![foo, Op::Set(URL), Op::Unset(URL), Op::Get(URL)], "[Text(None)]"),
        (vec![foo, Op::Regex(RegexId(0)), Op::Matches], "[Bool(true)]"),
        (vec![Op::NoText, Op::Regex(RegexId(0)), Op::Matches], "[Bool(false)]"),
        (vec![foo, Op::Regex(RegexId(1)), Op::Matches, Op::Not], "the limit is reached"),
        (vec![foo, Op::Regex(RegexId(0)), bar, Op::Substitute { all: false }], "\"a bar foo\""),
        (vec![foo, Op::Regex(RegexId(0)), bar, Op::Substitute { all: true }], "\"a bar bar\""),
        (vec![bar, Op::Regex(RegexId(0)), foo, Op::Substitute { all: true }], "\"bar\""),
        (vec![Op::NoText, Op::Regex(RegexId(0)), foo, Op::Substitute { all: true }], "\"\""),
        (vec![Op::Ip(0), Op::Id(Some(0)), Op::IsInAcl], "[Bool(true)]"),
        (vec![Op::Ip(0), Op::Id(Some(1)), Op::IsInAcl], "instruction 2 does not fit its values"),
        (vec![Op::Ip(0), Op::Ip(0), Op::Compare(Relation::Equal)], "[Bool(true)]"),
    ] {
        let mut host = Request { words: vec!["foo", ""], ..Request::default() };
        assert_eq!(shown(Builder(builder.0.clone()), code, &mut host), expected);
    }
}

#[test]
fn what_a_sub_does_is_told_to_the_host() {
    let mut builder = Builder::default();
    let text = builder.text("text");
    let call = Op::Call(Callee::New(ObjectId(9)), 2);
    let code = vec![
        text,
        Op::HashData,
        text,
        Op::Synthetic,
        text,
        Op::Ban,
        Op::Int(1),
        Op::NoArgument,
        call,
        Op::Drop,
        Op::Id(Some(5)),
        Op::Property(Property::Resolve),
        Op::Drop,
        text,
        Op::Append(Variable::RespBody),
        Op::Int(404),
    ];
    let mut host = Request::default();
    assert_eq!(shown(builder, code, &mut host), "[Int(404)]");
    assert_eq!(
        host.said,
        ["hash text", "body text", "ban text", "9[Int(1), Nothing]", "Resolve of Id(Some(5))", "RespBody += text"]
    );
}
