//! What the parser makes of tokens: names are text still, and numbers wait for the type that is wanted of them.

use larder_source::Span;

/// A version of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// `vcl 4.0;`
    V40,
    /// `vcl 4.1;`
    V41,
}

/// A VCL with all its includes.
#[derive(Debug)]
pub struct Program {
    /// What its first line says.
    pub version: Version,
    /// Where it says so.
    pub version_span: Option<Span>,
    /// What it declares, in order.
    pub declarations: Vec<Declaration>,
}

/// A word, and where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Word {
    /// What it says.
    pub text: String,
    /// Where, with its quotes.
    pub span: Span,
    /// Whether it stands in quotes, as a header's name may in `req.http."odd.name"`.
    pub quoted: bool,
}

/// A dotted name, such as `req.http.host`. It has at least one part.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The first part.
    pub first: Word,
    /// The others.
    pub rest: Vec<Word>,
}

impl Path {
    /// All parts.
    pub fn parts(&self) -> impl Iterator<Item = &Word> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    /// The name as it is written.
    pub fn text(&self) -> String {
        self.rest.iter().fold(self.first.text.clone(), |text, part| match part.quoted {
            true => format!("{text}.\"{}\"", part.text),
            false => format!("{text}.{}", part.text),
        })
    }

    /// From its first part to its last.
    pub fn span(&self) -> Span {
        join(self.first.span, self.rest.last().map_or(self.first.span, |last| last.span))
    }
}

/// From the start of one span to the end of another. With an include between them, only the first.
pub fn join(from: Span, to: Span) -> Span {
    if from.file == to.file && from.start <= to.end { Span { end: to.end, ..from } } else { from }
}

/// What stands outside of subs.
#[derive(Debug)]
pub enum Declaration {
    /// `backend NAME { ... }`
    Backend(Backend),
    /// `probe NAME { ... }`
    Probe(Probe),
    /// `acl NAME { ... }`
    Acl(Acl),
    /// `sub NAME { ... }`
    Sub(Sub),
    /// `import NAME;`
    Import(Import),
    /// `unused NAME;`
    Unused(Word),
}

/// A declaration of a backend.
#[derive(Debug)]
pub struct Backend {
    /// Its name.
    pub name: Word,
    /// Its fields; none for `backend NAME none;`.
    pub fields: Option<Vec<Field>>,
}

/// A declaration of a probe.
#[derive(Debug)]
pub struct Probe {
    /// Its name.
    pub name: Word,
    /// Its fields.
    pub fields: Vec<Field>,
}

/// `.NAME = VALUE;`
#[derive(Debug)]
pub struct Field {
    /// Its name, without the point.
    pub name: Word,
    /// Its value.
    pub value: FieldValue,
    /// Where the value is.
    pub span: Span,
}

/// The value of a field of a backend or a probe.
#[derive(Debug)]
pub enum FieldValue {
    /// One string, or several in a row.
    Texts(Vec<Vec<u8>>),
    /// A number, perhaps with a unit.
    Number(Number),
    /// A blob.
    Blob(Vec<u8>),
    /// A name.
    Name(Word),
    /// `{ ... }`, a probe without a name.
    Probe(Vec<Field>),
}

/// A number as it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Number {
    /// Its digits.
    pub value: Digits,
    /// The name behind it, such as `s` or `KB`.
    pub unit: Option<Word>,
}

/// Digits, with or without a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Digits {
    /// Without.
    Int(i64),
    /// With.
    Real(f64),
}

/// A declaration of an ACL.
#[derive(Debug)]
pub struct Acl {
    /// Its name.
    pub name: Word,
    /// `+log` and the like: whether it is switched on, and what.
    pub flags: Vec<(bool, Word)>,
    /// Its lines.
    pub entries: Vec<AclEntry>,
}

/// A line of an ACL.
#[derive(Debug)]
pub struct AclEntry {
    /// `!`: who matches is not in the ACL.
    pub negated: bool,
    /// In parentheses: a name that has no address is left out.
    pub optional: bool,
    /// An address or a name, perhaps with `/BITS` in it.
    pub text: Vec<u8>,
    /// Where the text is.
    pub span: Span,
    /// `/BITS` behind it.
    pub mask: Option<(i64, Span)>,
}

/// A declaration of a sub, or one part of a sub that is given several times.
#[derive(Debug)]
pub struct Sub {
    /// Its name.
    pub name: Word,
    /// What it does.
    pub body: Vec<Statement>,
}

