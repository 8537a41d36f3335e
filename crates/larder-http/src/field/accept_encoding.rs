//! `Accept-Encoding`: which codings a client accepts (RFC 9110 §12.5.3).
//!
//! [`Accepted`] reads the field as the RFC has it, and is what a response is chosen by, gzip included. nginx reads
//! it its own way: the two agree on what clients send, and the tests list where they do not.

use std::fmt;

use super::list::{members, trim};

/// A coding that larder can compress and decompress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 7932.
    Brotli,
    /// RFC 8878, with the window of RFC 9659.
    Zstd,
}

impl Coding {
    /// All of them.
    pub const ALL: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

    /// Its name in a field.
    pub fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// The coding with this name, ignoring case; `x-gzip` is `gzip` (RFC 9110 §8.4.1.3).
    pub fn parse(name: &[u8]) -> Option<Coding> {
        if name.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Coding::Gzip);
        }
        Coding::ALL.into_iter().find(|coding| name.eq_ignore_ascii_case(coding.name().as_bytes()))
    }

    /// Its place in a table of all codings: 0, 1 or 2.
    #[inline]
    pub fn index(self) -> usize {
        match self {
            Coding::Gzip => 0,
            Coding::Brotli => 1,
            Coding::Zstd => 2,
        }
    }
}

impl fmt::Display for Coding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A weight (`q=`) in thousandths, 0 to 1000; zero means "not acceptable" (RFC 9110 §12.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Weight(u16);

impl Weight {
    /// The weight of a member without `q=`.
    pub const FULL: Weight = Weight(1000);

    /// The thousandths.
    pub fn thousandths(self) -> u16 {
        self.0
    }

    /// `0`, `0.5`, `1.000`: one digit, and up to three after the point.
    fn parse(text: &[u8]) -> Option<Weight> {
        let (whole, decimals) = match text {
            [whole] => (whole, &[][..]),
            [whole, b'.', decimals @ ..] if decimals.len() <= 3 => (whole, decimals),
            _ => return None,
        };
        if !decimals.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let digit = |at: usize| decimals.get(at).map_or(0, |byte| u16::from(byte - b'0'));
        let thousandths = digit(0) * 100 + digit(1) * 10 + digit(2);
        match (whole, thousandths) {
            (b'0', _) => Some(Weight(thousandths)),
            (b'1', 0) => Some(Weight::FULL),
            _ => None,
        }
    }
}

/// What a request's `Accept-Encoding` accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accepted {
    /// The weights of codings that the field names, by [`Coding::index`].
    codings: [Option<Weight>; 3],
    /// `*`: all that is not named.
    others: Option<Weight>,
}

impl Accepted {
    /// Reads all lines of the field. Members that cannot be read are skipped; of several members with one name, the
    /// first counts.
    ///
    /// Without the field, a server may choose any coding, but only identity is safe: so no coding is accepted, as in
    /// nginx.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Accepted {
        let mut accepted = Accepted::default();
        for (name, weight) in lines.into_iter().flat_map(members).filter_map(member) {
            if let Some(said) = accepted.said_of(name) {
                said.get_or_insert(weight);
            }
        }
        accepted
    }

    /// The weight of a coding; `None` if it must not be sent.
    #[inline]
    pub fn accepts(&self, coding: Coding) -> Option<Weight> {
        self.codings[coding.index()].or(self.others).filter(|weight| weight.0 > 0)
    }

    /// Where it is kept what the field says of `name`; `None` for what we do not know.
    fn said_of(&mut self, name: &[u8]) -> Option<&mut Option<Weight>> {
        if name == b"*" {
            return Some(&mut self.others);
        }
        Coding::parse(name).map(|coding| &mut self.codings[coding.index()])
    }
}

