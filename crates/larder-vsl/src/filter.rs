//! Which transactions and records of a group are shown: `-b`, `-c`, `-E`, `-i`, `-I`, `-x` and `-X`.

use super::globs::{GlobError, TagSet};
use super::group::{Member, Reason};
use super::pattern::{Compile, Pattern};
use super::record::{Kind, Record, Side};

/// What is shown.
#[derive(Debug, Default)]
pub struct Filter {
    /// `-c`: of clients.
    client: bool,
    /// `-b`: of backends.
    backend: bool,
    /// `-E`: with requests inside of others. It has `-c` in it.
    inner: bool,
    /// Whether one of the four options has come.
    has_begun: bool,
    hidden: TagSet,
    shown_by: Vec<Rule>,
    hidden_by: Vec<Rule>,
}

/// `[TAGS:]EXPRESSION`
#[derive(Debug)]
struct Rule {
    tags: TagSet,
    pattern: Box<dyn Pattern>,
}

/// Why a rule is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Its tags.
    #[error(transparent)]
    Tags(#[from] GlobError),
    /// Its expression.
    #[error("the regular expression \"{0}\" cannot be used: {1}")]
    Pattern(String, String),
}

impl Filter {
    /// All records of the transactions that `-c`, `-b` and `-E` mean.
    pub fn of_sides(client: bool, backend: bool, inner: bool) -> Self {
        Self { client, backend, inner, ..Self::default() }
    }

    /// `-i`: these tags are shown. If it comes first, no others are.
    pub fn include(&mut self, list: &[u8]) -> Result<(), GlobError> {
        let tags = TagSet::of_list(list)?;
        self.hides_all_at_first();
        self.hidden = self.hidden.without(tags);
        Ok(())
    }

    /// `-x`: these tags are hidden. Of `-i` and `-x`, the last one decides.
    pub fn exclude(&mut self, list: &[u8]) -> Result<(), GlobError> {
        self.hidden = self.hidden.and(TagSet::of_list(list)?);
        self.has_begun = true;
        Ok(())
    }

    /// `-I`: records that match are shown, whatever else says. If it comes first, no others are.
    pub fn include_matching(&mut self, rule: &[u8], caseless: bool, compile: Compile<'_>) -> Result<(), RuleError> {
        let rule = Rule::read(rule, caseless, compile)?;
        self.hides_all_at_first();
        self.shown_by.push(rule);
        Ok(())
    }

    /// `-X`: records that match are hidden, unless `-I` shows them.
    pub fn exclude_matching(&mut self, rule: &[u8], caseless: bool, compile: Compile<'_>) -> Result<(), RuleError> {
        self.hidden_by.push(Rule::read(rule, caseless, compile)?);
        self.has_begun = true;
        Ok(())
    }

    fn hides_all_at_first(&mut self) {
        if !self.has_begun {
            self.hidden = TagSet::all();
        }
        self.has_begun = true;
    }

    /// Whether a transaction is shown.
    pub fn shows(&self, member: &Member) -> bool {
        if !self.client && !self.backend {
            return true;
        }
        match member.kind {
            Some(Kind::Request) => self.client && (self.inner || !member.is_inner && member.reason != Reason::Esi),
            Some(Kind::BeReq) => self.backend,
            Some(Kind::Raw) => true,
            Some(Kind::Session) | None => false,
        }
    }

    /// Whether a record of a transaction is shown.
    pub fn takes(&self, record: Record<'_>, side: Side) -> bool {
        let is_of_side = match side {
            Side::Client => self.client || !self.backend,
            Side::Backend => self.backend || !self.client,
            Side::None => !self.client && !self.backend || self.client && self.backend,
        };
        let is_in = |rules: &[Rule]| rules.iter().any(|rule| rule.takes(record));
        is_of_side && (is_in(&self.shown_by) || !is_in(&self.hidden_by) && !self.hidden.has(record.tag))
    }
}

impl Rule {
    /// The tags end at the first colon.
    fn read(rule: &[u8], caseless: bool, compile: Compile<'_>) -> Result<Self, RuleError> {
        let (tags, source) = match rule.iter().position(|byte| *byte == b':') {
            Some(colon) => (TagSet::of_list(&rule[..colon])?, &rule[colon + 1..]),
            None => (TagSet::all(), rule),
        };
        let wrong = |why: String| RuleError::Pattern(String::from_utf8_lossy(source).into_owned(), why);
        let text = str::from_utf8(source).map_err(|_| wrong("it is not UTF-8: write \\xff for a byte".to_owned()))?;
        Ok(Self { tags, pattern: compile(text, caseless).map_err(wrong)? })
    }

