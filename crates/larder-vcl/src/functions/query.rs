//! `std.querysort()`: a URL with its arguments in order, so that one page has one key.

/// The URL with its arguments sorted by bytes, shorter ones first where one begins with the other, and without empty
/// ones. As in Varnish, a URL with one argument stays as it is.
pub fn querysort(url: &[u8]) -> Vec<u8> {
    let Some(mark) = url.iter().position(|byte| *byte == b'?') else { return url.to_vec() };
    let (path, query) = url.split_at(mark + 1);
    if !query.contains(&b'&') {
        return url.to_vec();
    }
    let mut arguments: Vec<&[u8]> = query.split(|byte| *byte == b'&').filter(|argument| !argument.is_empty()).collect();
    // Stable, so that arguments of the same name and value stay, and what a server reads last is last.
    arguments.sort();
    let mut sorted = path.to_vec();
    for (at, argument) in arguments.into_iter().enumerate() {
        if at > 0 {
            sorted.push(b'&');
        }
        sorted.extend_from_slice(argument);
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_sorted_and_empty_ones_left_out() {
        for (url, sorted) in [
            ("/", "/"),
            ("/?", "/?"),
            ("/?b=1", "/?b=1"),
            ("/?b=1&a=2", "/?a=2&b=1"),
            ("/p?ab=1&a=1&b", "/p?a=1&ab=1&b"),
            ("/?a=2&a=1", "/?a=1&a=2"),
            ("/?aa&a", "/?a&aa"),
            ("/?&&b&&a&", "/?a&b"),
            ("/?&", "/?"),
            ("/&b&a", "/&b&a"),
            ("/?b&a?x", "/?a?x&b"),
        ] {
            assert_eq!(String::from_utf8_lossy(&querysort(url.as_bytes())), sorted, "{url}");
        }
    }
}
