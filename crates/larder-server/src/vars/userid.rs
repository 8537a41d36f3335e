//! `userid`: a number for each visitor, in a cookie (ngx_http_userid_filter).

use std::net::IpAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use larder_conf::model::{LogLevel, UserId, UserIdExpires, UserIdMode};
use larder_http::Known;

use crate::auth::{decode_base64, encode_base64};
use crate::context::Cx;
use crate::exchange::{Exchange, Uid};

/// How many characters of the cookie are the number; a mark may follow.
const ENCODED_BYTES: usize = 22;
/// How much the counters grow: the lowest byte holds the version.
const STEP: u32 = 0x100;
/// The first value of the counter for version 2, as in nginx.
const SECOND_BEGINS: u32 = 0x0303_0302;

static FIRST: AtomicU32 = AtomicU32::new(1);
static SECOND: AtomicU32 = AtomicU32::new(SECOND_BEGINS);

/// Appends `$uid_got`.
pub fn append_got(ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let settings = &cx.loc(ex).settings.modules.user_id;
    if settings.mode == UserIdMode::Off {
        return false;
    }
    read(settings, ex, cx);
    let got = ex.request.uid.as_ref().and_then(|uid| uid.got);
    append(settings, got, out)
}

/// Appends `$uid_set`.
pub fn append_set(ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let settings = &cx.loc(ex).settings.modules.user_id;
    if !gives(settings) {
        return false;
    }
    decide(settings, ex, cx);
    let set = ex.request.uid.as_ref().and_then(|uid| uid.set);
    append(settings, set, out)
}

fn append(settings: &UserId, uid: Option<[u8; 16]>, out: &mut Vec<u8>) -> bool {
    let Some(uid) = uid else { return false };
    out.extend_from_slice(settings.name.as_bytes());
    out.push(b'=');
    out.extend_from_slice(shown(&uid).as_bytes());
    true
}

/// A number as nginx logs it: four numbers in the machine's byte order.
fn shown(uid: &[u8; 16]) -> String {
    let number = |chunk: &[u8]| chunk.try_into().map_or(0, u32::from_ne_bytes);
    uid.chunks_exact(4).map(|chunk| format!("{:08X}", number(chunk))).collect()
}

fn gives(settings: &UserId) -> bool {
    matches!(settings.mode, UserIdMode::V1 | UserIdMode::On)
}

/// Adds the cookie to the response, if a number is set.
pub fn add(ex: &mut Exchange, cx: &Cx) {
    let settings = &cx.loc(ex).settings.modules.user_id;
    if !gives(settings) {
        return;
    }
    decide(settings, ex, cx);
    let Some(uid) = &ex.request.uid else { return };
    let Some(set) = &uid.set else { return };
    let cookie = cookie(settings, uid, set, cx.now().secs());
    ex.reply.fields.push(b"Set-Cookie", &cookie);
    if !settings.p3p.is_empty() {
        ex.reply.fields.push(b"P3P", settings.p3p.as_bytes());
    }
}

fn cookie(settings: &UserId, uid: &Uid, set: &[u8; 16], now: u64) -> Vec<u8> {
    let mut cookie = [settings.name.as_bytes(), b"="].concat();
    let came = uid.cookie.get(..ENCODED_BYTES).filter(|_| uid.got.is_some() && !uid.is_reset);
    match (came, settings.mark) {
        (Some(came), Some(mark)) => cookie.extend([came, &[mark, b'=']].concat()),
        (_, mark) => {
            let mut encoded = encode_base64(set);
            if let (Some(mark), Some(place)) = (mark, encoded.get_mut(ENCODED_BYTES)) {
                *place = mark;
            }
            cookie.extend(encoded);
        }
    }
    match settings.expires {
        UserIdExpires::Off => {}
        UserIdExpires::Max => cookie.extend_from_slice(b"; expires=Thu, 31-Dec-37 23:55:55 GMT"),
        UserIdExpires::After(time) => {
            cookie.extend_from_slice(b"; expires=");
            cookie.extend(cookie_time(now.saturating_add(time.as_secs())));
        }
    }
    let mut attribute = |name: &str, value: &str| {
        cookie.extend_from_slice(name.as_bytes());
        cookie.extend_from_slice(value.as_bytes());
    };
    if !settings.domain.is_empty() {
        attribute("; domain=", &settings.domain);
    }
    attribute("; path=", &settings.path);
    let flags = settings.flags;
    for (is_on, name) in [
        (flags.secure, "; secure"),
        (flags.httponly, "; httponly"),
        (flags.samesite_strict, "; samesite=strict"),
        (flags.samesite_lax, "; samesite=lax"),
        (flags.samesite_none, "; samesite=none"),
    ] {
        if is_on {
            attribute(name, "");
        }
    }
    cookie
}

