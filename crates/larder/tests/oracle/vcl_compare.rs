//! What is made equal in the answers of a varnishd before they are compared, and nothing else:
//!
//! - `Date`, if it was made for this answer. One that the origin sent is compared as it is, and so are all other dates.
//! - `Age` and `Expires`: three seconds more or less are the same, because one of the two plays after the other.
//! - `X-Varnish`: only how many numbers there are counts.
//! - The server's own member of `Via`: who it is and its version. In what origins see it is left out, because Varnish
//!   adds it to requests only since 7.2; a case about `Via` copies it into another field.
//! - `Server` of pages that are not an origin's.
//! - In those pages, the number of the request, the name of the server, and the headline above them.

use crate::date;

/// A `Date` this near to now was made for this answer.
const NOW_SECS: i64 = 30;
/// How far two ages, or two ends of freshness, may be apart.
const APART_SECS: u64 = 3;

/// The value of a response's field.
pub fn response_field(name: &str, value: &str) -> String {
    match name.to_ascii_lowercase().as_str() {
        "date" if date::parse(value).is_some_and(|then| (then - date::now()).abs() < NOW_SECS) => "now".to_owned(),
        "x-varnish" => numbers(value),
        "via" => members(value).join(", "),
        "server" if value == "Varnish" || value == "larder" => "a server".to_owned(),
        _ => value.to_owned(),
    }
}

/// A field that an origin saw; `None` leaves it out.
pub fn request_field(name: &str, value: &str) -> Option<String> {
    match name.to_ascii_lowercase().as_str() {
        "x-varnish" => Some(numbers(value)),
        "via" => {
            let foreign: Vec<String> = members(value).into_iter().filter(|member| member != "ours").collect();
            (!foreign.is_empty()).then(|| foreign.join(", "))
        }
        _ => Some(value.to_owned()),
    }
}

/// The page of the builtin VCL without what each server has of its own.
pub fn page(body: &str) -> String {
    if !body.contains("<p>XID: ") {
        return body.to_owned();
    }
    let lines = body.split('\n').filter(|line| line.trim() != "<h3>Guru Meditation:</h3>");
    let lines = lines.map(|line| match line.trim() {
        own if own.starts_with("<p>XID: ") => "    <p>XID</p>",
        "<p>Varnish cache server</p>" | "<p>larder</p>" => "    <p>a server</p>",
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Makes our age, and our end of freshness, theirs if the two are as good as the same.
pub fn level_times(theirs: &[String], ours: &mut [String]) {
    let age = |line: &str| line.strip_prefix("Age: ").and_then(|age| age.parse::<i64>().ok());
    let end = |line: &str| line.strip_prefix("Expires: ").and_then(date::parse);
    for seconds in [&age as &dyn Fn(&str) -> Option<i64>, &end] {
        let Some((line, their_time)) = theirs.iter().find_map(|line| Some((line, seconds(line)?))) else { continue };
        for our_line in ours.iter_mut() {
            if seconds(our_line).is_some_and(|our_time| our_time.abs_diff(their_time) <= APART_SECS) {
                our_line.clone_from(line);
            }
        }
    }
}

fn numbers(value: &str) -> String {
    let words = value.split(' ').map(|word| if word.parse::<u64>().is_ok() { "N" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

/// The members of a `Via`, the server's own as `ours`.
fn members(value: &str) -> Vec<String> {
    let is_own = |member: &str| member.contains("(Varnish/") || member.contains("(larder/");
    value.split(", ").map(|member| if is_own(member) { "ours".to_owned() } else { member.to_owned() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_servers_have_of_their_own_is_made_equal() {
        for (name, value, want) in [
            ("X-Varnish", "32770 5", "N N"),
            ("Via", "1.0 fred, 1.1 varnish (Varnish/7.1)", "1.0 fred, ours"),
            ("Date", "Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("Server", "Apache", "Apache"),
        ] {
            assert_eq!(response_field(name, value), want);
        }
        assert_eq!(request_field("via", "1.1 oracle (larder/0.1.0)"), None);
        assert_eq!(request_field("via", "1.0 fred, 1.1 a (Varnish/7.1)").as_deref(), Some("1.0 fred"));
        assert_eq!(page("<p>other</p>"), "<p>other</p>");
        let theirs = page("<h3>Guru Meditation:</h3>\n<p>XID: 3</p>\n<p>Varnish cache server</p>");
        assert_eq!(theirs, page("<p>XID: 1001</p>\n<p>larder</p>"));
    }

    #[test]
    fn times_may_be_a_little_apart() {
        let mut ours = ["Age: 61".to_owned(), "ETag: 1".to_owned()];
        level_times(&["Age: 60".to_owned()], &mut ours);
        assert_eq!(ours, ["Age: 60", "ETag: 1"]);
        level_times(&["Age: 0".to_owned()], &mut ours);
        assert_eq!(ours[0], "Age: 60");
        let expires = |minute: &str| format!("Expires: Sun, 06 Nov 1994 08:{minute} GMT");
        for (theirs, levelled) in [("49:38", "49:38"), ("49:41", "49:37")] {
            let mut ours = [expires("49:37")];
            level_times(&[expires(theirs)], &mut ours);
            assert_eq!(ours[0], expires(levelled));
        }
    }
}
