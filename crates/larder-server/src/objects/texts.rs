//! Regular expressions on texts.

use larder_vcl::functions::replace;
use larder_vcl::policy::RegexId;
use larder_vcl::run::{Failure, Text, Texts};

use crate::regex::{Groups, MatchError, Regex};

/// Whether a regular expression matches.
pub fn matches(regexes: &[Regex], regex: RegexId, subject: &[u8]) -> Result<bool, Failure> {
    regex_of(regexes, regex)?.is_match(subject).map_err(failed)
}

/// The first match of a regular expression at or behind a place.
pub fn find_at(regexes: &[Regex], regex: RegexId, text: &[u8], from: usize) -> Result<Option<Groups>, Failure> {
    regex_of(regexes, regex)?.find_at(text, from).map_err(failed)
}

/// `regsub()` and `regsuball()`: `texts` are the subject and what takes the place of a match.
pub fn substitute(
    regexes: &[Regex],
    regex: RegexId,
    all: bool,
    [subject, with]: [Option<Text>; 2],
    texts: &mut Texts<'_>,
) -> Result<Option<Text>, Failure> {
    let regex = regex_of(regexes, regex)?;
    let mut made = Vec::new();
    let find = |text: &[u8], from| regex.find_at(text, from);
    let is_changed = replace::replace(texts.bytes(subject), texts.bytes(with), all, find, &mut made).map_err(failed)?;
    Ok(if is_changed { Some(texts.keep(&made)?) } else { None })
}

/// A regular expression by its number.
pub fn regex_of(regexes: &[Regex], regex: RegexId) -> Result<&Regex, Failure> {
    regexes.get(regex.0 as usize).ok_or_else(|| Failure::host("a regular expression that is not there"))
}

/// The failure of a run in which matching had no result.
pub fn failed(error: MatchError) -> Failure {
    Failure::host(error.to_string())
}
