//! The only reader of the system's time. All other code takes `now`, so that a test can choose the time.

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use larder_http::Time;
use larder_http::h2::hpack;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The time of day. Reads the vDSO, without a system call.
pub fn now() -> Time {
    // Several times a request: `SystemTime` would compute the difference to 1970 each time.
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
    Time(u64::try_from(tv_sec).unwrap_or(0) * 1000 + u64::try_from(tv_nsec).unwrap_or(0) / 1_000_000)
}

/// The time of day in microseconds since 1970, for how long something took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Micros(u64);

impl Micros {
    /// As other code takes it.
    pub fn time(self) -> Time {
        Time(self.0 / 1000)
    }

    /// Microseconds since `earlier`; 0 if the clock was set back meanwhile.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The time of day with microseconds; costs what [`now`] does.
pub fn micros() -> Micros {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
    Micros(u64::try_from(tv_sec).unwrap_or(0) * 1_000_000 + u64::try_from(tv_nsec).unwrap_or(0) / 1000)
}

/// The time of day in seconds since 1970, with all its digits.
pub fn precise() -> f64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Realtime);
    tv_sec as f64 + tv_nsec as f64 / 1e9
}

/// A time that nobody sets: the difference of two is how long something took.
pub fn steady() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(tv_sec).unwrap_or(0), u32::try_from(tv_nsec).unwrap_or(0))
}

/// A time that nobody sets, and that goes on while the machine sleeps or this process is stopped.
pub fn since_boot() -> Duration {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::Boottime);
    Duration::new(u64::try_from(tv_sec).unwrap_or(0), u32::try_from(tv_nsec).unwrap_or(0))
}

/// The time of day in the standard library's type.
pub fn system_time() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(now().0)
}

thread_local! {
    static DATE_LINE: RefCell<(u64, [u8; 37])> = const { RefCell::new((u64::MAX, [b' '; 37])) };
    static DATE_FIELD: RefCell<(u64, Vec<u8>)> = const { RefCell::new((u64::MAX, Vec::new())) };
}

/// Appends the field `Date` as HTTP/1 writes it (RFC 9110 §5.6.7), formatted once a second on each thread.
pub fn append_date_line(now: Time, out: &mut Vec<u8>) {
    DATE_LINE.with_borrow_mut(|(at, line)| {
        if *at != now.secs() {
            *at = now.secs();
            line[..6].copy_from_slice(b"Date: ");
            line[6..35].copy_from_slice(&larder_http::format_date(now.secs()));
            line[35..].copy_from_slice(b"\r\n");
        }
        out.extend_from_slice(line);
    });
}

/// Appends `Date` as an HTTP/2 field, also encoded once a second.
pub fn append_date_field(now: Time, out: &mut Vec<u8>) {
    DATE_FIELD.with_borrow_mut(|(at, field)| {
        if *at != now.secs() {
            *at = now.secs();
            field.clear();
            hpack::encode_field(b"date", &larder_http::format_date(now.secs()), field);
        }
        out.extend_from_slice(field);
    });
}
