//! The names of arguments and cookies as PHP reads them (php_register_variable_ex).

use larder_conf::model::Glob;

/// What PHP calls something of this name, without escapes: behind spaces, up to a byte 0, and without an index. A `[` that
/// nothing closes is a letter of the name.
pub fn name(written: &[u8]) -> &[u8] {
    let spaces = written.iter().take_while(|byte| matches!(byte, b' ' | b'+')).count();
    let name = &written[spaces..];
    let name = &name[..memchr::memchr(0, name).unwrap_or(name.len())];
    match memchr::memchr(b'[', name) {
        Some(at) if at > 0 && name[at..].contains(&b']') => &name[..at],
        Some(_) | None => name,
    }
}

/// Whether PHP reads another name than is written; also if some versions of it do.
pub fn changes(name: &[u8]) -> bool {
    name.iter().any(|byte| matches!(byte, 0 | b' ' | b'+' | b'.' | b'[' | b'%'))
}

/// A byte of a name as PHP has it.
pub fn byte(byte: u8) -> u8 {
    match byte {
        b'.' | b' ' | b'+' | b'[' => b'_',
        byte => byte,
    }
}

/// The same in lower case.
pub fn small(byte: u8) -> u8 {
    self::byte(byte).to_ascii_lowercase()
}

/// Whether an argument is what a pattern names; one with a `=` names a value, too.
pub fn is_argument(pattern: &Glob, name: &[u8], value: &[u8]) -> bool {
    let is_same = |a: u8, b: u8| small(a) == small(b);
    match pattern.start.split_once('=') {
        None => super::matches(&pattern.start, pattern.end.as_deref(), name, is_same),
        Some((own, start)) => {
            super::matches(own, None, name, is_same) && super::matches(start, pattern.end.as_deref(), value, is_same)
        }
    }
}
