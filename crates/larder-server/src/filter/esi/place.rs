//! `<esi:vars>`: finds the variables in a text of a page, and where in the page each stands.

use bytes::Bytes;

use super::variable::{Place, Reference, Taken, Variable};

/// The text between `<esi:vars>` and its end, which may come in any pieces.
#[derive(Debug, Default)]
pub struct Vars {
    markup: Markup,
    /// What may be a variable, from its `$` on, and its bytes.
    held: Option<(Reference, Vec<u8>)>,
}

/// Where a text is in the markup of its page. In doubt it is in a tag, where less goes in as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Markup {
    #[default]
    Text,
    /// Behind a `<`.
    Less,
    /// In a tag, or in one of its quotes.
    Tag(Option<u8>),
    /// In a comment or a declaration.
    Declaration,
}

/// What was found.
#[derive(Debug, PartialEq, Eq)]
pub enum Found {
    /// Bytes as they are.
    Text(Bytes),
    /// A variable.
    Variable(Variable, Place),
}

impl Vars {
    /// Reads `piece`.
    pub fn feed(&mut self, piece: &Bytes, mut each: impl FnMut(Found)) {
        let mut start = 0;
        let mut at = 0;
        while let Some(byte) = piece.get(at) {
            at += 1;
            let Some((reference, bytes)) = &mut self.held else {
                if *byte == b'$' {
                    each(Found::Text(piece.slice(start..at - 1)));
                    let mut reference = Reference::default();
                    reference.take(*byte);
                    self.held = Some((reference, vec![*byte]));
                    start = at;
                } else {
                    self.markup = self.markup.behind(*byte);
                }
                continue;
            };
            match reference.take(*byte) {
                Taken::More => bytes.push(*byte),
                Taken::Whole(variable) => {
                    self.held = None;
                    each(Found::Variable(variable, self.markup.place()));
                }
                // The byte at hand may begin another.
                Taken::No => {
                    at -= 1;
                    self.let_go(&mut each);
                }
            }
            start = at;
        }
        each(Found::Text(piece.slice(start..)));
    }

    /// Lets go of what has turned out to be text.
    pub fn let_go(&mut self, mut each: impl FnMut(Found)) {
        if let Some((_, bytes)) = self.held.take() {
            self.markup = bytes.iter().fold(self.markup, |markup, byte| markup.behind(*byte));
            each(Found::Text(bytes.into()));
        }
    }
}

impl Markup {
    fn behind(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Text | Self::Less, b'<') => Self::Less,
            (Self::Less, b'!' | b'?') => Self::Declaration,
            (Self::Less, b'/') => Self::Tag(None),
            (Self::Less, _) if byte.is_ascii_alphabetic() => Self::Tag(None),
            (Self::Text | Self::Less, _) => Self::Text,
            (Self::Tag(None) | Self::Declaration, b'>') => Self::Text,
            (Self::Tag(None), b'"' | b'\'') => Self::Tag(Some(byte)),
            (Self::Tag(Some(quote)), _) if byte == quote => Self::Tag(None),
            (Self::Tag(_) | Self::Declaration, _) => self,
        }
    }

    fn place(self) -> Place {
        match self {
            Self::Text => Place::Text,
            Self::Less | Self::Tag(_) | Self::Declaration => Place::Tag,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_however_the_text_is_cut() {
        for (text, expected) in [
            ("a$(A)b", "a[text]b"),
            ("$(A)$(B{c}|'d')", "[text][text]"),
            ("<img src=\"/$(A)/x\" title='$(B)>$(C)'>$(D)", "<img src=\"/[tag]/x\" title='[tag]>[tag]'>[text]"),
            ("a < b $(A) <$(B)x>$(C)", "a < b [text] <[tag]x>[text]"),
            ("<!-- ' $(A) -->$(B)</p $(C)>", "<!-- ' [tag] -->[text]</p [tag]>"),
            ("$('#id').x($(document))$$(A)$", "$('#id').x($(document))$[text]$"),
            ("$(A$(B)", "$(A[text]"),
            ("$(A{<b$(C)>", "$(A{<b[tag]>"),
            ("$(A", "$(A"),
        ] {
            for bytes in 1..=text.len() {
                let (mut vars, mut out) = (Vars::default(), String::new());
                let mut add = |found: Found| match found {
                    Found::Text(text) => out.push_str(std::str::from_utf8(&text).unwrap()),
                    Found::Variable(_, Place::Text) => out.push_str("[text]"),
                    Found::Variable(_, Place::Tag) => out.push_str("[tag]"),
                };
                for piece in text.as_bytes().chunks(bytes) {
                    vars.feed(&Bytes::copy_from_slice(piece), &mut add);
                }
                vars.let_go(&mut add);
                assert_eq!(out, expected, "{text} in pieces of {bytes}");
            }
        }
    }
}
