//! HTTP dates (RFC 9110 §5.6.7), read as leniently as nginx reads them.

const DAY_NAMES: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTH_NAMES: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];
const MONTH_DAYS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
const SECS_PER_DAY: u64 = 86_400;

/// The last second that four digits of a year can name, 9999-12-31 23:59:59.
const LAST_SECS: u64 = 253_402_300_799;

/// Reads a date in one of the three forms, into seconds since 1970; earlier dates read as 0.
///
/// The forms are `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` and
/// `Sun Nov  6 08:49:37 1994`. As in nginx the name of the day and what follows the last number are not
/// looked at, and years of two digits are 1970 to 2069.
pub fn parse_date(text: &[u8]) -> Option<u64> {
    let mut rest = Reader { text };
    let split = text.iter().position(|&byte| byte == b',' || byte == b' ')?;
    let is_asctime = text.get(split) == Some(&b' ');
    rest.skip(split + 1);
    rest.skip_spaces();
    if is_asctime {
        return parse_asctime(rest);
    }
    let day = rest.digits(2)?;
    let (month, year) = match rest.byte()? {
        b' ' => {
            let month = rest.month()?;
            rest.exactly(b' ')?;
            (month, rest.digits(4)?)
        }
        b'-' => {
            let month = rest.month()?;
            rest.exactly(b'-')?;
            let short = rest.digits(2)?;
            (month, if short < 70 { 2000 + short } else { 1900 + short })
        }
        _ => return None,
    };
    rest.exactly(b' ')?;
    let second_of_day = rest.time_of_day()?;
    moment(year, month, day, second_of_day)
}

/// The same as RFC 9110 §5.6.7 has it: in exactly one of the three forms, letters in any case. A year of two digits is
/// the one that is at most 50 years after `now_secs`.
pub fn parse_exact_date(text: &[u8], now_secs: u64) -> Option<u64> {
    const FIXED: &[u8] = b"aaa, 00 aaa 0000 00:00:00 GMT";
    const ASCTIME: &[u8] = b"aaa aaa 00 00:00:00 0000";
    const RFC_850: &[u8] = b", 00-aaa-00 00:00:00 GMT";
    let text = &capitalised(text)[..];
    if [FIXED, ASCTIME, b"aaa aaa  0 00:00:00 0000"].iter().any(|shape| has_shape(text, shape)) {
        return parse_date(text);
    }
    let comma = text.iter().position(|&byte| byte == b',')?;
    let (day_name, rest) = text.split_at(comma);
    if day_name.len() < 6 || !day_name.iter().all(u8::is_ascii_alphabetic) || !has_shape(rest, RFC_850) {
        return None;
    }
    let found = parse_date(text)?;
    let latest_year = Civil::of(now_secs).year + 50;
    let civil = Civil::of(found);
    let year = match latest_year - (latest_year + 100 - civil.year % 100) % 100 {
        year if year == civil.year => return Some(found),
        year => year,
    };
    let second_of_day = civil.hour * 3600 + civil.minute * 60 + civil.second;
    moment(year, civil.month, civil.day, second_of_day)
}

/// Every word with its first letter alone in upper case, as the names of days and months are.
fn capitalised(text: &[u8]) -> Vec<u8> {
    let mut out = text.to_ascii_lowercase();
    for at in 0..out.len() {
        if at == 0 || !out[at - 1].is_ascii_alphabetic() {
            out[at].make_ascii_uppercase();
        }
    }
    out
}

/// Whether `text` has a letter for each `a`, a digit for each `0`, and everything else as it is, in any case.
fn has_shape(text: &[u8], shape: &[u8]) -> bool {
    text.len() == shape.len()
        && text.iter().zip(shape).all(|(byte, shape)| match shape {
            b'a' => byte.is_ascii_alphabetic(),
            b'0' => byte.is_ascii_digit(),
            literal => byte.eq_ignore_ascii_case(literal),
        })
}

