//! Makes a tree of tokens.
//!
//! What cannot be read is reported, and reading goes on with the next statement or declaration, so that one pass finds
//! all that is wrong. How deep things nest is bounded by [`cursor`].

mod cursor;
mod declarations;
mod expressions;
mod statements;

use larder_source::{Diagnostic, Span};

use self::cursor::{Cursor, Parsed, Reported};
use crate::ast::{Declaration, Program, Version};
use crate::lex::{Kind, Token};
use crate::old;

/// Reads a row of tokens that ends with [`Kind::End`]. No version is newer than the first, which has to be there.
pub fn parse(tokens: &[Token], diagnostics: &mut Vec<Diagnostic>) -> Program {
    let mut cursor = Cursor::new(tokens, diagnostics);
    let mut program = Program { version: Version::V41, version_span: None, declarations: Vec::new() };
    let first = cursor.peek();
    if first.is_name("vcl") {
        match version(&mut cursor) {
            Ok((version, span)) => (program.version, program.version_span) = (version, Some(span)),
            Err(Reported) => skip_statement(&mut cursor),
        }
    } else {
        let message = "the first line has to say the version of the VCL";
        let diagnostic = Diagnostic::error(message).at(first.span).help("write vcl 4.1; there");
        // What follows is read all the same, as if it said so.
        let _: Parsed = cursor.fail(diagnostic);
    }
    while !cursor.is_at_end() {
        let start = cursor.position();
        match declaration(&mut cursor, program.version) {
            Ok(declaration) => program.declarations.extend(declaration),
            Err(Reported) => recover(&mut cursor, start),
        }
    }
    program
}

/// The words that begin a declaration.
const WORDS: [&str; 7] = ["acl", "sub", "backend", "probe", "import", "vcl", "unused"];

fn declaration(cursor: &mut Cursor, newest: Version) -> Parsed<Option<Declaration>> {
    let token = cursor.peek();
    let Kind::Name(word) = &token.kind else {
        let diagnostic = match token.kind {
            Kind::InlineC => old::inline_c(token.span),
            _ => expected_declaration(token),
        };
        return cursor.fail(diagnostic);
    };
    if word == "vcl" {
        let (version, span) = version(cursor)?;
        return match version > newest {
            true => cursor.fail(Diagnostic::error("the version is newer than that of the first line").at(span)),
            false => Ok(None),
        };
    }
    if !WORDS.contains(&word.as_str()) {
        let diagnostic = match old::declaration(word) {
            Some(advice) => {
                let message = format!("\"{word}\" is a declaration of an older VCL");
                Diagnostic::error(message).at(token.span).help(advice)
            }
            None => expected_declaration(token),
        };
        return cursor.fail(diagnostic);
    }
    cursor.take();
    Ok(Some(match word.as_str() {
        "acl" => Declaration::Acl(declarations::acl(cursor)?),
        "sub" => Declaration::Sub(declarations::sub(cursor)?),
        "backend" => Declaration::Backend(declarations::backend(cursor)?),
        "probe" => Declaration::Probe(declarations::probe(cursor)?),
        "import" => Declaration::Import(declarations::import(cursor)?),
        _ => Declaration::Unused(declarations::unused(cursor)?),
    }))
}

fn expected_declaration(token: &Token) -> Box<Diagnostic> {
    let diagnostic = Diagnostic::error(format!("expected a declaration, found {}", token.describe())).at(token.span);
    match &token.kind {
        Kind::Name(word) => match larder_source::nearest(word, WORDS.into_iter()) {
            Some(near) => diagnostic.help(format!("did you mean \"{near}\"?")),
            None => diagnostic.help("statements stand in a sub; outside stand backend, probe, acl, import and sub"),
        },
        _ => diagnostic,
    }
}

/// Reads `vcl 4.1;`.
fn version(cursor: &mut Cursor) -> Parsed<(Version, Span)> {
    cursor.take();
    let token = cursor.peek();
    // It is no number, and 4.10 is another version.
    let is_short = token.span.end - token.span.start == 3;
    let version = match token.kind {
        Kind::Real(4.0) if is_short => Version::V40,
        Kind::Real(4.1) if is_short => Version::V41,
        Kind::Real(4.0 | 4.1) => {
            return cursor.fail(Diagnostic::error("the version has three characters: 4.0 or 4.1").at(token.span));
        }
        _ => {
            let message = format!("expected the version 4.0 or 4.1, found {}", token.describe());
            return cursor.fail(Diagnostic::error(message).at(token.span));
        }
    };
    cursor.take();
    cursor.expect(";", "behind the version")?;
    Ok((version, token.span))
}

fn skip_statement(cursor: &mut Cursor) {
    cursor.skip_to(|cursor| cursor.peek().is(";") || is_declaration(cursor));
    cursor.eat(";");
}

fn is_declaration(cursor: &Cursor) -> bool {
    let token = cursor.peek();
    statements::begins_declaration(cursor) || ["import", "vcl", "unused"].iter().any(|word| token.is_name(word))
}

/// Goes to the next declaration.
fn recover(cursor: &mut Cursor, start: usize) {
    if cursor.position() == start {
        // A word that opens a block, such as `director`, goes with all of it.
        cursor.take();
    }
    loop {
        cursor.skip_to(is_declaration);
        if !cursor.eat("}") {
            return;
        }
    }
}
