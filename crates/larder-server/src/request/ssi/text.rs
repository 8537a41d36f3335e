//! Texts in SSI commands: `\` before `\ ' " $`, and variables as `$name` or `${name}` (ngx_http_ssi_evaluate_string).

use super::parse::shown;

/// The text with its variables replaced by what `append` adds for them. The error is nginx's message.
pub fn value(text: &[u8], mut append: impl FnMut(&[u8], &mut Vec<u8>) -> bool) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'\\' => {
                let Some((&quoted, after)) = rest.split_first() else { break };
                rest = after;
                if !matches!(quoted, b'\\' | b'\'' | b'"' | b'$') {
                    out.push(b'\\');
                }
                out.push(quoted);
            }
            b'$' => {
                let name;
                (name, rest) = variable(rest, text)?;
                append(name, &mut out);
                if out.len() > VALUE_BYTES_MAX {
                    return Err(format!("a value of more than {VALUE_BYTES_MAX} bytes"));
                }
            }
            byte => out.push(byte),
        }
    }
    Ok(out)
}

/// How long a text may become: one that is twice itself, again and again, would grow for ever.
const VALUE_BYTES_MAX: usize = 256 * 1024;

/// The name at the beginning of `rest`, and what follows it.
fn variable<'a>(rest: &'a [u8], text: &[u8]) -> Result<(&'a [u8], &'a [u8]), String> {
    let (bracket, rest) = match rest.strip_prefix(b"{") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let len = rest.iter().position(|byte| !is_name(byte)).unwrap_or(rest.len());
    let (name, after) = rest.split_at(len);
    let after = match (bracket, after) {
        (true, [b'}', after @ ..]) => after,
        (true, _) if !rest.is_empty() => {
            return Err(format!("the closing bracket in \"{}\" variable is missing", shown(name)));
        }
        (true | false, after) => after,
    };
    if name.is_empty() {
        return Err(format!("invalid variable name in \"{}\"", shown(text)));
    }
    Ok((name, after))
}

/// The left side of an expression, in lower case as nginx has it, and what follows it after spaces.
pub fn left_side(expression: &[u8]) -> (Vec<u8>, &[u8]) {
    let belongs = |byte: &u8| byte.is_ascii_alphanumeric() || b"${}_\"'".contains(byte);
    let len = expression.iter().position(|byte| !belongs(byte)).unwrap_or(expression.len());
    let (left, mut rest) = expression.split_at(len);
    while let [b' ', after @ ..] = rest {
        rest = after;
    }
    (left.to_ascii_lowercase(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_and_quotes_taken_off() {
        for (text, expected) in [
            ("plain", Ok("plain")),
            ("$a", Ok("<a>")),
            ("x${a}y$b z", Ok("x<a>y<b> z")),
            ("$a$b", Ok("<a><b>")),
            ("\\$a \\\\ \\' \\\" \\n", Ok("$a \\ ' \" \\n")),
            ("$none.", Ok(".")),
            ("$", Err("invalid variable name in \"$\"")),
            ("$-", Err("invalid variable name in \"$-\"")),
            ("${}", Err("invalid variable name in \"${}\"")),
            ("${a", Err("the closing bracket in \"a\" variable is missing")),
            ("${a b}", Err("the closing bracket in \"a\" variable is missing")),
        ] {
            let found = value(text.as_bytes(), |name, out| {
                if name != b"none" {
                    out.extend_from_slice(&[b"<", name, b">"].concat());
                }
                true
            });
            let found = found.map(|found| String::from_utf8(found).expect("it is text"));
            assert_eq!(found.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }

    #[test]
    fn a_value_that_grows_has_an_end() {
        let mut value = vec![b'x'; 1000];
        let grown = std::iter::from_fn(|| {
            value = super::value(b"$a$a", |_, out| {
                out.extend_from_slice(&value);
                true
            })
            .ok()?;
            Some(value.len())
        });
        assert_eq!(grown.take(100).last(), Some(256_000));
    }

    #[test]
    fn the_left_side_ends_at_the_operator() {
        for (expression, left, rest) in [
            ("$a", "$a", ""),
            ("$A = B", "$a", "= B"),
            ("equal != $b", "equal", "!= $b"),
            ("$a=b", "$a", "=b"),
            ("= b", "", "= b"),
        ] {
            assert_eq!(left_side(expression.as_bytes()), (left.into(), rest.as_bytes()), "{expression}");
        }
    }
}
