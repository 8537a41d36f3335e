//! Where two bodies differ, but for what changes at the old server by itself.
//!
//! A body is words and the bytes between them. What the old server answered otherwise another time are gaps in its body, in
//! which anything may stand; all around them has to be the same at larder.

use std::borrow::Cow;
use std::ops::Range;

use super::answer::BODY_BYTES_MAX;

/// What two bodies come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// They are the same.
    Alike,
    /// They are the same but for what changes by itself.
    Changing,
    /// The line of each at which they differ.
    Differs { old: String, new: String },
}

/// Compares; `others` are what the old server answered to the same at other times.
pub fn compare(old: &[u8], others: &[&[u8]], new: &[u8]) -> Body {
    if old == new || others.contains(&new) || (old.len() >= BODY_BYTES_MAX && new.starts_with(old)) {
        return Body::Alike;
    }
    let (old, new) = (unsigned(old), unsigned(new));
    if old == new {
        return Body::Alike;
    }
    let (old, new) = (Words::of(&old), Words::of(&new));
    let mut gaps: Vec<Range<usize>> =
        others.iter().flat_map(|other| gaps(&old, &Words::of(&unsigned(other)))).collect();
    match first_difference(&old, &joined(&mut gaps), &new) {
        None => Body::Changing,
        Some((at_old, at_new)) => {
            let (at_old, at_new) = (old.start(at_old), new.start(at_new));
            let (at_old, at_new) = behind_line_end(old.body, at_old, new.body, at_new);
            Body::Differs { old: shown(old.body, at_old), new: shown(new.body, at_new) }
        }
    }
}

/// The body without what servers call themselves in the last line of an error page: `<hr><center>nginx/1.22.1</center>`.
fn unsigned(body: &[u8]) -> Cow<'_, [u8]> {
    if body.len() > ERROR_PAGE_BYTES_MAX {
        return body.into();
    }
    let is_signature = |line: &[u8]| {
        let line = line.trim_ascii_end().strip_prefix(b"<hr><center>");
        let name = line.and_then(|rest| rest.strip_suffix(b"</center>"));
        name.is_some_and(|name| name.starts_with(b"nginx") || name.starts_with(b"larder"))
    };
    let lines = body.split(|byte| *byte == b'\n').map(|line| if is_signature(line) { &b""[..] } else { line });
    lines.collect::<Vec<_>>().join(&b'\n').into()
}

/// A body cut into words and single other bytes.
struct Words<'b> {
    body: &'b [u8],
    /// Where each begins; the last is the end of the body.
    starts: Vec<u32>,
}

impl<'b> Words<'b> {
    fn of(body: &'b [u8]) -> Words<'b> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80;
        let mut starts = Vec::new();
        let mut was_letter = false;
        for (at, byte) in (0..).zip(body) {
            let is_letter = is_letter(*byte);
            if !is_letter || !was_letter {
                starts.push(at);
            }
            was_letter = is_letter;
        }
        starts.push(u32::try_from(body.len()).expect("no more than BODY_BYTES_MAX of a body are kept"));
        Words { body, starts }
    }

    fn count(&self) -> usize {
        self.starts.len() - 1
    }

    fn start(&self, at: usize) -> usize {
        self.starts[at.min(self.count())] as usize
    }

    /// Nothing behind the last.
    fn get(&self, at: usize) -> &'b [u8] {
        &self.body[self.start(at)..self.start(at + 1)]
    }

    /// How many are the same from there on, of [`RUN`] at most; one more where both end.
    fn alike(&self, at: usize, other: &Words<'_>, at_other: usize) -> usize {
        (0..RUN).take_while(|step| self.get(at + step) == other.get(at_other + step)).count()
    }
}

/// The words of `a` that are others in `b`.
fn gaps(a: &Words<'_>, b: &Words<'_>) -> Vec<Range<usize>> {
    let mut gaps = Vec::new();
    let (mut at_a, mut at_b) = (0, 0);
    while at_a < a.count() || at_b < b.count() {
        if at_a < a.count() && at_b < b.count() && a.get(at_a) == b.get(at_b) {
            (at_a, at_b) = (at_a + 1, at_b + 1);
            continue;
        }
        let meeting = if gaps.len() < GAPS_MAX { meet(a, at_a, b, at_b) } else { None };
        let Some((more_a, more_b)) = meeting else {
            gaps.push(at_a..a.count());
            break;
        };
        gaps.push(at_a..at_a + more_a);
        (at_a, at_b) = (at_a + more_a, at_b + more_b);
    }
    gaps
}