/// `Thu, 31-Dec-37 23:55:55 GMT`: with two digits of the year until 2037, which Netscape 4 needs, as nginx has it.
fn cookie_time(secs: u64) -> Vec<u8> {
    let date = larder_http::format_date(secs);
    let text = String::from_utf8_lossy(&date);
    let mut words = text.split(' ');
    let mut word = || words.next().unwrap_or_default();
    let (weekday, day, month, year, time) = (word(), word(), word(), word(), word());
    let is_early = year.parse::<u32>().is_ok_and(|year| year <= 2037);
    let year = if is_early { year.get(2..).unwrap_or(year) } else { year };
    format!("{weekday} {day}-{month}-{year} {time} GMT").into_bytes()
}

/// Reads the cookie, once a request.
fn read(settings: &UserId, ex: &mut Exchange, cx: &Cx) {
    if ex.request.uid.is_some() {
        return;
    }
    let mut uid = Box::new(Uid::default());
    let lines = ex.asked.head.fields.all_known(Known::Cookie);
    if let Some(value) = larder_http::cookie(lines, settings.name.as_bytes()) {
        uid.cookie = value.to_vec();
        let what = match uid.cookie.get(..ENCODED_BYTES).map(decode_base64) {
            None => Some("too short"),
            Some(None) => Some("invalid"),
            Some(Some(bytes)) => {
                uid.got = bytes.try_into().ok().filter(|uid: &[u8; 16]| uid[12..] != [0; 4]);
                None
            }
        };
        if let Some(what) = what {
            let text = String::from_utf8_lossy(&uid.cookie);
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("client sent {what} userid cookie \"{text}\""));
        }
    }
    ex.request.uid = Some(uid);
}

/// Decides once which number is set: none for a visitor who has one, unless `$uid_reset` or the mark demands it.
fn decide(settings: &UserId, ex: &mut Exchange, cx: &Cx) {
    read(settings, ex, cx);
    let Some(mut uid) = ex.request.uid.take_if(|uid| !uid.is_decided) else { return };
    uid.is_decided = true;
    if let Some(got) = uid.got {
        let reset = cx.loc(ex).modules.uid_reset.as_ref();
        let reset = reset.map(|text| text.value(ex, cx)).unwrap_or_default();
        if reset.is_empty() || reset == b"0" {
            let is_marked = match settings.mark {
                None => true,
                Some(mark) => uid.cookie.get(ENCODED_BYTES..ENCODED_BYTES + 2) == Some(&[mark, b'=']),
            };
            uid.set = (!is_marked).then_some(got);
            ex.request.uid = Some(uid);
            return;
        }
        uid.is_reset = true;
        if reset == b"log" {
            let message = format_args!("userid cookie \"{}={}\" was reset", settings.name, shown(&got));
            cx.local.logs.error(cx, ex, LogLevel::Notice, message);
        }
    }
    uid.set = Some(made(settings, ex, cx));
    ex.request.uid = Some(uid);
}