/// Splits a member such as `gzip;q=0.5`. `None` if it has other parameters, or an invalid weight.
fn member(member: &[u8]) -> Option<(&[u8], Weight)> {
    let Some(end) = member.iter().position(|&byte| byte == b';') else {
        return Some((member, Weight::FULL));
    };
    let (name, weight) = member.split_at(end);
    let weight = match trim(weight.get(1..)?) {
        [b'q' | b'Q', b'=', weight @ ..] => Weight::parse(weight)?,
        _ => return None,
    };
    Some((trim(name), weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(lines: &[&str]) -> Accepted {
        Accepted::parse(lines.iter().map(|line| line.as_bytes()))
    }

    #[test]
    fn codings_have_the_weight_of_their_name_or_of_the_star() {
        for (lines, gzip, br, zstd) in [
            (&[][..], None, None, None),
            (&[""], None, None, None),
            (&["gzip, deflate, br, zstd"], Some(1000), Some(1000), Some(1000)),
            (&["gzip", "BR;q=0.5"], Some(1000), Some(500), None),
            (&["x-gzip"], Some(1000), None, None),
            (&["x-gzip;q=0.2, gzip"], Some(200), None, None),
            (&["*"], Some(1000), Some(1000), Some(1000)),
            (&["*;q=0.1, br"], Some(100), Some(1000), Some(100)),
            (&["*;q=0"], None, None, None),
            (&["gzip, *;q=0"], Some(1000), None, None),
            (&["gzip, *;q=0, identity;q=0.001"], Some(1000), None, None),
            (&["identity;q=0"], None, None, None),
            (&["identity"], None, None, None),
            (&["gzip;q=0, *"], None, Some(1000), Some(1000)),
            (&["gzip ; q=0.25 ,\tbr;\tQ=1.000"], Some(250), Some(1000), None),
            (&["gzip;q=0.001"], Some(1), None, None),
            (&["gzip;q=0.000"], None, None, None),
            // Of two the first counts, also over several lines.
            (&["gzip;q=0, gzip"], None, None, None),
            (&["gzip;q=0.3", "gzip"], Some(300), None, None),
        ] {
            let accepted = accepted(lines);
            let thousandths = |coding| accepted.accepts(coding).map(Weight::thousandths);
            assert_eq!(thousandths(Coding::Gzip), gzip, "gzip of {lines:?}");
            assert_eq!(thousandths(Coding::Brotli), br, "br of {lines:?}");
            assert_eq!(thousandths(Coding::Zstd), zstd, "zstd of {lines:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_skipped_and_the_rest_counts() {
        for broken in [
            "gzip;",
            "gzip;q",
            "gzip;q=",
            "gzip;q=2",
            "gzip;q=1.1",
            "gzip;q=1.001",
            "gzip;q=0.1234",
            "gzip;q=.5",
            "gzip;q=0,5",
            "gzip;q =1",
            "gzip;q= 1",
            "gzip;x=1",
            "gzip;q=1;x=2",
            "gzip;q=0.5a",
            "gzip;q=-1",
            "gzip q=1",
            "gzip/1",
            ";q=1",
            ";",
            "\"gzip\"",
            "gzip;q=\u{b2}",
        ] {
            let accepted = accepted(&[broken, "br"]);
            assert_eq!(accepted.accepts(Coding::Gzip), None, "{broken}");
            assert_eq!(accepted.accepts(Coding::Brotli), Some(Weight::FULL), "{broken}");
        }
    }

    #[test]
    fn names_are_read_in_any_case_and_written_in_one() {
        for (name, coding) in [
            ("gzip", Some(Coding::Gzip)),
            ("X-GZip", Some(Coding::Gzip)),
            ("BR", Some(Coding::Brotli)),
            ("zstd", Some(Coding::Zstd)),
            ("deflate", None),
            ("brotli", None),
            ("", None),
        ] {
            assert_eq!(Coding::parse(name.as_bytes()), coding, "{name}");
        }
        for (at, coding) in Coding::ALL.into_iter().enumerate() {
            assert_eq!((coding.index(), Coding::parse(coding.to_string().as_bytes())), (at, Some(coding)));
        }
    }

    #[test]
    fn on_what_clients_send_nginx_and_the_rfc_agree() {
        for (line, accepts) in [
            ("gzip, deflate, br, zstd", true),
            ("gzip,deflate", true),
            ("br, gzip", true),
            ("deflate,gzip", true),
            ("GZip", true),
            ("gzip;q=1.0, identity; q=0.5", true),
            ("gzip; q=0.001", true),
            ("deflate, gzip;q=1.0, *;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip;q=0.0", false),
            ("gzip;q=0.000", false),
            ("gzip;q=2", false),
            ("gzip;q=0.1234", false),
            ("gzip;q=", false),
            ("gzip;q", false),
            ("gzip;q=1.", true),
            ("gzip;q=1.001", false),
            ("gzip;q=0.5;x=1", false),
            ("gzip;q=0, gzip", false),
            ("gzipped", false),
            ("identity", false),
            ("br", false),
            ("", false),
        ] {
            assert_eq!(nginx_accepts_gzip(line.as_bytes()), accepts, "nginx: {line}");
            assert_eq!(accepted(&[line]).accepts(Coding::Gzip).is_some(), accepts, "RFC: {line}");
        }
    }

    #[test]
    fn where_nginx_and_the_rfc_differ() {
        for (line, nginx, rfc) in [
            // nginx knows no star and no old name,
            ("*", false, true),
            ("x-gzip", false, true),
            // and no tab;
            ("br,\tgzip", false, true),
            ("gzip\t;q=1", false, true),
            // it takes a word in the middle of what is no list,
            ("no gzip", true, false),
            ("a;b=1 gzip", true, false),
            // also one behind another one,
            ("xgzipgzip", true, false),
            // and a weight that is not there, or is followed by a space and anything.
            ("gzip;", true, false),
            ("gzip;q=1 x", true, false),
            // After a parameter it does not know it looks no further.
            ("gzip;x=1, gzip", false, true),
        ] {
            assert_eq!(nginx_accepts_gzip(line.as_bytes()), nginx, "nginx: {line}");
            assert_eq!(accepted(&[line]).accepts(Coding::Gzip).is_some(), rfc, "RFC: {line}");
        }
    }

    /// Whether nginx's `gzip` would take this value of the first `Accept-Encoding` line for a yes.
    ///
    /// nginx looks for the first `gzip` in any case that begins the value, or stands after a comma or a space, and
    /// reads a weight after it; it knows neither `*` nor `x-gzip`, and adds up the digits of a weight.
    fn nginx_accepts_gzip(value: &[u8]) -> bool {
        let Some(mut rest) = after_gzip(value) else {
            return false;
        };
        loop {
            match rest {
                [] | [b',', ..] => return true,
                [b' ', after @ ..] => rest = after,
                [b';', after @ ..] => {
                    rest = after;
                    break;
                }
                _ => return false,
            }
        }
        loop {
            match rest {
                [] => return true,
                [b' ', after @ ..] => rest = after,
                [b'q' | b'Q', b'=', weight @ ..] => return is_nginx_weight(weight),
                _ => return false,
            }
        }
    }

    /// What comes after the `gzip` that nginx finds.
    fn after_gzip(value: &[u8]) -> Option<&[u8]> {
        // The search goes on behind each one that it passed over, and takes that place for a beginning.
        let mut start = 0;
        loop {
            let from = value.get(start..)?;
            let at = start + from.windows(4).position(|four| four.eq_ignore_ascii_case(b"gzip"))?;
            let before = at.checked_sub(1).and_then(|at| value.get(at));
            if at == start || matches!(before, Some(b',' | b' ')) {
                return value.get(at + 4..);
            }
            start = at + 4;
        }
    }

    /// Whether nginx takes a weight for more than zero.
    fn is_nginx_weight(text: &[u8]) -> bool {
        let (mut sum, rest) = match text {
            [whole @ (b'0' | b'1'), rest @ ..] => (u32::from(whole - b'0') * 100, rest),
            _ => return false,
        };
        let decimals = match rest {
            [] | [b',' | b' ', ..] => return sum > 0,
            [b'.', decimals @ ..] => decimals,
            _ => return false,
        };
        let mut digits = 0;
        for &byte in decimals {
            match byte {
                b',' | b' ' => break,
                // Four are too many already, and a value is shorter than what a sum could overflow with.
                b'0'..=b'9' => (sum, digits) = (sum + u32::from(byte - b'0'), digits + 1),
                _ => return false,
            }
        }
        sum > 0 && sum <= 100 && digits <= 3
    }
}
