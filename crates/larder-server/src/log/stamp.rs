//! The local time in the forms logs use, formatted once a second.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use larder_http::Time;

/// The months as all of these forms name them.
pub const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A date and a time of day, in the time zone for which the seconds were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    /// The year, such as 2026.
    pub year: i16,
    /// 1 to 12.
    pub month: u8,
    /// 1 to 31.
    pub day: u8,
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
}

impl Civil {
    /// The date and time `secs` after 1970. Times beyond the calendar (9999) become its last second.
    pub fn at(secs: i64) -> Self {
        let stamp = Timestamp::from_second(secs).unwrap_or(if secs < 0 { Timestamp::MIN } else { Timestamp::MAX });
        let time = jiff::tz::Offset::UTC.to_datetime(stamp);
        let small = |value: i8| value.unsigned_abs();
        Self {
            year: time.year(),
            month: small(time.month()),
            day: small(time.day()),
            hour: small(time.hour()),
            minute: small(time.minute()),
            second: small(time.second()),
        }
    }
}

/// One second in all formats of logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Seconds east of Greenwich.
    pub offset_secs: i64,
    /// `$time_local`: `21/Nov/2026:21:25:10 +0000`.
    pub local: String,
    /// `$time_iso8601`: `2026-11-21T21:25:10+00:00`.
    pub iso8601: String,
    /// For error logs: `2026/11/21 21:25:10`.
    pub error: String,
    /// For syslog, RFC 3164 §4.1.2: `Nov 21 21:25:10`, the day padded with a space.
    pub syslog: String,
}

impl Stamp {
    /// The formats of `now` in `zone`. As in nginx, offsets are in whole minutes.
    pub fn new(now: Time, zone: &TimeZone) -> Self {
        let secs = i64::try_from(now.secs()).unwrap_or(i64::MAX);
        let stamp = Timestamp::from_second(secs).unwrap_or(Timestamp::MAX);
        let minutes = zone.to_offset(stamp).seconds() / 60;
        let offset_secs = i64::from(minutes) * 60;
        let sign = if minutes < 0 { '-' } else { '+' };
        let (east_hours, east_minutes) = ((minutes / 60).abs(), (minutes % 60).abs());
        let Civil { year, month, day, hour, minute, second } = Civil::at(secs.saturating_add(offset_secs));
        let name = MONTHS[usize::from(month) - 1];
        let clock = format!("{hour:02}:{minute:02}:{second:02}");
        Self {
            offset_secs,
            local: format!("{day:02}/{name}/{year}:{clock} {sign}{east_hours:02}{east_minutes:02}"),
            iso8601: format!("{year:04}-{month:02}-{day:02}T{clock}{sign}{east_hours:02}:{east_minutes:02}"),
            error: format!("{year:04}/{month:02}/{day:02} {clock}"),
            syslog: format!("{name} {day:>2} {clock}"),
        }
    }
}

/// Formats the time, and keeps the last second. Each worker has one.
#[derive(Clone, Debug)]
pub struct Stamps {
    zone: TimeZone,
    secs: u64,
    stamp: Stamp,
}

impl Stamps {
    /// For the machine's time zone, as it is now.
    pub fn of_system() -> Self {
        Self::new(TimeZone::system())
    }

    /// For `zone`.
    pub fn new(zone: TimeZone) -> Self {
        let stamp = Stamp::new(Time(0), &zone);
        Self { zone, secs: 0, stamp }
    }

    /// The formats of `now`.
    pub fn at(&mut self, now: Time) -> &Stamp {
        if now.secs() != self.secs {
            self.secs = now.secs();
            self.stamp = Stamp::new(now, &self.zone);
        }
        &self.stamp
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::Offset;

    use super::*;

    fn zone(minutes: i32) -> TimeZone {
        TimeZone::fixed(Offset::from_seconds(minutes * 60).expect("the offset is one of this world"))
    }

    #[test]
    fn each_form_is_nginxs() {
        let secs = 1_795_296_310; // 2026-11-21T21:25:10Z
        for (minutes, local, iso8601, error, syslog) in [
            (0, "21/Nov/2026:21:25:10 +0000", "2026-11-21T21:25:10+00:00", "2026/11/21 21:25:10", "Nov 21 21:25:10"),
            (330, "22/Nov/2026:02:55:10 +0530", "2026-11-22T02:55:10+05:30", "2026/11/22 02:55:10", "Nov 22 02:55:10"),
            (-210, "21/Nov/2026:17:55:10 -0330", "2026-11-21T17:55:10-03:30", "2026/11/21 17:55:10", "Nov 21 17:55:10"),
            (-30, "21/Nov/2026:20:55:10 -0030", "2026-11-21T20:55:10-00:30", "2026/11/21 20:55:10", "Nov 21 20:55:10"),
        ] {
            let stamp = Stamp::new(Time::from_secs(secs), &zone(minutes));
            assert_eq!(
                [&*stamp.local, &*stamp.iso8601, &*stamp.error, &*stamp.syslog],
                [local, iso8601, error, syslog]
            );
            assert_eq!(stamp.offset_secs, i64::from(minutes) * 60);
        }
        assert_eq!(Stamp::new(Time::from_secs(86_400), &zone(0)).syslog, "Jan  2 00:00:00");
    }

    #[test]
    fn a_second_is_formatted_once_and_the_next_anew() {
        let mut stamps = Stamps::new(zone(0));
        for (millis, clock) in [(0, "00:00:00"), (999, "00:00:00"), (1000, "00:00:01"), (500, "00:00:00")] {
            assert!(stamps.at(Time(millis)).error.ends_with(clock), "{millis}");
        }
    }

    #[test]
    fn no_time_is_out_of_reach() {
        for (secs, year) in [(i64::MIN, -9999), (-1, 1969), (i64::MAX, 9999)] {
            assert_eq!(Civil::at(secs).year, year);
        }
        assert!(Stamp::new(Time(u64::MAX), &zone(720)).local.contains("/9999:"));
    }
}