    fn takes(&self, record: Record<'_>) -> bool {
        self.tags.has(record.tag) && self.pattern.is_match(record.text) == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tag;
    use crate::pattern::plain;

    fn filter(line: &str) -> Result<Filter, String> {
        let mut filter = Filter::default();
        let words: Vec<&str> = line.split_whitespace().collect();
        for pair in words.chunks(2) {
            let (option, value) = (pair[0], pair.get(1).map_or(&b""[..], |value| value.as_bytes()));
            let compile = &plain::compile;
            let wrong = |error: GlobError| error.to_string();
            let wrong_rule = |error: RuleError| error.to_string();
            match option {
                "-i" => filter.include(value).map_err(wrong)?,
                "-x" => filter.exclude(value).map_err(wrong)?,
                "-I" => filter.include_matching(value, false, compile).map_err(wrong_rule)?,
                _ => filter.exclude_matching(value, false, compile).map_err(wrong_rule)?,
            }
        }
        Ok(filter)
    }

    #[test]
    fn the_order_of_options_decides_about_a_record() {
        let record = |tag, text: &'static str| Record { tag, text: text.as_bytes() };
        let url = record(Tag::ReqUrl, "/a");
        let header = record(Tag::ReqHeader, "Cookie: a");
        let status = record(Tag::RespStatus, "200");
        for (line, expected) in [
            ("", [true, true, true]),
            ("-i ReqURL", [true, false, false]),
            ("-i ReqURL,RespStatus", [true, false, true]),
            ("-i ReqURL -i RespStatus", [true, false, true]),
            ("-x ReqURL", [false, true, true]),
            // One that comes later only adds and takes away.
            ("-x ReqURL -i RespStatus", [false, true, true]),
            ("-x Req* -i ReqURL", [true, false, true]),
            ("-i Req* -x ReqHeader", [true, false, false]),
            ("-x ReqHeader -i Req*", [true, true, true]),
            ("-I ReqHeader:^Cookie", [false, true, false]),
            ("-I /", [true, false, false]),
            ("-I ReqURL:^x -i RespStatus", [false, false, true]),
            ("-X ReqHeader:^Cookie", [true, false, true]),
            ("-X a", [false, false, true]),
            ("-X a -I ^Cookie", [false, true, true]),
            ("-x * -I ^Cookie", [false, true, false]),
            ("-i ReqURL -X ^/a", [false, false, false]),
            ("-I endless", [false, false, false]),
            ("-X endless", [true, true, true]),
        ] {
            let filter = filter(line).unwrap();
            assert_eq!([url, header, status].map(|record| filter.takes(record, Side::Client)), expected, "{line}");
        }
    }

    #[test]
    fn what_is_no_rule_is_told() {
        for (line, expected) in [
            ("-i Bogus", "no tag is called \"Bogus\""),
            ("-x ReqU", "\"ReqU\" may be ReqURL or ReqUnset"),
            ("-I Bogus:a", "no tag is called \"Bogus\""),
            ("-X :a", "no tag is called \"\""),
            ("-I ReqURL:(", "the regular expression \"(\" cannot be used: missing closing parenthesis"),
        ] {
            let error = filter(line).unwrap_err();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
    }

    #[test]
    fn sides_are_chosen_by_b_c_and_e() {
        let member = |kind, reason| Member::nothing(kind, reason);
        let members = [
            member(Some(Kind::Session), Reason::Http1),
            member(Some(Kind::Request), Reason::RxReq),
            member(Some(Kind::Request), Reason::Esi),
            member(Some(Kind::BeReq), Reason::Fetch),
            member(None, Reason::Unknown),
            member(Some(Kind::Raw), Reason::Unknown),
        ];
        let record = Record { tag: Tag::End, text: b"" };
        for (letters, shown, taken) in [
            ("", [true, true, true, true, true, true], [true, true, true]),
            ("c", [false, true, false, false, false, true], [true, false, false]),
            ("b", [false, false, false, true, false, true], [false, true, false]),
            ("bc", [false, true, false, true, false, true], [true, true, true]),
            ("cE", [false, true, true, false, false, true], [true, false, false]),
        ] {
            let has = |letter| letters.contains(letter);
            let filter = Filter::of_sides(has('c'), has('b'), has('E'));
            assert_eq!(members.each_ref().map(|member| filter.shows(member)), shown, "-{letters}");
            let sides = [Side::Client, Side::Backend, Side::None];
            assert_eq!(sides.map(|side| filter.takes(record, side)), taken, "-{letters}");
        }
    }
}
