//! The only reader of the system's time. All other code takes `now`, so that a test can choose the time.

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use larder_http::Time;
use larder_http::h2::hpack;

/// The time of day. Reads the vDSO, without a system call.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Time(since.as_millis() as u64)
}

/// The time of day in the standard library's type.
pub fn system_time() -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(now().0)
}

thread_local! {
    static DATE: RefCell<(u64, [u8; 29])> = const { RefCell::new((u64::MAX, [b' '; 29])) };
    static DATE_FIELD: RefCell<(u64, Vec<u8>)> = const { RefCell::new((u64::MAX, Vec::new())) };
}

/// Appends `now` as an HTTP date (RFC 9110 §5.6.7), formatted once a second on each thread.
pub fn append_date(now: Time, out: &mut Vec<u8>) {
    DATE.with_borrow_mut(|(at, text)| {
        if *at != now.secs() {
            *at = now.secs();
            *text = larder_http::format_date(now.secs());
        }
        out.extend_from_slice(text);
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
