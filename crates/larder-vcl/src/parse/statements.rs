//! What stands in subs.

use larder_source::{Diagnostic, Span};

use super::cursor::{Cursor, Parsed, Reported};
use super::expressions::{arguments, expression, member, path};
use crate::ast::{Action, Assign, Expr, ExprKind, Statement, join};
use crate::lex::Kind;
use crate::old;

/// Reads `{ ... }`. Statements that are none are reported and left out.
pub fn block(cursor: &mut Cursor) -> Parsed<Vec<Statement>> {
    cursor.nested(|cursor| {
        let opening = cursor.expect("{", "before a block")?;
        let mut statements = Vec::new();
        loop {
            if cursor.eat("}") {
                return Ok(statements);
            }
            if cursor.is_at_end() || begins_declaration(cursor) {
                return unclosed(cursor, opening);
            }
            let start = cursor.position();
            match statement(cursor) {
                Ok(statement) => statements.push(statement),
                Err(Reported) => recover(cursor, start)?,
            }
        }
    })
}

/// That a `}` is missing. Blocks around this one are not closed either, and need not be told.
fn unclosed<T>(cursor: &mut Cursor, opening: Span) -> Parsed<T> {
    let found = cursor.peek();
    cursor.fail(
        Diagnostic::error(format!("expected \"}}\", found {}", found.describe()))
            .at(found.span)
            .label("a \"}\" is missing before this")
            .related(opening, "this block is not closed"),
    )
}

/// Whether the next tokens can only stand outside of subs.
pub fn begins_declaration(cursor: &Cursor) -> bool {
    let Kind::Name(word) = &cursor.peek().kind else {
        return false;
    };
    let has_name = matches!(cursor.ahead(1).kind, Kind::Name(_));
    match word.as_str() {
        "sub" | "backend" | "probe" => has_name && cursor.ahead(2).is("{"),
        "acl" => has_name && ["{", "+", "-"].iter().any(|symbol| cursor.ahead(2).is(symbol)),
        _ => false,
    }
}

/// Goes to where the next statement probably begins. Fails where the block has no end.
fn recover(cursor: &mut Cursor, start: usize) -> Parsed {
    if cursor.is_at_end() || begins_declaration(cursor) {
        return Err(Reported);
    }
    if cursor.position() == start {
        let opens = cursor.take().is("{");
        if opens {
            cursor.skip_to(|_| false);
            cursor.eat("}");
            return Ok(());
        }
    }
    cursor.skip_to(|cursor| cursor.peek().is(";") || cursor.peek().is("{") || begins_statement(cursor));
    cursor.eat(";");
    Ok(())
}

/// Whether the next word begins a statement, for who has missed a `;`.
fn begins_statement(cursor: &Cursor) -> bool {
    const WORDS: [&str; 9] = ["set", "unset", "if", "return", "call", "new", "ban", "hash_data", "synthetic"];
    let token = cursor.peek();
    let is_word = WORDS.iter().any(|word| token.is_name(word));
    is_word && !cursor.ahead(1).is(".") || begins_declaration(cursor)
}

fn statement(cursor: &mut Cursor) -> Parsed<Statement> {
    let token = cursor.peek();
    let word = match &token.kind {
        Kind::Name(name) => name.to_ascii_lowercase(),
        Kind::Symbol("{") => return Ok(Statement::Block(block(cursor)?)),
        Kind::InlineC => {
            cursor.take();
            return cursor.fail(old::inline_c(token.span));
        }
        Kind::Int(_) | Kind::Real(_) | Kind::Text(_) | Kind::Blob(_) | Kind::Symbol(_) | Kind::End => {
            let message = format!("expected a statement, found {}", token.describe());
            return cursor.fail(Diagnostic::error(message).at(token.span));
        }
    };
    // A module or an object may be called as a statement is.
    if cursor.ahead(1).is(".") {
        return call_statement(cursor);
    }
    match word.as_str() {
        "set" => set(cursor),
        "unset" => {
            cursor.take();
            let target = path(cursor, "the name of a variable")?;
            end(cursor, Statement::Unset(target))
        }
        "if" => condition(cursor),
        "call" => {
            cursor.take();
            let target = path(cursor, "the name of a sub")?;
            end(cursor, Statement::Call(target))
        }
        "return" => give_back(cursor),
        "ban" | "hash_data" | "synthetic" => {
            let name = cursor.expect_name("a statement")?;
            let next = cursor.peek();
            if !next.is("(") {
                let message = format!("expected \"(\" behind {word}, found {}", next.describe());
                return cursor.fail(Diagnostic::error(message).at(next.span).help(format!("write {word}(...);")));
            }
            let value = in_parentheses(cursor, &word)?;
            end(cursor, Statement::Builtin { name, value })
        }
        "new" => new(cursor),
        _ => match old::statement(&word, cursor.ahead(1).is("(")) {
            Some(advice) => {
                cursor.take();
                let message = format!("\"{word}\" is a statement of an older VCL");
                cursor.fail(Diagnostic::error(message).at(token.span).help(advice))
            }
            None => call_statement(cursor),
        },
    }
}

fn end(cursor: &mut Cursor, statement: Statement) -> Parsed<Statement> {
    cursor.expect(";", "behind the statement")?;
    Ok(statement)
}