/// Makes a new number: the service, the time, the process, and a count.
fn made(settings: &UserId, ex: &Exchange, cx: &Cx) -> [u8; 16] {
    static START: OnceLock<u32> = OnceLock::new();
    let start = *START.get_or_init(|| (cx.worker.random() as u32) << 16 | (std::process::id() & 0xffff));
    let now = cx.now().secs() as u32;
    let words: [[u8; 4]; 4] = if settings.mode == UserIdMode::V1 {
        let count = FIRST.fetch_add(STEP, Ordering::Relaxed);
        [settings.service.unwrap_or(0), now, start, count].map(u32::to_ne_bytes)
    } else {
        let count = SECOND.fetch_add(STEP, Ordering::Relaxed).max(SECOND_BEGINS);
        let service = match (settings.service, ex.asked.client.local.map(|local| local.ip())) {
            (Some(service), _) => service.to_be_bytes(),
            (None, Some(IpAddr::V4(ip))) => ip.octets(),
            (None, Some(IpAddr::V6(ip))) => {
                let [.., a, b, c, d] = ip.octets();
                [a, b, c, d]
            }
            (None, None) => [0; 4],
        };
        [service, now.to_be_bytes(), start.to_be_bytes(), count.to_be_bytes()]
    };
    let mut uid = [0; 16];
    for (place, word) in uid.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word);
    }
    uid
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use larder_conf::model::UserIdFlags;

    use super::*;

    fn settings() -> UserId {
        UserId {
            mode: UserIdMode::On,
            service: None,
            name: "uid".to_owned(),
            domain: String::new(),
            path: "/".to_owned(),
            expires: UserIdExpires::Off,
            flags: UserIdFlags::default(),
            p3p: String::new(),
            mark: None,
        }
    }

    #[test]
    fn the_cookie_has_what_is_configured() {
        let flags = UserIdFlags { secure: true, httponly: true, samesite_none: true, ..UserIdFlags::default() };
        for (settings, cookie_wanted) in [
            (settings(), "uid=AAAAAAAAAAAAAAAAAAAAAA==; path=/"),
            (UserId { mark: Some(b't'), ..settings() }, "uid=AAAAAAAAAAAAAAAAAAAAAAt=; path=/"),
            (
                UserId { domain: "example.org".to_owned(), path: "/a".to_owned(), ..settings() },
                "uid=AAAAAAAAAAAAAAAAAAAAAA==; domain=example.org; path=/a",
            ),
            (
                UserId { expires: UserIdExpires::Max, ..settings() },
                "uid=AAAAAAAAAAAAAAAAAAAAAA==; expires=Thu, 31-Dec-37 23:55:55 GMT; path=/",
            ),
            (
                UserId { expires: UserIdExpires::After(Duration::from_secs(60)), ..settings() },
                "uid=AAAAAAAAAAAAAAAAAAAAAA==; expires=Thu, 01-Jan-70 00:01:00 GMT; path=/",
            ),
            (UserId { flags, ..settings() }, "uid=AAAAAAAAAAAAAAAAAAAAAA==; path=/; secure; httponly; samesite=none"),
        ] {
            let made = cookie(&settings, &Uid::default(), &[0; 16], 0);
            assert_eq!(String::from_utf8_lossy(&made), cookie_wanted);
        }
    }

    #[test]
    fn a_number_that_came_keeps_its_text_and_gets_the_mark() {
        let uid = Uid { cookie: b"fwAAAWcAAAABAAAAAwMDAgaa".to_vec(), got: Some([1; 16]), ..Uid::default() };
        let marked = UserId { mark: Some(b'='), ..settings() };
        assert_eq!(cookie(&marked, &uid, &[1; 16], 0), b"uid=fwAAAWcAAAABAAAAAwMDAg==; path=/");
    }

    #[test]
    fn years_after_2037_have_four_digits() {
        for (secs, text) in [(0, "Thu, 01-Jan-70 00:00:00 GMT"), (2_145_916_800, "Fri, 01-Jan-2038 00:00:00 GMT")] {
            assert_eq!(String::from_utf8_lossy(&cookie_time(secs)), text);
        }
    }
}