/// `import VMOD [as NAME] [from "PATH"];`
#[derive(Debug)]
pub struct Import {
    /// The module.
    pub module: Word,
    /// What it is called here.
    pub alias: Option<Word>,
}

/// What stands in a sub.
#[derive(Debug)]
pub enum Statement {
    /// `set TARGET = VALUE;`
    Set {
        /// What is set.
        target: Path,
        /// How.
        assign: Assign,
        /// Where the operator is.
        assign_span: Span,
        /// To what.
        value: Expr,
    },
    /// `unset TARGET;`
    Unset(Path),
    /// `if (...) { ... } else if (...) { ... } else { ... }`
    If {
        /// Conditions with their blocks.
        branches: Vec<(Expr, Vec<Statement>)>,
        /// The last `else`.
        otherwise: Vec<Statement>,
    },
    /// `call NAME;`
    Call(Path),
    /// `return;` or `return (ACTION);`
    Return {
        /// Where it is.
        span: Span,
        /// What happens next; none goes back to the caller.
        action: Option<Action>,
    },
    /// `ban(X);`, `hash_data(X);` or `synthetic(X);`
    Builtin {
        /// Which.
        name: Word,
        /// Its argument.
        value: Expr,
    },
    /// `new NAME = VMOD.OBJECT(...);`
    New {
        /// The object.
        name: Word,
        /// Its type.
        object: Path,
        /// What it is made with.
        args: Vec<Arg>,
        /// The arguments with their parentheses.
        args_span: Span,
    },
    /// A function or a method that is called for what it does.
    Do(Expr),
    /// `{ ... }`
    Block(Vec<Statement>),
}

/// What a `return` names.
#[derive(Debug)]
pub struct Action {
    /// Its name, such as `synth`.
    pub name: Word,
    /// What stands in its parentheses, if it has some.
    pub args: Option<Vec<Expr>>,
}

/// How something is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assign {
    /// `=`
    To,
    /// `+=`
    Add,
    /// `-=`
    Subtract,
    /// `*=`
    Multiply,
    /// `/=`
    Divide,
}

/// An expression. How deep it nests is bounded, and so is what walks it.
#[derive(Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Where.
    pub span: Span,
}

/// What an expression is.
#[derive(Debug)]
pub enum ExprKind {
    /// `a || b || ...`
    Or(Vec<Expr>),
    /// `a && b && ...`
    And(Vec<Expr>),
    /// `!a`
    Not(Box<Expr>),
    /// `a == b`, and all other comparisons.
    Compare(Box<Comparison>),
    /// `a + b - ...`
    Sum(Box<Expr>, Vec<Term>),
    /// `a * b / ...`
    Product(Box<Expr>, Vec<Term>),
    /// `-a`, of what is no number.
    Negate(Box<Expr>),
    /// A number with its sign.
    Number {
        /// Whether a `-` stands before it.
        negative: bool,
        /// The rest.
        number: Number,
    },
    /// A string.
    Text(Vec<u8>),
    /// A blob.
    Blob(Vec<u8>),
    /// A name.
    Path(Path),
    /// `NAME(...)`
    Call(Path, Vec<Arg>),
    /// What stands behind the point of what is no name: `f().a.b()`.
    Members(Box<Expr>, Vec<Member>),
}

/// Two sides of a comparison.
#[derive(Debug)]
pub struct Comparison {
    /// The left side.
    pub left: Expr,
    /// How they are compared.
    pub operator: Compare,
    /// Where the operator is.
    pub span: Span,
    /// The right side.
    pub right: Expr,
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `~`
    Matches,
    /// `!~`
    MatchesNot,
}

/// An operator and what stands to its right.
#[derive(Debug)]
pub struct Term {
    /// The operator.
    pub operator: Arithmetic,
    /// Where it is.
    pub span: Span,
    /// The right side.
    pub value: Expr,
}

/// How two values make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
}

/// `.NAME` or `.NAME(...)`
#[derive(Debug)]
pub struct Member {
    /// Its name.
    pub name: Word,
    /// Its arguments, if it is called.
    pub args: Option<Vec<Arg>>,
}

/// An argument of a call.
#[derive(Debug)]
pub struct Arg {
    /// `NAME =`, if it has that.
    pub name: Option<Word>,
    /// Its value.
    pub value: Expr,
}

impl Compare {
    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Matches => "~",
            Self::MatchesNot => "!~",
        }
    }
}

impl Arithmetic {
    /// How it is written.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Remainder => "%",
        }
    }
}
