//! The encodings of the module `blob`: bytes as text, and back (vmod_blob(3)).

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use larder_http::uri::hex;

/// How bytes are written as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// As they are.
    Identity,
    /// Base64 with `+`, `/` and `=` (RFC 4648 §4).
    Base64,
    /// Base64 with `-`, `_` and `=` (RFC 4648 §5).
    Base64Url,
    /// The same without `=`.
    Base64UrlNoPad,
    /// Base64 with `-`, `~` and `_`, as a content delivery network has it.
    Base64Cf,
    /// Two hexadecimal digits a byte.
    Hex,
    /// `%` and two hexadecimal digits for all but the unreserved characters (RFC 3986 §2.1).
    Url,
}

impl Encoding {
    /// All of them, in the order of Varnish's ENUM.
    pub const ALL: [Encoding; 7] =
        [Self::Identity, Self::Base64, Self::Base64Url, Self::Base64UrlNoPad, Self::Base64Cf, Self::Hex, Self::Url];

    /// Whether it has hexadecimal digits, which may be in either case.
    pub fn has_hex_digits(self) -> bool {
        matches!(self, Self::Hex | Self::Url)
    }

    /// `bytes` as text.
    pub fn encode(self, bytes: &[u8], is_upper: bool) -> Vec<u8> {
        match self {
            Self::Identity => bytes.to_vec(),
            Self::Base64 => STANDARD.encode(bytes).into_bytes(),
            Self::Base64Url => URL_SAFE.encode(bytes).into_bytes(),
            Self::Base64UrlNoPad => URL_SAFE_NO_PAD.encode(bytes).into_bytes(),
            Self::Base64Cf => STANDARD.encode(bytes).bytes().map(|byte| swapped(byte, b"+/=", b"-~_")).collect(),
            Self::Hex => bytes.iter().flat_map(|byte| digits(*byte, is_upper)).collect(),
            Self::Url => url_encoded(bytes, is_upper),
        }
    }

    /// The bytes of `text`; `None` if it is not of this encoding. Padding may be missing, and digits may be in either case.
    pub fn decode(self, text: &[u8]) -> Option<Vec<u8>> {
        match self {
            Self::Identity => Some(text.to_vec()),
            Self::Base64 => STANDARD.decode(text).ok(),
            Self::Base64Url => URL_SAFE.decode(text).ok(),
            Self::Base64UrlNoPad => URL_SAFE_NO_PAD.decode(text).ok(),
            Self::Base64Cf => {
                let is_own = |byte: &u8| !b"+/=".contains(byte);
                let plain: Vec<u8> = text.iter().map(|byte| swapped(*byte, b"-~_", b"+/=")).collect();
                text.iter().all(is_own).then(|| STANDARD.decode(plain).ok()).flatten()
            }
            Self::Hex => hex_decoded(text),
            Self::Url => url_decoded(text),
        }
    }
}

/// As in Varnish, padding may be missing and the bits behind the last byte are not looked at.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);
const URL_SAFE_NO_PAD: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    LENIENT.with_encode_padding(false).with_decode_padding_mode(DecodePaddingMode::RequireNone),
);

/// The byte of `to` at the place that `byte` has in `from`, or itself.
fn swapped(byte: u8, from: &[u8; 3], to: &[u8; 3]) -> u8 {
    from.iter().position(|own| *own == byte).map_or(byte, |at| to[at])
}

fn digits(byte: u8, is_upper: bool) -> [u8; 2] {
    let digits = if is_upper { b"0123456789ABCDEF" } else { b"0123456789abcdef" };
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}

fn url_encoded(bytes: &[u8], is_upper: bool) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            text.push(*byte);
        } else {
            text.push(b'%');
            text.extend(digits(*byte, is_upper));
        }
    }
    text
}

/// An odd number of digits counts as if a 0 stood before them.
fn hex_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let (first, pairs) = text.split_at(text.len() % 2);
    let first = first.iter().map(|low| hex(*low));
    first.chain(pairs.chunks_exact(2).map(|pair| Some(hex(pair[0])? << 4 | hex(pair[1])?))).collect()
}

fn url_decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    loop {
        rest = match rest {
            [] => return Some(bytes),
            [b'%', high, low, rest @ ..] => {
                bytes.push(hex(*high)? << 4 | hex(*low)?);
                rest
            }
            [b'%', ..] => return None,
            [byte, rest @ ..] => {
                bytes.push(*byte);
                rest
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_and_read_back() {
        let bytes = b"\x00\xfb\xff\xbe~ a/";
        for (encoding, is_upper, text) in [
            (Encoding::Base64, false, "APv/vn4gYS8="),
            (Encoding::Base64Url, false, "APv_vn4gYS8="),
            (Encoding::Base64UrlNoPad, false, "APv_vn4gYS8"),
            (Encoding::Base64Cf, false, "APv~vn4gYS8_"),
            (Encoding::Hex, false, "00fbffbe7e20612f"),
            (Encoding::Hex, true, "00FBFFBE7E20612F"),
            (Encoding::Url, false, "%00%fb%ff%be~%20a%2f"),
            (Encoding::Url, true, "%00%FB%FF%BE~%20a%2F"),
        ] {
            let written = encoding.encode(bytes, is_upper);
            assert_eq!(String::from_utf8_lossy(&written), text, "{encoding:?}");
            assert_eq!(encoding.decode(&written).as_deref(), Some(&bytes[..]), "{encoding:?}");
        }
        for encoding in Encoding::ALL {
            assert_eq!(encoding.encode(b"", false), b"", "{encoding:?}");
            assert_eq!(encoding.decode(b""), Some(Vec::new()), "{encoding:?}");
            let all: Vec<u8> = (0..=255).collect();
            assert_eq!(encoding.decode(&encoding.encode(&all, false)), Some(all), "{encoding:?}");
        }
    }

    #[test]
    fn what_is_read_need_not_be_neat() {
        for (encoding, text, expected) in [
            (Encoding::Base64, "Zm9vYg", Some("foob")),
            (Encoding::Base64, "Zm9vYg=", Some("foob")),
            (Encoding::Base64, "Zm9vYh==", Some("foob")),
            (Encoding::Base64, "Zm9v=", None),
            (Encoding::Base64, "Z", None),
            (Encoding::Base64, "Zm 9v", None),
            (Encoding::Base64, "Zg==Zg==", None),
            (Encoding::Base64, "Zg===", None),
            (Encoding::Base64, "====", None),
            (Encoding::Base64, "-_-_", None),
            (Encoding::Base64Url, "+/+/", None),
            (Encoding::Base64UrlNoPad, "Zm9vYg==", None),
            (Encoding::Base64Cf, "Zm9vYg__", Some("foob")),
            (Encoding::Base64Cf, "Zm9vYg==", None),
            (Encoding::Hex, "666F6f", Some("foo")),
            (Encoding::Hex, "a41", Some("\nA")),
            (Encoding::Hex, "4x", None),
            (Encoding::Hex, "0x41", None),
            (Encoding::Url, "a%20+%4a", Some("a +J")),
            (Encoding::Url, "a%2", None),
            (Encoding::Url, "a%", None),
            (Encoding::Url, "%+1", None),
        ] {
            let found = encoding.decode(text.as_bytes());
            assert_eq!(found.as_deref(), expected.map(str::as_bytes), "{encoding:?} {text}");
        }
    }
}