fn set(cursor: &mut Cursor) -> Parsed<Statement> {
    cursor.take();
    let target = path(cursor, "the name of a variable")?;
    let token = cursor.peek();
    let assign = match token.kind {
        Kind::Symbol("=") => Assign::To,
        Kind::Symbol("+=") => Assign::Add,
        Kind::Symbol("-=") => Assign::Subtract,
        Kind::Symbol("*=") => Assign::Multiply,
        Kind::Symbol("/=") => Assign::Divide,
        _ => {
            let message = format!("expected \"=\" behind the variable, found {}", token.describe());
            return cursor.fail(Diagnostic::error(message).at(token.span));
        }
    };
    cursor.take();
    let value = expression(cursor)?;
    end(cursor, Statement::Set { target, assign, assign_span: token.span, value })
}

/// `if (...) { ... }` with all its `else`. A condition that is none does not hide what is wrong in its block.
fn condition(cursor: &mut Cursor) -> Parsed<Statement> {
    let mut branches = Vec::new();
    let mut is_whole = true;
    loop {
        cursor.take();
        let condition = in_parentheses(cursor, "if");
        if condition.is_err() {
            cursor.skip_to(|cursor| cursor.peek().is("{") || cursor.peek().is(";"));
            is_whole = false;
        }
        if !is_whole && !cursor.peek().is("{") {
            return Err(Reported);
        }
        let body = block(cursor)?;
        branches.extend(condition.map(|condition| (condition, body)));
        match next_branch(cursor)? {
            Branch::If => {}
            Branch::Otherwise => {
                let otherwise = block(cursor)?;
                return Ok(Statement::If { branches, otherwise });
            }
            Branch::None => return Ok(Statement::If { branches, otherwise: Vec::new() }),
        }
    }
}

/// What follows a branch.
enum Branch {
    /// Another condition; the word before its parenthesis is next.
    If,
    /// The last block.
    Otherwise,
    /// Another statement.
    None,
}

fn next_branch(cursor: &mut Cursor) -> Parsed<Branch> {
    let token = cursor.peek();
    if ["elseif", "elsif", "elif"].iter().any(|word| token.is_name(word)) {
        return Ok(Branch::If);
    }
    if !token.is_name("else") {
        return Ok(Branch::None);
    }
    cursor.take();
    let next = cursor.peek();
    if next.is_name("if") {
        return Ok(Branch::If);
    }
    if next.is("{") {
        return Ok(Branch::Otherwise);
    }
    let message = format!("expected \"if\" or \"{{\" behind else, found {}", next.describe());
    cursor.fail(Diagnostic::error(message).at(next.span))
}

fn in_parentheses(cursor: &mut Cursor, of: &str) -> Parsed<Expr> {
    cursor.expect("(", &format!("behind {of}"))?;
    let value = expression(cursor)?;
    cursor.expect(")", "behind the expression")?;
    Ok(value)
}

fn give_back(cursor: &mut Cursor) -> Parsed<Statement> {
    let start = cursor.take().span;
    if cursor.eat(";") {
        return Ok(Statement::Return { span: start, action: None });
    }
    cursor.expect("(", "behind return")?;
    let name = cursor.expect_name("what to do next")?;
    let mut args = None;
    if cursor.eat("(") {
        let mut values = Vec::new();
        while !cursor.peek().is(")") {
            values.push(expression(cursor)?);
            if !cursor.eat(",") {
                break;
            }
            let next = cursor.peek();
            if next.is(")") {
                return cursor.fail(Diagnostic::error("an argument is missing behind the \",\"").at(next.span));
            }
        }
        cursor.expect(")", "behind the arguments")?;
        args = Some(values);
    }
    let close = cursor.expect(")", "behind what to do next")?;
    end(cursor, Statement::Return { span: join(start, close), action: Some(Action { name, args }) })
}

fn new(cursor: &mut Cursor) -> Parsed<Statement> {
    cursor.take();
    let name = cursor.expect_name("the name of an object")?;
    cursor.expect("=", "behind the name of the object")?;
    let object = path(cursor, "the type of the object")?;
    let mut args_span = cursor.peek().span;
    let args = arguments(cursor, &mut args_span)?;
    end(cursor, Statement::New { name, object, args, args_span })
}

fn call_statement(cursor: &mut Cursor) -> Parsed<Statement> {
    let value = member(cursor)?;
    match &value.kind {
        ExprKind::Path(path) => {
            let message = format!("\"{}\" is no statement", path.text());
            let known =
                ["set", "unset", "if", "call", "return", "ban", "hash_data", "synthetic", "new", "else", "elseif"];
            let mut diagnostic = Diagnostic::error(message).at(value.span);
            if let Some(near) =
                larder_source::nearest(&path.first.text, known.into_iter()).filter(|_| path.rest.is_empty())
            {
                diagnostic = diagnostic.help(format!("did you mean \"{near}\"?"));
            } else if ["import", "vcl", "unused"].contains(&path.text().as_str()) {
                diagnostic = diagnostic.help("it stands outside of subs");
            } else if cursor.peek().is("=") {
                diagnostic = diagnostic.help(format!("write set {} = ...;", path.text()));
            }
            cursor.fail(diagnostic)
        }
        _ => end(cursor, Statement::Do(value)),
    }
}
