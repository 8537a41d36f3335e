//! What comes of a response in any of the protocols, and the size its head may have.

use std::ops::Range;

use crate::error::FetchError;

/// What comes next of a body.
pub(crate) enum Piece {
    /// Where in the bytes it is; never empty.
    Data(Range<usize>),
    /// The bytes are used up.
    More,
    End(Reuse),
}

/// What the response says about its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reuse {
    Keep,
    Close,
}

/// A complete head must fit as well.
pub(crate) fn check_head_size(text: &[u8], consumed: usize, limit: usize) -> Result<(), FetchError> {
    if consumed <= limit { Ok(()) } else { Err(too_big(&text[..consumed], limit)) }
}

/// Names the largest field, which is what the reader of the log has to look for.
pub(crate) fn too_big(head: &[u8], limit: usize) -> FetchError {
    let line = head.split(|byte| *byte == b'\n').max_by_key(|line| line.len()).unwrap_or_default();
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    let name = &name[..name.len().min(NAME_BYTES_SHOWN)];
    let what = format!("{} bytes so far, of which \"{}\" takes {}", head.len(), name.escape_ascii(), line.len());
    FetchError::HeadTooBig { what, limit }
}

/// A line without a colon is shown no further.
const NAME_BYTES_SHOWN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_field_is_named() {
        let head = format!("Status: 200\r\nX-Tags: {}\r\nA: b\r\n", "t".repeat(5000));
        let told = too_big(head.as_bytes(), 4096).to_string();
        assert_eq!(
            told,
            "upstream sent too big header (5029 bytes so far, of which \"X-Tags\" takes 5009; the limit is 4096 bytes) \
             while reading response header from upstream"
        );
        assert!(too_big(b"", 0).to_string().contains("0 bytes"));
    }
}