/// How many words of each have to be passed over until both go on alike: the fewest.
fn meet(a: &Words<'_>, at_a: usize, b: &Words<'_>, at_b: usize) -> Option<(usize, usize)> {
    let (left_a, left_b) = (a.count() - at_a, b.count() - at_b);
    for sum in 1..=GAP_WORDS_MAX.min(left_a + left_b) {
        // As many of each first: mostly a word has taken another's place.
        let mut counts: Vec<usize> = (sum.saturating_sub(left_b)..=sum.min(left_a)).collect();
        counts.sort_by_key(|count| count.abs_diff(sum - count));
        let is_meeting = |count: &usize| a.alike(at_a + count, b, at_b + (sum - count)) == RUN;
        if let Some(count) = counts.into_iter().find(is_meeting) {
            return Some((count, sum - count));
        }
    }
    None
}

/// Gaps in order; those with less than a run between them are one.
fn joined(gaps: &mut [Range<usize>]) -> Vec<Range<usize>> {
    gaps.sort_by_key(|gap| (gap.start, gap.end));
    let mut all: Vec<Range<usize>> = Vec::new();
    for gap in gaps {
        match all.last_mut() {
            Some(last) if gap.start < last.end + RUN => last.end = last.end.max(gap.end),
            _ => all.push(gap.clone()),
        }
    }
    all
}

/// The first words that differ outside of gaps.
fn first_difference(old: &Words<'_>, gaps: &[Range<usize>], new: &Words<'_>) -> Option<(usize, usize)> {
    let (mut at_old, mut at_new) = (0, 0);
    let mut gaps = gaps.iter().peekable();
    loop {
        if let Some(gap) = gaps.next_if(|gap| gap.start == at_old) {
            if gap.end == old.count() {
                return None;
            }
            // Where larder goes on as the old server does behind the gap, or nearly so.
            let alike = |passed: usize| old.alike(gap.end, new, at_new + passed);
            let passed = (0..=GAP_WORDS_MAX.min(new.count() - at_new))
                .max_by_key(|passed| (alike(*passed), usize::MAX - passed));
            let passed = passed.filter(|passed| alike(*passed) > 0).unwrap_or(gap.len());
            (at_old, at_new) = (gap.end, (at_new + passed).min(new.count()));
            continue;
        }
        match (at_old < old.count(), at_new < new.count()) {
            (false, false) => return None,
            (true, true) if old.get(at_old) == new.get(at_new) => (at_old, at_new) = (at_old + 1, at_new + 1),
            _ => return Some((at_old, at_new)),
        }
    }
}

/// Where one body ends and the other goes on with another line, they differ in that line.
fn behind_line_end(old: &[u8], at_old: usize, new: &[u8], at_new: usize) -> (usize, usize) {
    let goes_on = |body: &[u8], at: usize| body.get(at) == Some(&b'\n');
    let is_over = (at_old == old.len() && goes_on(new, at_new)) || (at_new == new.len() && goes_on(old, at_old));
    if is_over { (at_old + 1, at_new + 1) } else { (at_old, at_new) }
}

/// The line of a place, from a little before it on.
fn shown(body: &[u8], at: usize) -> String {
    let before = &body[..at.min(body.len())];
    // One past the end stands for a line that is not there.
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1 + usize::from(at > body.len());
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    if at > body.len() || (at == body.len() && line_start == at) {
        return format!("line {line}: (the end)");
    }
    let begin = line_start.max(at.saturating_sub(BEFORE_BYTES));
    let text = body[begin..].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let mut excerpt = String::new();
    for byte in text.iter().take(EXCERPT_BYTES) {
        match byte {
            b' '..=b'~' => excerpt.push(char::from(*byte)),
            _ => excerpt.extend(byte.escape_ascii().map(char::from)),
        }
    }
    format!("line {line}: {}{excerpt}", if begin > line_start { "..." } else { "" })
}

/// How many words in a row show that two bodies go on alike.
const RUN: usize = 4;
/// How many words are passed over for that.
const GAP_WORDS_MAX: usize = 256;
/// What changes in more places is not looked at behind them.
const GAPS_MAX: usize = 1000;
const ERROR_PAGE_BYTES_MAX: usize = 64 << 10;
/// How much of a line is shown before the place, and in all.
const BEFORE_BYTES: usize = 16;
const EXCERPT_BYTES: usize = 72;

#[cfg(test)]
mod tests {
    use super::*;

    fn told(old: &str, others: &[&str], new: &str) -> String {
        let others: Vec<&[u8]> = others.iter().map(|other| other.as_bytes()).collect();
        match compare(old.as_bytes(), &others, new.as_bytes()) {
            Body::Alike => "alike".to_owned(),
            Body::Changing => "changing".to_owned(),
            Body::Differs { old, new } => format!("{old} / {new}"),
        }
    }

