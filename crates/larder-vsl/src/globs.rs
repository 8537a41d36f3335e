//! Lists of tags, as `-i` and queries have them: `ReqURL`, `Req*,*Error`.

use super::tag::{ALL, Tag};

/// Tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagSet(u128);

// A bit for each.
const _: () = assert!(ALL.len() <= u128::BITS as usize);

/// Why a list of tags means none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    /// There is no such tag.
    #[error("no tag is called \"{0}\": docs/monitoring.md lists them, and \"*\" means each")]
    None(String),
    /// The beginning of several.
    #[error("\"{0}\" may be {1}: write more of it, or \"{0}*\" for all of them")]
    Several(String, String),
    /// More than one asterisk.
    #[error("\"{0}\" has more than one \"*\": one may stand in front, behind, or between")]
    Stars(String),
}

impl TagSet {
    /// All tags.
    pub fn all() -> Self {
        ALL.iter().fold(Self::default(), |set, tag| set.with(*tag))
    }

    /// The tags of a list: names and globs with commas between them.
    pub fn of_list(list: &[u8]) -> Result<Self, GlobError> {
        let mut set = Self::default();
        for glob in list.split(|byte| *byte == b',').filter(|glob| !glob.is_empty()) {
            set = set.and(Self::of_glob(glob)?);
        }
        if set == Self::default() { Err(GlobError::None(shown(list))) } else { Ok(set) }
    }

    /// The tags that a name or glob means. A beginning that only one name has is enough; case does not count.
    pub fn of_glob(glob: &[u8]) -> Result<Self, GlobError> {
        let Some(star) = glob.iter().position(|byte| *byte == b'*') else {
            return Ok(Self::default().with(of_beginning(glob)?));
        };
        let (front, back) = (&glob[..star], &glob[star + 1..]);
        if back.contains(&b'*') {
            return Err(GlobError::Stars(shown(glob)));
        }
        let matching = ALL.iter().filter(|tag| {
            let name = tag.name().as_bytes();
            name.len() >= front.len() + back.len()
                && name[..front.len()].eq_ignore_ascii_case(front)
                && name[name.len() - back.len()..].eq_ignore_ascii_case(back)
        });
        let set = matching.fold(Self::default(), |set, tag| set.with(*tag));
        if set == Self::default() { Err(GlobError::None(shown(glob))) } else { Ok(set) }
    }

    /// These and one more.
    pub fn with(self, tag: Tag) -> Self {
        Self(self.0 | bit(tag))
    }

    /// These and those.
    pub fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These without those.
    pub fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    /// Whether it is among them.
    pub fn has(self, tag: Tag) -> bool {
        self.0 & bit(tag) != 0
    }
}

fn bit(tag: Tag) -> u128 {
    1 << tag.code()
}

/// The tag of this name, or the only one whose name begins so.
pub fn of_beginning(name: &[u8]) -> Result<Tag, GlobError> {
    let begins = |tag: &&Tag| tag.name().as_bytes().get(..name.len()).is_some_and(|own| own.eq_ignore_ascii_case(name));
    let found: Vec<Tag> = if name.is_empty() { Vec::new() } else { ALL.iter().filter(begins).copied().collect() };
    match found[..] {
        [] => Err(GlobError::None(shown(name))),
        [tag] => Ok(tag),
        [..] => match found.iter().find(|tag| tag.name().len() == name.len()) {
            Some(tag) => Ok(*tag),
            None => Err(GlobError::Several(shown(name), listed(&found))),
        },
    }
}

/// `A, B or C`, and at most so many.
fn listed(tags: &[Tag]) -> String {
    let names: Vec<&str> = tags.iter().take(NAMES_SHOWN).map(|tag| tag.name()).collect();
    let more = if tags.len() > NAMES_SHOWN { " and others" } else { "" };
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() && more.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => format!("{}{more}", names.join(", ")),
    }
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]);
    if bytes.len() > SHOWN_BYTES { format!("{text}...") } else { text.into_owned() }
}

const NAMES_SHOWN: usize = 4;
const SHOWN_BYTES: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[u8]) -> Result<Vec<&'static str>, String> {
        let set = TagSet::of_list(list).map_err(|error| error.to_string())?;
        Ok(ALL.iter().filter(|tag| set.has(**tag)).map(|tag| tag.name()).collect())
    }

    #[test]
    fn lists_name_tags_by_names_beginnings_and_globs() {
        for (list, expected) in [
            ("ReqURL", &["ReqURL"][..]),
            ("requrl", &["ReqURL"]),
            // A name wins over the longer ones that begin so.
            ("Hit", &["Hit"]),
            ("Reqm", &["ReqMethod"]),
            (",Timestamp,,End,", &["End", "Timestamp"]),
            ("*Error", &["Error", "FetchError", "ESI_xmlerror", "VCL_Error", "SessError"]),
            ("Sess*", &["SessOpen", "SessClose", "SessError"]),
            ("b*acct", &["BereqAcct"]),
            ("H2Rx*,hitm", &["H2RxHdr", "H2RxBody", "HitMiss"]),
        ] {
            assert_eq!(names(list.as_bytes()), Ok(expected.to_vec()), "{list}");
        }
        assert_eq!(TagSet::of_list(b"*"), Ok(TagSet::all()));
        assert!(ALL.iter().all(|tag| TagSet::all().has(*tag)));
    }

    #[test]
    fn what_names_none_or_several_is_told() {
        let none =
            |name: &str| format!("no tag is called \"{name}\": docs/monitoring.md lists them, and \"*\" means each");
        let long = "x".repeat(1000);
        for (list, expected) in [
            ("", none("")),
            (",", none(",")),
            ("Bogus", none("Bogus")),
            ("ReqURL,Bogus*", none("Bogus*")),
            ("ReqURLs", none("ReqURLs")),
            (long.as_str(), none(&format!("{}...", "x".repeat(80)))),
            ("ReqU", "\"ReqU\" may be ReqURL or ReqUnset: write more of it, or \"ReqU*\" for all of them".to_owned()),
            (
                "Req",
                "\"Req\" may be ReqMethod, ReqURL, ReqStatus, ReqReason and others: write more of it, or \"Req*\" for \
                 all of them"
                    .to_owned(),
            ),
            ("*e*", "\"*e*\" has more than one \"*\": one may stand in front, behind, or between".to_owned()),
        ] {
            assert_eq!(names(list.as_bytes()), Err(expected), "{list}");
        }
        assert_eq!(names(b"\xff"), Err(none("\u{fffd}")));
    }
}
