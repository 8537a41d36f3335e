//! What stands outside of subs.

use larder_source::Diagnostic;

use super::cursor::{Cursor, Parsed};
use super::expressions::digits;
use super::statements::block;
use crate::ast::{Acl, AclEntry, Backend, Digits, Field, FieldValue, Import, Probe, Sub, Word, join};
use crate::lex::Kind;

/// Reads `backend NAME { ... }`, whose first word is taken.
pub fn backend(cursor: &mut Cursor) -> Parsed<Backend> {
    let name = declared_name(cursor, "backend")?;
    if cursor.peek().is_name("none") || cursor.peek().is_name("None") {
        cursor.take();
        cursor.expect(";", "behind the backend")?;
        return Ok(Backend { name, fields: None });
    }
    Ok(Backend { name, fields: Some(fields(cursor)?) })
}

/// Reads `probe NAME { ... }`, whose first word is taken.
pub fn probe(cursor: &mut Cursor) -> Parsed<Probe> {
    let name = declared_name(cursor, "probe")?;
    Ok(Probe { name, fields: fields(cursor)? })
}

/// Reads `sub NAME { ... }`, whose first word is taken.
pub fn sub(cursor: &mut Cursor) -> Parsed<Sub> {
    let name = declared_name(cursor, "sub")?;
    Ok(Sub { name, body: block(cursor)? })
}

/// A name, which must not have a point in it.
fn declared_name(cursor: &mut Cursor, what: &str) -> Parsed<Word> {
    let name = cursor.expect_name(&format!("the name of a {what}"))?;
    match cursor.peek().is(".") {
        false => Ok(name),
        true => {
            let message = format!("the name of a {what} has letters, digits, \"_\" and \"-\" only");
            let span = cursor.peek().span;
            cursor.fail(Diagnostic::error(message).at(span))
        }
    }
}

fn fields(cursor: &mut Cursor) -> Parsed<Vec<Field>> {
    cursor.expect("{", "before the fields")?;
    cursor.nested(|cursor| {
        let mut fields = Vec::new();
        while !cursor.eat("}") {
            fields.push(field(cursor)?);
        }
        Ok(fields)
    })
}

fn field(cursor: &mut Cursor) -> Parsed<Field> {
    let token = cursor.peek();
    if !token.is(".") {
        let message = format!("expected a field such as .host, found {}", token.describe());
        let mut diagnostic = Diagnostic::error(message).at(token.span);
        if token.is_name("set") {
            diagnostic = diagnostic.help("fields are written without set: .host = \"...\";");
        }
        return cursor.fail(diagnostic);
    }
    cursor.take();
    let name = cursor.expect_name("the name of a field")?;
    cursor.expect("=", "behind the name of the field")?;
    let token = cursor.peek();
    let mut span = token.span;
    let value = match &token.kind {
        Kind::Symbol("{") => return Ok(Field { name, value: FieldValue::Probe(fields(cursor)?), span }),
        Kind::Text(_) => {
            let mut texts = Vec::new();
            while let Kind::Text(text) = &cursor.peek().kind {
                texts.push(text.clone());
                span = join(span, cursor.take().span);
            }
            FieldValue::Texts(texts)
        }
        Kind::Int(_) | Kind::Real(_) => {
            let (number, whole) = digits(cursor)?;
            span = whole;
            FieldValue::Number(number)
        }
        Kind::Blob(bytes) => {
            cursor.take();
            FieldValue::Blob(bytes.clone())
        }
        Kind::Name(_) => FieldValue::Name(cursor.expect_name("a name")?),
        Kind::InlineC | Kind::Symbol(_) | Kind::End => {
            let message = format!("expected the value of .{}, found {}", name.text, token.describe());
            return cursor.fail(Diagnostic::error(message).at(token.span));
        }
    };
    cursor.expect(";", "behind the field")?;
    Ok(Field { name, value, span })
}

/// Reads `acl NAME [FLAGS] { ... }`, whose first word is taken.
pub fn acl(cursor: &mut Cursor) -> Parsed<Acl> {
    let name = declared_name(cursor, "acl")?;
    let mut flags = Vec::new();
    while cursor.peek().is("+") || cursor.peek().is("-") {
        let sign = cursor.take();
        let is_on = sign.is("+");
        let flag = cursor.expect_name("a flag of the ACL")?;
        if flag.span.start != sign.span.end {
            return cursor.fail(Diagnostic::error("the sign has to touch the flag").at(sign.span));
        }
        if flag.text == "fold" && is_on && cursor.eat("(") {
            fold_report(cursor)?;
        }
        flags.push((is_on, flag));
    }
    cursor.expect("{", "before the entries of the ACL")?;
    let mut entries = Vec::new();
    while !cursor.eat("}") {
        entries.push(acl_entry(cursor)?);
    }
    Ok(Acl { name, flags, entries })
}

/// `+report` or `-report` and the parenthesis: what Varnish says about folding, and larder has no need to.
fn fold_report(cursor: &mut Cursor) -> Parsed {
    let has_sign = cursor.eat("+") || cursor.eat("-");
    let token = cursor.peek();
    if !has_sign || !token.is_name("report") {
        return cursor.fail(Diagnostic::error("fold has no other flag than report").at(token.span));
    }
    cursor.take();
    cursor.expect(")", "behind the flag").map(|_| ())
}

fn acl_entry(cursor: &mut Cursor) -> Parsed<AclEntry> {
    let mut negated = cursor.eat("!");
    let optional = cursor.eat("(");
    negated = negated || cursor.eat("!");
    let token = cursor.peek();
    let Kind::Text(text) = &token.kind else {
        let message = format!("expected an address in quotes, found {}", token.describe());
        return cursor.fail(Diagnostic::error(message).at(token.span));
    };
    cursor.take();
    let mut mask = None;
    if cursor.eat("/") {
        let token = cursor.peek();
        let (number, span) = digits(cursor)?;
        match number.value {
            Digits::Int(bits) if number.unit.is_none() => mask = Some((bits, span)),
            Digits::Int(_) | Digits::Real(_) => {
                return cursor.fail(Diagnostic::error("a mask is a number of bits").at(token.span));
            }
        }
    }
    if optional {
        cursor.expect(")", "behind the address")?;
    }
    cursor.expect(";", "behind the address")?;
    Ok(AclEntry { negated, optional, text: text.clone(), span: token.span, mask })
}

/// Reads `import VMOD [as NAME] [from "PATH"];`, whose first word is taken.
///
/// The path is that of a library for Varnish, and says nothing to larder, whose modules are its own.
pub fn import(cursor: &mut Cursor) -> Parsed<Import> {
    let module = cursor.expect_name("the name of a module")?;
    let mut alias = None;
    if cursor.peek().is_name("as") {
        cursor.take();
        alias = Some(cursor.expect_name("what to call the module")?);
    }
    if cursor.peek().is_name("from") {
        cursor.take();
        let token = cursor.peek();
        match token.kind {
            Kind::Text(_) => cursor.take(),
            _ => {
                let message = format!("expected a path in quotes, found {}", token.describe());
                return cursor.fail(Diagnostic::error(message).at(token.span));
            }
        };
    }
    cursor.expect(";", "behind the import")?;
    Ok(Import { module, alias })
}

/// Reads `unused NAME;`, whose first word is taken.
pub fn unused(cursor: &mut Cursor) -> Parsed<Word> {
    let name = cursor.expect_name("the name of a backend, a probe, an ACL or a sub")?;
    cursor.expect(";", "behind the name")?;
    Ok(name)
}
