//! `<esi:vars>`: finds the variables in a text of a page, and where in the page each stands.

use bytes::Bytes;

use super::markup::Markup;
use super::variable::{Place, Reference, Taken, Variable};

/// The text between `<esi:vars>` and its end, which may come in any pieces.
#[derive(Debug, Default)]
pub struct Vars {
    /// What may be a variable, from its `$` on, and its bytes.
    held: Option<(Reference, Vec<u8>)>,
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
    /// Reads `piece`, which comes where `markup` is.
    pub fn feed(&mut self, piece: &Bytes, markup: &mut Markup, mut each: impl FnMut(Found)) {
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
                    markup.take(*byte);
                }
                continue;
            };
            match reference.take(*byte) {
                Taken::More => bytes.push(*byte),
                Taken::Whole(variable) => {
                    self.held = None;
                    let place = markup.place();
                    markup.pass_variable(variable.default());
                    each(Found::Variable(variable, place));
                }
                // The byte at hand may begin another.
                Taken::No => {
                    at -= 1;
                    self.let_go(markup, &mut each);
                }
            }
            start = at;
        }
        each(Found::Text(piece.slice(start..)));
    }

    /// Lets go of what has turned out to be text.
    pub fn let_go(&mut self, markup: &mut Markup, mut each: impl FnMut(Found)) {
        if let Some((_, bytes)) = self.held.take() {
            markup.pass(&bytes);
            each(Found::Text(bytes.into()));
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
            ("a < b $(A) <$(B)x>$(C)", "a < b [text] <[tag]x>[tag]"),
            // A `>` in quotes.
            ("<a title='a > b' href='$(A)'>$(B)", "<a title='a > b' href='[tag]'>[text]"),
            ("<a t=\"it's >\"\nb = 'a>\"'$(A)/>$(B)", "<a t=\"it's >\"\nb = 'a>\"'[tag]/>[tag]"),
            ("<p don't>$(A)<p x'><a href=\">'>$(B)\">$(C)", "<p don't>[text]<p x'><a href=\">'>[tag]\">[text]"),
            ("<a b=c'>$(A)<a ='>$(B)</b ='>$(C)", "<a b=c'>[text]<a ='>[text]</b ='>[text]"),
            ("<a b=$(A)>$(B)<a b=$(A)/c>$(B)", "<a b=[tag]>[text]<a b=[tag]/c>[text]"),
            ("<a b=$(A)'>$(B)", "<a b=[tag]'>[tag]"),
            ("<a b=$(A) c='>$(B)", "<a b=[tag] c='>[tag]"),
            ("<a $(A)='>$(B)", "<a [tag]='>[tag]"),
            // Texts in which no tag begins.
            ("<script>'<a b=\">' $(A)</scriptx></SCRIPT\n>$(B)", "<script>'<a b=\">' [tag]</scriptx></SCRIPT\n>[text]"),
            ("<Style a='b>'>$(A)</style>$(B)", "<Style a='b>'>[tag]</style>[text]"),
            ("<title>$(A)<a b='</title>$(B)", "<title>[text]<a b='</title>[text]"),
            ("<title>$(A)</ti$(B)", "<title>[text]</ti[tag]"),
            ("<script><!--<script></script>$(A)</script>$(B)", "<script><!--<script></script>[tag]</script>[tag]"),
            ("<script><!-- a --></script>$(A)", "<script><!-- a --></script>[text]"),
            ("<svg><style><a b='</style>$(A)", "<svg><style><a b='</style>[tag]"),
            ("<svg><title>$(A)</title></svg>$(B)", "<svg><title>[tag]</title></svg>[text]"),
            ("<plaintext></plaintext>$(A)", "<plaintext></plaintext>[tag]"),
            // Comments and declarations.
            ("<!-- > <a b=' -->$(A)<!--> $(B)<!---> $(C)", "<!-- > <a b=' -->[text]<!--> [text]<!---> [text]"),
            ("<!-- a --!> $(A)<!-- - -> $(B) - -->$(C)", "<!-- a --!> [text]<!-- - -> [tag] - -->[text]"),
            ("<!--!>$(A)--><!---!>$(B)-->$(C)", "<!--!>[tag]--><!---!>[tag]-->[text]"),
            ("<!-- $(A)-> --> $(B)", "<!-- [tag]-> --> [tag]"),
            (
                "<!DOCTYPE html \">\">$(A)<?x ?>$(B)</>$(C)</ $(D)>$(E)",
                "<!DOCTYPE html \">\">[text]<?x ?>[text]</>[text]</ [tag]>[text]",
            ),
            ("<![CDATA[ $(A) ]]>$(B)", "<![CDATA[ [tag] ]]>[text]"),
            ("<![CDATA[ > <a b=' ]]>$(A)", "<![CDATA[ > <a b=' ]]>[tag]"),
            // What stands for one that is empty.
            ("$(A|'<i>b</i>')$(B)$(A|'<a b=')$(B)", "[text][text][text][tag]"),
            ("<!-- ' $(A) -->$(B)</p $(C)>", "<!-- ' [tag] -->[text]</p [tag]>"),
            ("$('#id').x($(document))$$(A)$", "$('#id').x($(document))$[text]$"),
            ("$(A$(B)", "$(A[text]"),
            ("$(A{<b$(C)>", "$(A{<b[tag]>"),
            ("$(A", "$(A"),
        ] {
            for bytes in 1..=text.len() {
                let (mut vars, mut markup, mut out) = (Vars::default(), Markup::default(), String::new());
                let mut add = |found: Found| match found {
                    Found::Text(text) => out.push_str(std::str::from_utf8(&text).unwrap()),
                    Found::Variable(_, Place::Text) => out.push_str("[text]"),
                    Found::Variable(_, Place::Tag) => out.push_str("[tag]"),
                };
                for piece in text.as_bytes().chunks(bytes) {
                    vars.feed(&Bytes::copy_from_slice(piece), &mut markup, &mut add);
                }
                vars.let_go(&mut markup, &mut add);
                assert_eq!(out, expected, "{text} in pieces of {bytes}");
            }
        }
    }
}
