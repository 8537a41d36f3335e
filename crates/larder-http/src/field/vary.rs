//! `Vary`: which request fields a response was chosen by (RFC 9110 §12.5.5).

use super::list::{is_token, members};

/// What a response varies by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Vary<'a> {
    /// By nothing: it answers every request for its key.
    Nothing,
    /// By these request fields, as written, each once.
    Names(Vec<&'a [u8]>),
    /// By things that are not in request fields (`*`): it answers no other request.
    Any,
}

/// Reads all `Vary` lines of a response. A `*` among names counts for all of them, and so does what is no name. Spaces
/// separate as commas do, as in nginx: who leaves a comma out means several names.
pub fn parse<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Vary<'a> {
    let mut names: Vec<&'a [u8]> = Vec::new();
    let words = |member: &'a [u8]| member.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    for name in lines.into_iter().flat_map(members).flat_map(words) {
        if name == b"*" || !is_token(name) {
            return Vary::Any;
        }
        if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            names.push(name);
        }
    }
    if names.is_empty() { Vary::Nothing } else { Vary::Names(names) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_once_and_a_star_beats_them() {
        let names = |list: &[&'static str]| Vary::Names(list.iter().map(|name| name.as_bytes()).collect());
        for (lines, expected) in [
            (&[][..], Vary::Nothing),
            (&["", " , "], Vary::Nothing),
            (&["Accept-Encoding"], names(&["Accept-Encoding"])),
            (&["Accept-Encoding, Cookie", "cookie"], names(&["Accept-Encoding", "Cookie"])),
            (&["*"], Vary::Any),
            (&["Cookie", "A, *"], Vary::Any),
            (&["Accept-Language Cookie\tX-A ,B"], names(&["Accept-Language", "Cookie", "X-A", "B"])),
            (&["A; B"], Vary::Any),
            (&["\"A\""], Vary::Any),
            (&["A:"], Vary::Any),
            (&["A *"], Vary::Any),
        ] {
            assert_eq!(parse(lines.iter().map(|line| line.as_bytes())), expected, "{lines:?}");
        }
    }
}
