//! The page of the scenarios `esi` and `esi-gzip`: HTML with includes, of which each is a page of its own.

/// How many includes there are.
const INCLUDES: usize = 10;
/// How long the first of them is; each of the others has a byte more, so that all are different pages.
const BYTES: usize = 1024;

/// The VCL of the servers, with the marks of [`shop`](super::shop).
pub fn vcl(is_packed: bool) -> String {
    let packs = if is_packed { "set beresp.do_gzip = true;" } else { "" };
    format!(
        "vcl 4.1;
backend default {{ .host = \"/* {{{{ host }}}} */\"; .port = \"/* {{{{ port }}}} */\"; }}
sub vcl_backend_response {{
    set beresp.do_esi = true;
    {packs}
}}
"
    )
}

/// How long the pages are that are included.
pub fn sizes() -> impl Iterator<Item = usize> {
    (0..INCLUDES).map(|at| BYTES + at)
}

/// A text with what stands in the place of each include, between its lines.
pub fn woven(text: &[u8], includes: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let (mut out, mut at) = (Vec::new(), 0);
    for (number, include) in includes.enumerate() {
        let after = text.len() * (number + 1) / (INCLUDES + 1);
        let line_end =
            text.iter().skip(after).position(|byte| *byte == b'\n').map_or(text.len(), |end| after + end + 1);
        out.extend_from_slice(text.get(at..line_end).unwrap_or_default());
        out.extend(include);
        at = line_end;
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn includes_stand_between_lines() {
        let text = "a line\n".repeat(100);
        let woven = woven(text.as_bytes(), sizes().map(|bytes| format!("<{bytes}>").into_bytes()));
        let woven = String::from_utf8(woven).expect("it is text");
        let parts: Vec<_> = woven.split('<').collect();
        assert_eq!(parts.len(), INCLUDES + 1);
        assert!(parts.iter().take(INCLUDES).all(|part| part.ends_with('\n')), "{parts:?}");
        assert!(woven.contains("line\n<1024>a line") && woven.ends_with("line\n"));
    }
}
