//! Regular expressions, as whoever uses this crate has them.

use std::fmt::Debug;

/// A compiled regular expression.
pub trait Pattern: Debug {
    /// Whether it matches somewhere in a text; `None` if that took too much work. Who implements it reports that.
    fn is_match(&self, text: &[u8]) -> Option<bool>;
}

/// Compiles an expression; `true` if case does not count. An error says what is wrong with it.
pub type Compile<'a> = &'a dyn Fn(&str, bool) -> Result<Box<dyn Pattern>, String>;

#[cfg(test)]
pub mod plain {
    //! Expressions for tests: a text that is contained, `^` in front of one that stands at the beginning.

    use super::*;

    #[derive(Debug)]
    struct Plain(String, bool);

    impl Pattern for Plain {
        fn is_match(&self, text: &[u8]) -> Option<bool> {
            let mut text = String::from_utf8_lossy(text).into_owned();
            if self.1 {
                text = text.to_lowercase();
            }
            match self.0.as_str() {
                "endless" => None,
                pattern => {
                    Some(pattern.strip_prefix('^').map_or(text.contains(pattern), |rest| text.starts_with(rest)))
                }
            }
        }
    }

    /// Compiles one.
    pub fn compile(source: &str, caseless: bool) -> Result<Box<dyn Pattern>, String> {
        if source.contains('(') {
            return Err("missing closing parenthesis".to_owned());
        }
        Ok(Box::new(Plain(if caseless { source.to_lowercase() } else { source.to_owned() }, caseless)))
    }
}