/// `Nov  6 08:49:37 1994`, what is left of an asctime date after the name of the day.
fn parse_asctime(mut rest: Reader) -> Option<u64> {
    let month = rest.month()?;
    rest.exactly(b' ')?;
    rest.skip_spaces();
    let mut day = rest.digits(1)?;
    if rest.peek()? != b' ' {
        day = day * 10 + rest.digits(1)?;
    }
    rest.exactly(b' ')?;
    let second_of_day = rest.time_of_day()?;
    rest.exactly(b' ')?;
    let year = rest.digits(4)?;
    moment(year, month, day, second_of_day)
}

/// Seconds since 1970 of a calendar date; `None` when there is no such day.
fn moment(year: u64, month: usize, day: u64, second_of_day: u64) -> Option<u64> {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days_in_month = MONTH_DAYS.get(month)? + u64::from(month == 1 && is_leap);
    if day == 0 || day > days_in_month {
        return None;
    }
    // Years begin in March here, so that the leap day is the last of its year.
    let month_from_march = (month as u64 + 10) % 12;
    let year = if month < 2 { year.checked_sub(1)? } else { year };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month_from_march + 2) / 5 + day - 1;
    const DAYS_TO_1970: u64 = 719_468;
    let Some(days) = days.checked_sub(DAYS_TO_1970) else {
        return Some(0);
    };
    Some(days * SECS_PER_DAY + second_of_day)
}

/// A calendar date and time of day.
struct Civil {
    year: u64,
    month: usize,
    day: u64,
    day_name: &'static [u8; 3],
    hour: u64,
    minute: u64,
    second: u64,
}

impl Civil {
    fn of(secs: u64) -> Civil {
        let secs = secs.min(LAST_SECS);
        let (days, second_of_day) = (secs / SECS_PER_DAY, secs % SECS_PER_DAY);
        // Eras of 400 years from 1 March of year 0, as in `moment`.
        let from_march = days + 719_468;
        let (era, day_of_era) = (from_march / 146_097, from_march % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = ((month_from_march + 2) % 12) as usize;
        Civil {
            year: era * 400 + year_of_era + u64::from(month < 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            day_name: DAY_NAMES[(days % 7) as usize],
            hour: second_of_day / 3600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
        }
    }
}

/// `secs` after 1970 as `Sun, 06 Nov 1994 08:49:37 GMT`; times after the year 9999 become its last second.
pub fn format_date(secs: u64) -> [u8; 29] {
    let civil = Civil::of(secs);
    let mut out = *b"Thu, 01 Jan 1970 00:00:00 GMT";
    out[..3].copy_from_slice(civil.day_name);
    put_two(&mut out, 5, civil.day);
    out[8..11].copy_from_slice(MONTH_NAMES[civil.month]);
    put_two(&mut out, 12, civil.year / 100);
    put_two(&mut out, 14, civil.year % 100);
    put_two(&mut out, 17, civil.hour);
    put_two(&mut out, 20, civil.minute);
    put_two(&mut out, 23, civil.second);
    out
}

/// Writes the two digits of `value`, which is below 100, at `at`.
fn put_two(out: &mut [u8; 29], at: usize, value: u64) {
    out[at] = b'0' + (value / 10) as u8;
    out[at + 1] = b'0' + (value % 10) as u8;
}

/// What is left to read of a date.
struct Reader<'a> {
    text: &'a [u8],
}

impl Reader<'_> {
    fn skip(&mut self, count: usize) {
        self.text = self.text.get(count..).unwrap_or_default();
    }

