//! HTTP dates, as far as two answers made at different moments are to be compared.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

/// Seconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Replaces `{DATE}`, `{DATE-60}` and `{DATE+60}` by the date that is so far from `now`.
pub fn fill(text: &str, now: i64) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{DATE") {
        let Some((offset, tail)) = after.split_once('}') else { break };
        result.push_str(before);
        match (offset.is_empty(), offset.parse::<i64>()) {
            (true, _) => result.push_str(&written(now)),
            (false, Ok(seconds)) => result.push_str(&written(now + seconds)),
            (false, Err(_)) => result.push_str(&format!("{{DATE{offset}}}")),
        }
        rest = tail;
    }
    result + rest
}

/// `Sat, 21 Nov 2026 21:25:10 GMT` of seconds since 1970.
fn written(seconds: i64) -> String {
    let (day, clock) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let name =
        |names: &[&str], at: i64| names.get(usize::try_from(at).unwrap_or(0)).map_or("", |name| *name).to_owned();
    // The last first of a month that is not behind the day; a year has 366 days at most.
    let year = (1970..).find(|year| days(year + 1, 1, 1) > day).unwrap_or(1970);
    let month = (1..=12).rev().find(|month| days(year, *month, 1) <= day).unwrap_or(1);
    format!(
        "{}, {:02} {} {year} {:02}:{:02}:{:02} GMT",
        name(&WEEKDAYS, day.rem_euclid(7)),
        day - days(year, month, 1) + 1,
        name(&MONTHS, month - 1),
        clock / 3_600,
        clock / 60 % 60,
        clock % 60,
    )
}

/// Seconds since 1970 of `Sat, 21 Nov 2026 21:25:10 GMT`.
pub fn parse(text: &str) -> Option<i64> {
    let mut words = text.strip_suffix(" GMT")?.split(' ').skip(1);
    let day: i64 = words.next()?.parse().ok()?;
    let name = words.next()?;
    let month = i64::try_from(MONTHS.iter().position(|month| *month == name)?).ok()? + 1;
    let year: i64 = words.next()?.parse().ok()?;
    let mut clock = words.next()?.split(':').map(|number| number.parse::<i64>().ok());
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    Some(days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Days from 1970-01-01 in the Gregorian calendar; years begin in March, so that the leap day comes last.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_since_1970() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Sat, 29 Feb 2020 12:00:01 GMT", Some(1_582_977_601)),
            ("soon", None),
        ] {
            assert_eq!(parse(text), seconds, "{text}");
            assert!(seconds.is_none_or(|seconds| written(seconds) == text), "{text}");
        }
    }

    #[test]
    fn a_date_is_told_by_its_distance() {
        let text = "a {DATE} b {DATE-1} c {DATE+86400} {DATE?}";
        let want =
            "a Thu, 01 Jan 1970 00:00:01 GMT b Thu, 01 Jan 1970 00:00:00 GMT c Fri, 02 Jan 1970 00:00:01 GMT {DATE?}";
        assert_eq!(fill(text, 1), want);
    }
}
