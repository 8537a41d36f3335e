//! What a ban says, as a condition that pages are tested by.

use std::sync::Arc;
use std::time::Duration;

use larder_cache::{Asking, Condition, Object, Pattern, Purge, Unread, Zone};

pub use larder_cache::Listed;
use larder_http::{Fields, Known, Time};
use larder_store::DiskState;
use larder_vcl::bans::{Ban, BanError, Field, Operand, Operator, Test, line_of};
use larder_vcl::parameters::MATCH_LIMIT;
use tokio::time::{Instant, timeout_at};

use crate::regex::Regex;
use crate::vsl::Plain;

/// Why a text is no ban.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Its words are wrong.
    #[error(transparent)]
    Words(#[from] BanError),
    /// A regular expression is wrong.
    #[error("Regex compile error: {0}")]
    Regex(String),
}

/// A ban with its regular expressions.
struct Compiled {
    text: String,
    /// As [`line_of`] writes them, for disks.
    words: String,
    bytes: usize,
    is_timeless: bool,
    asks_request: bool,
    tests: Vec<(Test, Option<Regex>)>,
}

/// The condition that a text says, as `ban()` takes it.
pub fn of_text(text: &str) -> Result<Arc<dyn Condition<Object>>, Refused> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    of_words(&words)
}

/// The condition that the words of the command `ban` say.
pub fn of_words<W: AsRef<str>>(words: &[W]) -> Result<Arc<dyn Condition<Object>>, Refused> {
    compile(Ban::of_words(words)?, line_of(words))
}

/// The condition that a disk has kept: a ban, or a purge. What cannot be read any more holds for all pages.
pub fn of_disk(line: &str) -> Arc<dyn Condition<Object>> {
    if let Some(purge) = Purge::of_disk(line, |regex| pattern(regex).ok()) {
        return purge;
    }
    let read = || compile(Ban::of_line(line)?, line.to_owned());
    read().unwrap_or_else(|_| Arc::new(Unread(line.to_owned())))
}

/// A regular expression on the URIs of pages, for purges. It runs as long as those of bans at most; beyond that nobody can
/// tell whether it is found.
pub fn pattern(text: &str) -> Result<Arc<dyn Pattern>, Refused> {
    let regex = Regex::limited(text, false, MATCH_LIMIT).map_err(Refused::Regex)?;
    Ok(Arc::new(UriPattern { text: text.to_owned(), regex }))
}

/// A regular expression and its text.
struct UriPattern {
    text: String,
    regex: Regex,
}

impl Pattern for UriPattern {
    fn text(&self) -> &str {
        &self.text
    }

    fn is_in(&self, text: &[u8]) -> Option<bool> {
        self.regex.is_match(text).ok()
    }

    fn bytes(&self) -> usize {
        TEST_BYTES + regex_bytes(&self.text)
    }
}

/// What a disk has kept, as operators see it.
pub fn shown(line: &str) -> String {
    let text = Ban::of_line(line).map_or_else(|_| line.to_owned(), |ban| ban.to_string());
    Plain(&text).to_string()
}

/// A ban holds, and a restart may forget it.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// A disk cannot note it.
    #[error("The ban holds, but is not on disk yet: {0}")]
    Disk(#[from] larder_cache::NotKept),
    /// A disk has not said yet that it has.
    #[error("The ban holds, but is not on disk yet: the disk of {0} has not noted it within {PATIENCE:?}")]
    Late(String),
}

/// Why a command bans nothing, or not for good.
#[derive(Debug, thiserror::Error)]
pub enum BanFault {
    /// It is no ban.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// It holds, and a restart may forget it.
    #[error(transparent)]
    NotKept(#[from] NotKept),
}

/// Waits until the disks of these zones have noted their bans, but not long.
pub async fn kept(zones: &[Arc<Zone>]) -> Result<(), NotKept> {
    let until = Instant::now() + PATIENCE;
    // Asked for before the first is waited for.
    let all: Vec<_> = zones.iter().map(|zone| (zone, zone.bans_kept())).collect();
    for (zone, kept) in all {
        timeout_at(until, kept).await.map_err(|_| late(zone))??;
    }
    Ok(())
}

/// Waits until the disks of a zone have noted all bans and removals so far, on a thread that may wait. False if one has not.
pub fn all_kept_blocking(zone: &Zone) -> bool {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else { return false };
    let kept = zone.purges_kept();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, kept).await.unwrap_or(false) })
}

