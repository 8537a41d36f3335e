//! The tree of directives, and how a directive reads its arguments.

use crate::diagnostic::{Diagnostic, Outcome};
use crate::model::Template;
use crate::span::Span;
use crate::{suggest, template, values};

pub use crate::lex::Word;

/// `name args... ;` or `name args... { ... }`.
#[derive(Clone, Debug)]
pub struct Directive {
    /// The first word.
    pub name: Word,
    /// The other words.
    pub args: Vec<Word>,
    /// What stands in braces.
    pub block: Option<Block>,
    /// Set when an argument looks like the directive of a new line, so that a `;` may be missing.
    pub runs_on: Option<Box<Diagnostic>>,
}

/// What stands in braces.
#[derive(Clone, Debug)]
pub struct Block {
    /// In order, includes read in.
    pub directives: Vec<Directive>,
}

impl Directive {
    /// From the name to the last word.
    pub fn span(&self) -> Span {
        let last = self.args.last().unwrap_or(&self.name).span;
        match last.file == self.name.span.file {
            true => Span { end: last.end, ..self.name.span },
            false => self.name.span,
        }
    }

    /// The directives in the braces; none where there are no braces.
    pub fn children(&self) -> Vec<&Directive> {
        self.block.as_ref().map(|block| block.directives.iter().collect()).unwrap_or_default()
    }

    /// The argument at `index`. The tables check the number of arguments before anyone asks, so it is
    /// there; should it not be, the name stands in and makes the error.
    pub fn arg(&self, index: usize) -> &Word {
        self.args.get(index).unwrap_or(&self.name)
    }

    /// The text of the argument at `index`.
    pub fn text(&self, index: usize) -> &str {
        &self.arg(index).text
    }

    /// An error about an argument: `invalid value "x" in "name" directive`, and what it must be.
    pub fn invalid(&self, word: &Word, expected: &str) -> Box<Diagnostic> {
        let (value, name) = (&word.text, &self.name.text);
        Diagnostic::error(format!("invalid value \"{value}\" in \"{name}\" directive"))
            .at(word.span)
            .label(format!("it must be {expected}"))
    }

    /// `invalid parameter "x"`.
    pub fn invalid_parameter(&self, word: &Word) -> Box<Diagnostic> {
        Diagnostic::error(format!("invalid parameter \"{}\"", word.text))
            .at(word.span)
            .label(format!("\"{}\" has no such parameter", self.name.text))
    }

    /// The same where the names of all parameters are known, so that one can be suggested. A single one is taken to have a value.
    pub fn unknown_parameter(&self, word: &Word, known: &[&str]) -> Box<Diagnostic> {
        let name = word.text.split('=').next().unwrap_or_default();
        let diagnostic = self.invalid_parameter(word);
        match suggest::nearest(name, known.iter().copied()) {
            Some(nearest) if nearest != name => diagnostic.help(format!("did you mean \"{nearest}\"?")),
            _ => match known {
                [one] => diagnostic.help(format!("there is only \"{one}=\"")),
                several => diagnostic.help(format!("there are {}", several.join(", "))),
            },
        }
    }

    /// `invalid parameter "x"`, where the name is right and the value is not.
    pub fn invalid_parameter_value(&self, word: &Word, expected: &str) -> Box<Diagnostic> {
        self.invalid_parameter(word).label(format!("its value must be {expected}"))
    }

    /// `"name" directive is duplicate`, where the table cannot tell.
    pub fn duplicate(&self) -> Box<Diagnostic> {
        Diagnostic::error(format!("\"{}\" directive is duplicate", self.name.text)).at(self.name.span)
    }

    /// `on` or `off`.
    pub fn flag(&self) -> Outcome<bool> {
        let word = self.arg(0);
        values::flag(&word.text).ok_or_else(|| {
            Diagnostic::error(format!(
                "invalid value \"{}\" in \"{}\" directive, it must be \"on\" or \"off\"",
                word.text, self.name.text
            ))
            .at(word.span)
        })
    }

    /// The argument at `index` as a time.
    pub fn time(&self, index: usize) -> Outcome<std::time::Duration> {
        let word = self.arg(index);
        values::time(&word.text).ok_or_else(|| self.invalid(word, values::TIME))
    }

    /// The argument at `index` as a size in bytes.
    pub fn size(&self, index: usize) -> Outcome<usize> {
        let word = self.arg(index);
        values::size(&word.text).ok_or_else(|| self.invalid(word, values::SIZE))
    }

    /// The argument at `index` as a size that may have `g`.
    pub fn offset(&self, index: usize) -> Outcome<u64> {
        let word = self.arg(index);
        values::offset(&word.text).ok_or_else(|| self.invalid(word, values::OFFSET))
    }

    /// The argument at `index` as a whole number.
    pub fn number(&self, index: usize) -> Outcome<u64> {
        let word = self.arg(index);
        values::number(&word.text).ok_or_else(|| self.invalid(word, values::NUMBER))
    }

    /// The argument at `index` as a whole number of 32 bits.
    pub fn number32(&self, index: usize) -> Outcome<u32> {
        let word = self.arg(index);
        let number = self.number(index)?;
        u32::try_from(number).map_err(|_| self.invalid(word, "a whole number below 4294967296"))
    }

    /// The argument at `index`, split at its variables.
    pub fn template(&self, index: usize) -> Outcome<Template> {
        template::of(self.arg(index))
    }

    /// Two arguments as `number size`, such as `8 4k`; neither may be zero.
    pub fn buffers(&self) -> Outcome<(usize, usize)> {
        let (count, size) = (self.number32(0)? as usize, self.size(1)?);
        match (count, size) {
            (0, _) => Err(self.invalid(self.arg(0), "a number above zero")),
            (_, 0) => Err(self.invalid(self.arg(1), "a size above zero")),
            both => Ok(both),
        }
    }
}