    #[test]
    fn the_line_that_differs_is_shown() {
        for (old, new, expected) in [
            ("a\nb", "a\nb", "alike"),
            ("a\nb", "a\nc", "line 2: b / line 2: c"),
            ("a\nb", "a", "line 2: b / line 2: (the end)"),
            ("a", "a\nb", "line 2: (the end) / line 2: b"),
            ("a", "", "line 1: a / line 1: (the end)"),
            ("a b", "a", "line 1: a b / line 1: a"),
            ("a\nb", "a\n\x1b[2J", "line 2: b / line 2: \\x1b[2J"),
            (
                "<p>many words that are alike</p><b>2 items</b>",
                "<p>many words that are alike</p><b>1 items</b>",
                "line 1: ...are alike</p><b>2 items</b> / line 1: ...are alike</p><b>1 items</b>",
            ),
        ] {
            assert_eq!(told(old, &[], new), expected, "{old} / {new}");
            assert_eq!(told(old, &[old], new), expected, "{old} / {new}");
        }
        let page = |name: &str| format!("<h1>404</h1>\r\n<hr><center>{name}</center>\r\n");
        assert_eq!(told(&page("nginx/1.22.1"), &[], &page("larder/0.1.0")), "alike");
    }

    #[test]
    fn around_what_changes_by_itself_all_is_compared() {
        let lines = |nonce: &str, foot: &str| format!("head\nnonce {nonce}\n{foot}");
        let one_line = |nonce: &str, items: &str| {
            format!(
                "<!doctype html><script nonce=\"{nonce}\">var n='{nonce}',a={{\"cart\":{items}}}</script><p>{items} items</p>"
            )
        };
        for (old, other, new, expected) in [
            (lines("1", "foot"), lines("2", "foot"), lines("3", "foot"), "changing"),
            (lines("1", "foot"), lines("2", "foot"), lines("3", "feet"), "line 3: foot / line 3: feet"),
            (lines("1", "foot"), lines("2", "foot"), lines("2", "foot"), "alike"),
            (lines("a-b", "foot"), lines("c", "foot"), lines("d-e-f", "foot"), "changing"),
            (lines("a\nb", "foot"), lines("c", "foot"), lines("d", "foot"), "changing"),
            (one_line("aB+3/x==", "2"), one_line("Qz81kk==", "2"), one_line("++//9a==", "2"), "changing"),
            (
                one_line("aB+3/x==", "2"),
                one_line("Qz81kk==", "2"),
                one_line("++//9a==", "1"),
                "line 1: .../x==',a={\"cart\":2}</script><p>2 items</p> / line 1: ...9a==',a={\"cart\":1}</script><p>1 items</p>",
            ),
            // Something that is there now and then.
            (
                "<p>a</p><p>b</p>".into(),
                "<p>a</p><i>ad</i><p>b</p>".into(),
                "<p>a</p><i>other ad</i><p>b</p>".into(),
                "changing",
            ),
            (
                "<p>a</p><p>b</p>".into(),
                "<p>a</p><i>ad</i><p>b</p>".into(),
                "<p>a</p><i>ad</i><p>c</p>".into(),
                "line 1: <p>a</p><p>b</p> / line 1: ...</p><i>ad</i><p>c</p>",
            ),
            ("all".into(), "of it".into(), "is another".into(), "changing"),
        ] {
            assert_eq!(told(&old, &[&other], &new), expected, "{old} / {new}");
        }
        // Two answers at other times, each with a change of its own.
        let page = |a: &str, b: &str, c: &str| format!("<p>{a}</p>\n<p class=\"time\">{b}</p>\n<p>{c}</p>");
        let others = [&*page("2", "1", "1"), &*page("1", "2", "1")];
        assert_eq!(told(&page("1", "1", "1"), &others, &page("3", "3", "1")), "changing");
        assert_eq!(told(&page("1", "1", "1"), &others, &page("3", "3", "3")), "line 3: <p>1</p> / line 3: <p>3</p>");
    }

    #[test]
    fn any_bytes_are_compared_within_bounds() {
        let many = |from: u32| (from..from + 20_000).map(|number| format!("<{number}>")).collect::<String>();
        assert_ne!(told(&many(0), &[&many(7)], &many(9)), "alike");
        let noise = |seed: u32| -> Vec<u8> {
            (0..20_000u32).map(|at| (at.wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13) as u8).collect()
        };
        assert_ne!(compare(&noise(1), &[&noise(900_001)], &noise(5_000_001)), Body::Alike);
        for at in 0..40 {
            let mut other = b"<p>a \xff\xfe b</p>\n<p>c</p>\n<i>\n</i>".to_vec();
            let page = other.clone();
            let at = at % other.len();
            other[at] = b'#';
            assert_ne!(compare(&page, &[], &other), Body::Alike);
            assert_eq!(compare(&page, &[&other], &page), Body::Alike);
            compare(&page, &[&other], &other[..at]);
            compare(&other[..at], &[&page], &other);
        }
    }
}