fn late(zone: &Zone) -> NotKept {
    let shelves = zone.shelves();
    match shelves.iter().find(|shelf| shelf.state() == DiskState::Waiting) {
        Some(shelf) => larder_cache::NotKept::InUse(shelf.dir().to_owned()).into(),
        None => NotKept::Late(zone.name().to_owned()),
    }
}

/// How long whoever bans waits for disks.
const PATIENCE: Duration = Duration::from_secs(5);

fn compile(ban: Ban, words: String) -> Result<Arc<dyn Condition<Object>>, Refused> {
    let (text, is_timeless, asks_request) = (ban.to_string(), !ban.counts_from_its_time(), ban.asks_request());
    let bytes = text.len() + words.len() + ban.tests.iter().map(bytes_of).sum::<usize>();
    let with_regex = |test: Test| {
        let regex = match &test.operand {
            Operand::Text(pattern) if test.operator.is_regex() => {
                let is_caseless = test.field == Field::PageHost;
                Some(Regex::limited(pattern, is_caseless, MATCH_LIMIT).map_err(Refused::Regex)?)
            }
            Operand::Text(_) | Operand::Seconds(_) => None,
        };
        Ok((test, regex))
    };
    let tests = ban.tests.into_iter().map(with_regex).collect::<Result<_, Refused>>()?;
    Ok(Arc::new(Compiled { text, words, bytes, is_timeless, asks_request, tests }))
}

/// About how much memory a test takes. A regular expression may take a thousand times its text.
fn bytes_of(test: &Test) -> usize {
    let Operand::Text(pattern) = &test.operand else { return TEST_BYTES };
    if !test.operator.is_regex() {
        return TEST_BYTES + pattern.len();
    }
    TEST_BYTES + regex_bytes(pattern)
}

fn regex_bytes(pattern: &str) -> usize {
    let count = |byte| pattern.bytes().filter(|found| *found == byte).count();
    let compiled = pattern.len() * LETTER_BYTES + count(b'(') * GROUP_BYTES + count(b'{') * REPEAT_BYTES;
    compiled.min(REGEX_BYTES_MAX)
}

/// What a test takes with a short regular expression, compiled for x86-64 by PCRE2 10.42; what each byte of a long one
/// adds, each group, and each repeat by number, which may copy a group hundreds of times. Then the most: 64 KB of PCRE2's
/// own code, with ten times as much of machine code.
const TEST_BYTES: usize = 1024;
const LETTER_BYTES: usize = 8;
const GROUP_BYTES: usize = 256;
const REPEAT_BYTES: usize = 16 << 10;
const REGEX_BYTES_MAX: usize = 704 << 10;

impl Condition<Object> for Compiled {
    fn text(&self) -> &str {
        &self.text
    }

    fn words(&self) -> &str {
        &self.words
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn is_timeless(&self) -> bool {
        self.is_timeless
    }

    fn asks_request(&self) -> bool {
        self.asks_request
    }

    fn holds(&self, page: &Object, request: &Asking<'_>, made_at: Time) -> bool {
        self.tests.iter().all(|(test, regex)| match (&test.operand, &test.field) {
            (Operand::Seconds(limit), _) => compare_time(test, *limit, page, made_at.secs_f64()),
            (Operand::Text(text), Field::ObjLines(name)) => {
                compare_lines(test.operator, text, regex.as_ref(), page.fields.get_all(name))
            }
            (Operand::Text(text), Field::PageHost) => page.with_place(|place| {
                let text = text.to_ascii_lowercase();
                let compare =
                    |host: &[u8]| compare_text(test.operator, &text, regex.as_ref(), Some(&host.to_ascii_lowercase()));
                place.is_none_or(|place| place.host().is_none_or(compare))
            }),
            (Operand::Text(text), Field::PageUrl) => page.with_place(|place| {
                let compare = |uri: &[u8]| compare_text(test.operator, text, regex.as_ref(), Some(uri));
                place.is_none_or(|place| place.any_uri(compare))
            }),
            (Operand::Text(text), field) => {
                compare_text(test.operator, text, regex.as_ref(), subject(field, page, request).as_deref())
            }
        })
    }
}

/// The text that a test looks at; `None` if it is not there.
fn subject<'a>(field: &Field, page: &'a Object, request: &Asking<'a>) -> Option<std::borrow::Cow<'a, [u8]>> {
    Some(match field {
        Field::ReqUrl => request.url.into(),
        Field::ReqHttp(name) => request.fields.get(name)?.into(),
        Field::ObjHttp(name) => page.fields.get(name)?.into(),
        Field::ObjStatus => page.status.to_string().into_bytes().into(),
        Field::PageHost
        | Field::PageUrl
        | Field::ObjTtl
        | Field::ObjAge
        | Field::ObjGrace
        | Field::ObjKeep
        | Field::ObjLastHit
        | Field::ObjLines(_) => return None,
    })
}

/// Whether one of the lines is or matches the operand; with `!=` and `!~`, whether none does. A field without lines is as one
/// that is not there.
fn compare_lines<'a>(
    operator: Operator,
    operand: &str,
    regex: Option<&Regex>,
    lines: impl Iterator<Item = &'a [u8]>,
) -> bool {
    let mut lines = lines.peekable();
    if lines.peek().is_none() {
        return compare_text(operator, operand, regex, None);
    }
    let compare = |line| compare_text(operator, operand, regex, Some(line));
    match operator {
        Operator::NotEqual | Operator::MatchesNot => lines.all(compare),
        Operator::Equal
        | Operator::Matches
        | Operator::Above
        | Operator::AtLeast
        | Operator::Below
        | Operator::AtMost => lines.any(compare),
    }
}

