//! Words of commands that are told to people.

/// A word for a shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+:,@%=".contains(letter);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_a_word_as_it_is() {
        for (word, shown) in [("/a.b", "/a.b"), ("a b", "'a b'"), ("a'b", "'a'\\''b'"), ("", "''")] {
            assert_eq!(quoted(word), shown);
        }
    }
}