    fn skip_spaces(&mut self) {
        while self.text.first() == Some(&b' ') {
            self.skip(1);
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.first().copied()
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.skip(1);
        Some(byte)
    }

    fn exactly(&mut self, wanted: u8) -> Option<()> {
        (self.byte()? == wanted).then_some(())
    }

    fn digits(&mut self, count: usize) -> Option<u64> {
        let value = crate::decimal(self.text.get(..count)?)?;
        self.skip(count);
        Some(value)
    }

    fn month(&mut self) -> Option<usize> {
        let name = self.text.get(..3)?;
        let month = MONTH_NAMES.iter().position(|month| month.as_slice() == name)?;
        self.skip(3);
        Some(month)
    }

    /// `08:49:37` as seconds; a leap second is refused, as nginx does.
    fn time_of_day(&mut self) -> Option<u64> {
        let hour = self.digits(2)?;
        self.exactly(b':')?;
        let minute = self.digits(2)?;
        self.exactly(b':')?;
        let second = self.digits(2)?;
        (hour < 24 && minute < 60 && second < 60).then_some(hour * 3600 + minute * 60 + second)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exact_date_has_one_of_three_shapes() {
        const NOW: u64 = 1_790_000_000; // in 2026
        for (text, expected) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("SUN, 06 nov 1994 08:49:37 gmt", Some(784_111_777)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
            ("Sun Nov 06 08:49:37 1994", Some(784_111_777)),
            ("Thursday, 18-Aug-50 02:01:18 GMT", Some(2_544_400_878)),
            ("Tuesday, 18-Aug-76 02:01:18 GMT", Some(3_364_941_678)),
            ("Thursday, 18-Aug-77 02:01:18 GMT", Some(240_717_678)),
            ("Sun, 06 Nov 1994 08:49:37 UTC", None),
            ("Sun, 06 Nov 94 08:49:37 GMT", None),
            ("Sun 06 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06  Nov  1994 08:49:37 GMT", None),
            ("Sun, 06-Nov-1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08.49.37 GMT", None),
            ("Sun, 06 Nov 1994 8:49:37 GMT", None),
            ("Sun, 31 Feb 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 25:49:37 GMT", None),
            ("0", None),
            ("-1", None),
            ("", None),
        ] {
            assert_eq!(parse_exact_date(text.as_bytes(), NOW), expected, "{text}");
        }
    }

    #[test]
    fn the_three_forms_are_read_and_nothing_else() {
        for (text, secs) in [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
            ("Sun Nov 16 08:49:37 1994", Some(784_975_777)),
            ("Sun, 06 Nov 1994 08:49:37", Some(784_111_777)),
            ("Xyz,06 Nov 1994 08:49:37 CET", Some(784_111_777)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Thu, 01 Jan 1900 00:00:00 GMT", Some(0)),
            ("Sat, 01 Jan 0000 00:00:00 GMT", None),
            ("Thu, 29 Feb 2024 00:00:00 GMT", Some(1_709_164_800)),
            ("Wed, 29 Feb 2023 00:00:00 GMT", None),
            ("Thu, 29 Feb 1900 00:00:00 GMT", None),
            ("Tue, 29 Feb 2000 00:00:00 GMT", Some(951_782_400)),
            ("Thu, 01-Jan-69 00:00:00 GMT", Some(3_124_224_000)),
            ("Thu, 01-Jan-70 00:00:00 GMT", Some(0)),
            ("Sun, 06 Nov 1994 24:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49:60 GMT", None),
            ("Sun, 32 Nov 1994 08:49:37 GMT", None),
            ("Sun, 00 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06 nov 1994 08:49:37 GMT", None),
            ("Sun, 6 Nov 1994 08:49:37 GMT", None),
            ("Sun, 06-Nov 1994 08:49:37 GMT", None),
            ("0", None),
            ("-1", None),
            ("", None),
            (",", None),
        ] {
            assert_eq!(parse_date(text.as_bytes()), secs, "{text}");
        }
    }

    #[test]
    fn every_prefix_of_a_date_is_read_without_panic() {
        for text in ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"] {
            for end in 0..text.len() {
                parse_date(&text.as_bytes()[..end]);
            }
        }
    }

    #[test]
    fn dates_are_written_in_one_form() {
        for (secs, date) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (1_709_164_800, "Thu, 29 Feb 2024 00:00:00 GMT"),
            (2_145_916_555, "Thu, 31 Dec 2037 23:55:55 GMT"),
            (2_145_917_000, "Fri, 01 Jan 2038 00:03:20 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(std::str::from_utf8(&format_date(secs)), Ok(date));
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut secs = 0;
        while secs < LAST_SECS {
            assert_eq!(parse_date(&format_date(secs)), Some(secs));
            secs += 86_399 * 37 + 13;
        }
    }
}