/// What is not there differs from everything, and matches nothing, nor does it match nothing. A regular expression that
/// cannot be evaluated holds, so that no page stays that may be meant.
fn compare_text(operator: Operator, operand: &str, regex: Option<&Regex>, subject: Option<&[u8]>) -> bool {
    let Some(subject) = subject else { return operator == Operator::NotEqual };
    let matches = || regex.map(|regex| regex.is_match(subject));
    match operator {
        Operator::Equal => subject == operand.as_bytes(),
        Operator::NotEqual => subject != operand.as_bytes(),
        Operator::Matches => matches().is_none_or(|found| found.unwrap_or(true)),
        Operator::MatchesNot => matches().is_none_or(|found| !found.unwrap_or(false)),
        Operator::Above | Operator::AtLeast | Operator::Below | Operator::AtMost => false,
    }
}

/// Compares a time of a page with a limit in seconds. What changes as time passes is that of when the ban was made.
fn compare_time(test: &Test, limit: f64, page: &Object, made_at: f64) -> bool {
    let found = match &test.field {
        Field::ObjTtl => page.fresh_until.secs_f64() - made_at,
        Field::ObjAge => made_at - origin(page),
        Field::ObjGrace => page.stale_while_revalidate.as_secs_f64(),
        Field::ObjKeep => page.stale_if_error.saturating_sub(page.stale_while_revalidate).as_secs_f64(),
        Field::ObjLastHit => match page.hit_at() {
            Some(hit_at) => made_at - hit_at.secs_f64(),
            None => return page.may_have_been_hit(),
        },
        Field::ReqUrl
        | Field::ReqHttp(_)
        | Field::PageHost
        | Field::PageUrl
        | Field::ObjStatus
        | Field::ObjHttp(_)
        | Field::ObjLines(_) => return false,
    };
    match test.operator {
        Operator::Equal => found == limit,
        Operator::NotEqual => found != limit,
        Operator::Above => found > limit,
        Operator::AtLeast => found >= limit,
        Operator::Below => found < limit,
        Operator::AtMost => found <= limit,
        Operator::Matches | Operator::MatchesNot => false,
    }
}

/// When the origin made a page, in seconds since 1970: with the `Age` that it came with.
pub fn origin(page: &Object) -> f64 {
    page.stored_at.secs_f64() - came_with_age(&page.fields)
}

fn came_with_age(fields: &Fields) -> f64 {
    let age = fields.get_known(Known::Age).and_then(|age| std::str::from_utf8(age).ok()?.parse::<f64>().ok());
    age.filter(|age| *age >= 0.0).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use larder_cache::{Effect, Hold, How, Selection, UriTest, Url, VaryKey, ZoneLimits};

    use super::*;

    /// Stored at 1000, made 100 seconds before, fresh until 1500.
    fn page() -> Object {
        let zone = Zone::new("pages", ZoneLimits { bytes_max: 1 << 20, inactive: Duration::from_secs(9) });
        let (writer, body) = zone.body(b"a", Some(0), None);
        writer.finish();
        let mut fields = Fields::new();
        for (name, value) in [("Age", "100"), ("X-Tags", "a,b"), ("Empty", ""), ("X-Tags", "c")] {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        Object {
            status: 404,
            reason: Box::default(),
            fields,
            body,
            stored_at: Time(1_000_000),
            fresh_until: Time(1_500_000),
            stale_while_revalidate: Duration::from_secs(10),
            stale_if_error: Duration::from_secs(70),
            last_modified: None,
            etag: None,
            vary: VaryKey::none(),
            cost_micros: 0,
            prepared: Default::default(),
            hold: Hold::default(),
        }
    }

    #[test]
    fn a_page_is_banned_if_all_tests_hold() {
        let (page, mut fields) = (page(), Fields::new());
        fields.push(b"Host", b"a.example");
        let request = Asking { url: b"/news?a=1", fields: &fields };
        for (text, expected) in [
            ("req.url ~ ^/news", true),
            ("req.url == /news", false),
            ("req.url !~ ^/old", true),
            ("req.url !~ ^/news", false),
            ("req.http.host == a.example", true),
            ("req.http.HOST != a.example", false),
            ("req.http.none ~ .", false),
            ("req.http.none !~ .", false),
            ("req.http.none == a", false),
            ("req.http.none != a", true),
            ("obj.http.empty != a", true),
            ("obj.http.empty !~ .", true),
            ("obj.http.x-tags ~ (^|,)b(,|$)", true),
            // Of several lines the first alone, as in Varnish.
            ("obj.http.x-tags ~ (^|,)c(,|$)", false),
            ("obj.lines.x-tags ~ (^|,)b(,|$)", true),
            ("obj.lines.x-tags ~ (^|,)c(,|$)", true),
            ("obj.lines.x-tags ~ (^|,)d(,|$)", false),
            ("obj.lines.x-tags !~ c", false),
            ("obj.lines.x-tags !~ d", true),
            ("obj.lines.x-tags == c", true),
            ("obj.lines.x-tags != c", false),
            ("obj.lines.none ~ .", false),
            ("obj.lines.none != c", true),
            ("obj.status == 404", true),
            ("obj.status ~ ^4", true),
            ("obj.status != 404", false),
            // It was made at 900, and the ban at 1200.
            ("obj.age > 5m", false),
            ("obj.age >= 5m", true),
            ("obj.age < 301s", true),
            ("obj.ttl == 300s", true),
            ("obj.ttl <= 299s", false),
            ("obj.grace == 10s", true),
            ("obj.keep == 1m", true),
            ("obj.keep != 1m", false),
            ("obj.last_hit > 0s", false),
            ("req.url ~ news && obj.status == 404", true),
            ("req.url ~ news && obj.status == 200", false),
        ] {
            let ban = of_text(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(ban.holds(&page, &request, Time(1_200_000)), expected, "{text}");
        }
        page.count_hit(Time(1_100_000));
        for (text, expected) in [("obj.last_hit > 99s", true), ("obj.last_hit > 100s", false)] {
            let ban = of_text(text).expect("it is a ban");
            assert_eq!(ban.holds(&page, &request, Time(1_200_000)), expected, "{text}");
        }
    }

    /// Whoever asks: a request of another spelling has the same page.
    #[test]
    fn a_page_is_banned_by_where_it_is() {
        let (page, fields) = (page(), Fields::new());
        let request = Asking { url: b"/other", fields: &fields };
        let at = |host: &'static [u8], uri| Object {
            hold: Hold::default().at(Url { is_https: true, host, uri }),
            ..self::page()
        };
        let (usual, odd, shared) = (at(b"a.example", b"/news"), at(b"a.example", b"/%6eews"), at(b"", b"//news"));
        for (text, expected) in [
            ("page.host == a.example", [true; 4]),
            ("page.host == A.Example", [true; 4]),
            ("page.host ~ ^A[.]example$", [true; 4]),
            ("page.host ~ ^b", [false, false, true, true]),
            ("page.host != a.example", [false, false, true, true]),
            ("page.host != b.example", [true; 4]),
            ("page.host !~ a", [false, false, true, true]),
            ("page.url == /news", [true; 4]),
            ("page.url ~ ^/news$", [true; 4]),
            ("page.url ~ ^/old", [false, false, false, true]),
            ("page.url !~ ^/old", [true; 4]),
            ("page.url !~ ^/news", [false, true, true, true]),
            ("page.host ~ example && page.url ~ ^/old", [false, false, false, true]),
        ] {
            let ban = of_text(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let holds = [&usual, &odd, &shared, &page].map(|page| ban.holds(page, &request, Time(1_200_000)));
            assert_eq!((holds, ban.asks_request()), (expected, false), "{text}");
        }
    }

    #[test]
    fn when_a_page_from_a_disk_was_delivered_last_is_not_known_so_that_it_may_be_meant() {
        let ban = of_text("obj.last_hit > 1d").expect("it is a ban");
        let fields = Fields::new();
        let holds = |page: &Object| ban.holds(page, &Asking { url: b"/", fields: &fields }, Time(1_200_000));
        let read = larder_cache::object_of_head(&larder_cache::fuzzing::head_of_object(&page())).expect("it is a head");
        assert!(!holds(&page()) && holds(&read));
        read.count_hit(Time(1_100_000));
        assert!(!holds(&read));
    }

    #[test]
    fn what_a_disk_has_kept_means_the_same_pages() {
        let (page, fields) = (page(), Fields::new());
        let request = Asking { url: b"/a b", fields: &fields };
        for (words, expected) in [
            (&["req.url", "~", r"^/a\sb$"], true),
            (&["req.url", "==", "/a b"], true),
            (&["req.url", "==", "/a"], false),
            (&["obj.http.empty", "==", ""], true),
            (&["obj.age", ">", "299.9995s"], true),
        ] {
            let made = of_words(words).expect("it is a ban");
            let read = of_disk(made.words());
            assert_eq!((read.words(), read.text()), (made.words(), made.text()));
            assert_eq!(
                [&made, &read].map(|ban| ban.holds(&page, &request, Time(1_200_000))),
                [expected; 2],
                "{words:?}"
            );
        }
        for line in ["obj.http.x ~ (", "obj.later == 1", r"obj.http.x ~ \q", ""] {
            assert!(of_disk(line).holds(&page, &request, Time(1_200_000)), "{line}");
        }
    }

    #[test]
    fn what_regular_expressions_take_is_counted() {
        let many = vec!["obj.status ~ 1"; 3000].join(" && ");
        let repeats = format!("req.url ~ {}", "a{1,9}".repeat(1000));
        let nested = format!("req.url ~ {}a{}", "(".repeat(200), ")*".repeat(200));
        for (text, least, most) in [
            ("req.url == /news", 1000, 1200),
            ("obj.http.x-tags ~ (^|,)sport(,|$)", 1500, 2000),
            (many.as_str(), 3_000_000, 4_000_000),
            (nested.as_str(), 50_000, 100_000),
            ("req.url ~ (?:(?:a{1,100}){1,100})", 25_000, 50_000),
            (repeats.as_str(), 700_000, 800_000),
        ] {
            let bytes = of_text(text).expect("it is a ban").bytes();
            assert!((least..most).contains(&bytes), "{bytes}: {}", &text[..20.min(text.len())]);
        }
    }

    #[test]
    fn a_purge_that_a_disk_has_kept_means_the_same_pages_and_is_shown_as_it_is_kept() {
        let (page, fields) = (page(), Fields::new());
        let url = Url { is_https: true, host: b"a.example", uri: b"/news?a=1" };
        let page = Object { hold: Hold::default().at(url), ..page };
        let holds =
            |ban: &Arc<dyn Condition<Object>>| ban.holds(&page, &Asking { url: b"", fields: &fields }, Time(1_200_000));
        let of_uri = |regex| Selection::Url { host: None, uri: UriTest::Matches(pattern(regex).expect("it is one")) };
        for (selection, expected) in [
            (of_uri("^/news"), true),
            (of_uri("^/old"), false),
            (of_uri(r"a=\d$"), true),
            (Selection::Host((*b"A.example").into()), true),
            (Selection::Host((*b"b.example").into()), false),
        ] {
            let zone = Zone::new("pages", ZoneLimits { bytes_max: 1 << 20, inactive: Duration::from_secs(9) });
            zone.purge_selected(selection, How::Soft, Time(1_200_000)).expect("it is short");
            let words = &zone.bans()[0].text;
            let read = of_disk(words);
            assert_eq!([read.words(), read.text(), &shown(words)], [words; 3]);
            assert_eq!((holds(&read), read.effect()), (expected, Effect::EndFreshness), "{words}");
        }
        assert!(matches!(pattern("("), Err(Refused::Regex(_))));
        assert!(holds(&of_disk("purge soft url * ~ (")), "what cannot be read holds");
        let endless = [&b"/"[..], &[b'a'; 60_000], b"!"].concat();
        assert_eq!(pattern("^/(a+)+$").expect("it is one").is_in(&endless), None);
    }

    #[test]
    fn what_cannot_be_evaluated_holds() {
        let (page, fields) = (page(), Fields::new());
        let url = [&b"/"[..], &[b'a'; 60_000], b"!"].concat();
        let request = Asking { url: &url, fields: &fields };
        for text in ["req.url ~ ^/(a+)+$", "req.url !~ ^/(a+)+$"] {
            assert!(of_text(text).expect("it is a ban").holds(&page, &request, Time(1_200_000)), "{text}");
        }
        assert!(matches!(of_text("req.url ~ ("), Err(Refused::Regex(_))));
        assert!(matches!(of_text("req.url"), Err(Refused::Words(_))));
    }
}
