//! The listing of a directory, byte for byte as nginx 1.22 writes it.

use std::ffi::CStr;

use larder_conf::model::AutoindexFormat;
use larder_http::date::format_date;
use larder_http::{Escape, escape_html, escape_uri};
use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;

use super::{Facts, OpenError, name_of};
use crate::log::escape::escape_json;
use crate::log::stamp::{Civil, MONTHS};

/// How many characters of a name are shown in HTML.
const NAME_CHARS: usize = 50;
/// The longest name of a JSONP callback.
const CALLBACK_BYTES_MAX: usize = 128;

/// A file in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the directory.
    pub name: Vec<u8>,
    /// A directory, or a link to one.
    pub is_dir: bool,
    /// A regular file, or a link to one; neither flag is set for a FIFO and the like.
    pub is_file: bool,
    /// When it was last changed, seconds since 1970.
    pub mtime: u64,
    /// Bytes.
    pub len: u64,
}

/// How a listing is written.
#[derive(Clone, Copy, Debug)]
pub struct Listing<'a> {
    /// The path of the request, decoded; it is the title.
    pub uri: &'a [u8],
    /// `autoindex_format`.
    pub format: AutoindexFormat,
    /// `autoindex_exact_size`.
    pub exact_size: bool,
    /// Seconds to add to UTC in HTML: the local offset with `autoindex_localtime on`, else 0.
    pub offset_secs: i64,
    /// Whether the answer's charset is UTF-8, so that names are not cut within a character.
    pub utf8: bool,
    /// The JSONP callback; without one, JSONP is plain JSON.
    pub callback: Option<&'a [u8]>,
}

impl Listing<'_> {
    /// The `Content-Type`, before `charset` adds to it.
    pub fn content_type(&self) -> &'static str {
        match (self.format, self.callback) {
            (AutoindexFormat::Html, _) => "text/html",
            (AutoindexFormat::Xml, _) => "text/xml; charset=utf-8",
            (AutoindexFormat::Jsonp, Some(_)) => "application/javascript",
            (AutoindexFormat::Jsonp, None) | (AutoindexFormat::Json, _) => "application/json",
        }
    }
}

/// Writes the listing of `entries`: directories first, then files, both sorted by name.
pub fn render(listing: &Listing<'_>, entries: impl IntoIterator<Item = Entry>) -> Vec<u8> {
    let mut entries: Vec<Entry> = entries.into_iter().collect();
    entries.sort_by(|a, b| b.is_dir.cmp(&a.is_dir).then_with(|| a.name.cmp(&b.name)));
    let mut out = Vec::with_capacity(256 + 160 * entries.len());
    match listing.format {
        AutoindexFormat::Html => html(listing, &entries, &mut out),
        AutoindexFormat::Xml => xml(&entries, &mut out),
        AutoindexFormat::Json => json(&entries, &mut out),
        AutoindexFormat::Jsonp => match listing.callback {
            None => json(&entries, &mut out),
            Some(callback) => {
                out.extend_from_slice(b"/* callback */\r\n");
                out.extend_from_slice(callback);
                out.push(b'(');
                json(&entries, &mut out);
                out.extend_from_slice(b");");
            }
        },
    }
    out
}

/// Why a JSONP callback was refused, with 400. The words are nginx's, after `client sent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallbackError {
    /// More than 128 bytes.
    #[error("client sent too long callback name")]
    TooLong,
    /// It has characters other than letters, digits, `_` and `.`.
    #[error("client sent invalid callback name")]
    Invalid,
}

/// The callback in the argument `callback`; `None` if that is empty.
pub fn check_callback(argument: Option<&[u8]>) -> Result<Option<&[u8]>, CallbackError> {
    let Some(name) = argument.filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    if name.len() > CALLBACK_BYTES_MAX {
        return Err(CallbackError::TooLong);
    }
    if !name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.') {
        return Err(CallbackError::Invalid);
    }
    Ok(Some(name))
}

/// Reads the directory at `path`. Leaves out names that begin with a dot, and files whose properties we may not read. A
/// link that leads nowhere is listed as a link.
///
/// Blocks on the disk: a large directory should not be read on the worker's thread.
pub fn read(path: &[u8]) -> Result<Vec<Entry>, OpenError> {
    let fail = |errno: Errno| OpenError::new("opendir()", errno);
    let name = name_of(path, "opendir()")?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::openat(CWD, name, flags, Mode::empty()).map_err(fail)?;
    let mut dir = Dir::read_from(&fd).map_err(fail)?;
    let mut entries = Vec::new();
    while let Some(entry) = dir.read() {
        let entry = entry.map_err(|errno| OpenError::new("readdir()", errno))?;
        let name = entry.file_name();
        if !name.to_bytes().starts_with(b".")
            && let Some(entry) = look_at(&fd, name)?
        {
            entries.push(entry);
        }
    }
    Ok(entries)
}

fn look_at(dir: &impl std::os::fd::AsFd, name: &CStr) -> Result<Option<Entry>, OpenError> {
    let stat = match rustix::fs::statat(dir, name, AtFlags::empty()) {
        Err(Errno::ACCESS) => return Ok(None),
        Err(Errno::NOENT | Errno::LOOP) => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW),
        other => other,
    };
    let stat = match stat {
        // Deleted since the directory was read.
        Err(Errno::NOENT) => return Ok(None),
        other => other.map_err(|errno| OpenError::new("stat()", errno))?,
    };
    let facts = Facts::of(&stat);
    Ok(Some(Entry {
        name: name.to_bytes().to_vec(),
        is_dir: facts.is_dir,
        is_file: facts.is_regular,
        mtime: facts.mtime,
        len: facts.len,
    }))
}

fn html(listing: &Listing<'_>, entries: &[Entry], out: &mut Vec<u8>) {
    out.extend_from_slice(b"<html>\r\n<head><title>Index of ");
    escape_html(listing.uri, out);
    out.extend_from_slice(b"</title></head>\r\n<body>\r\n<h1>Index of ");
    escape_html(listing.uri, out);
    out.extend_from_slice(b"</h1><hr><pre><a href=\"../\">../</a>\r\n");
    for entry in entries {
        html_entry(listing, entry, out);
    }
    out.extend_from_slice(b"</pre><hr></body>\r\n</html>\r\n");
}

fn html_entry(listing: &Listing<'_>, entry: &Entry, out: &mut Vec<u8>) {
    out.extend_from_slice(b"<a href=\"");
    escape_uri(&entry.name, Escape::UriComponent, out);
    out.extend_from_slice(if entry.is_dir { b"/\">" } else { b"\">" });

    let (shown, mut width) = shown_part(&entry.name, listing.utf8);
    escape_html(shown, out);
    if width > NAME_CHARS {
        out.extend_from_slice(b"..&gt;</a>");
    } else {
        if entry.is_dir && width < NAME_CHARS {
            out.push(b'/');
            width += 1;
        }
        out.extend_from_slice(b"</a>");
        out.resize(out.len() + NAME_CHARS - width, b' ');
    }

    let secs = i64::try_from(entry.mtime).unwrap_or(i64::MAX).saturating_add(listing.offset_secs);
    let Civil { year, month, day, hour, minute, .. } = Civil::at(secs);
    let month = MONTHS[usize::from(month) - 1];
    append(out, format_args!(" {day:02}-{month}-{year} {hour:02}:{minute:02} "));
    match (listing.exact_size, entry.is_dir) {
        (true, true) => out.extend_from_slice(b"                  -"),
        (true, false) => append(out, format_args!("{:>19}", entry.len)),
        (false, true) => out.extend_from_slice(b"      -"),
        (false, false) => match rounded(entry.len) {
            (size, None) => append(out, format_args!(" {size:>6}")),
            (size, Some(unit)) => append(out, format_args!("{size:>6}{unit}")),
        },
    }
    out.extend_from_slice(b"\r\n");
}

/// The part of a name that is shown, and the number of characters in the whole name.
///
/// Without UTF-8, and in a name that is not valid UTF-8, each byte counts as a character.
fn shown_part(name: &[u8], utf8: bool) -> (&[u8], usize) {
    let kept = NAME_CHARS - 3;
    match std::str::from_utf8(name) {
        Ok(text) if utf8 => {
            let width = text.chars().count();
            let end = text.char_indices().nth(kept).map_or(name.len(), |(at, _)| at);
            (if width > NAME_CHARS { &name[..end] } else { name }, width)
        }
        _ if name.len() > NAME_CHARS => (&name[..kept], name.len()),
        _ => (name, name.len()),
    }
}

/// A size as at most four digits and a unit, rounded half up.
fn rounded(len: u64) -> (u64, Option<char>) {
    const K: u64 = 1 << 10;
    const M: u64 = 1 << 20;
    const G: u64 = 1 << 30;
    let in_units = |unit: u64| len / unit + u64::from(len % unit >= unit / 2);
    if len >= G {
        (in_units(G), Some('G'))
    } else if len >= M {
        (in_units(M), Some('M'))
    } else if len > 9999 {
        (in_units(K), Some('K'))
    } else {
        (len, None)
    }
}

fn json(entries: &[Entry], out: &mut Vec<u8>) {
    out.push(b'[');
    for (n, entry) in entries.iter().enumerate() {
        out.extend_from_slice(if n == 0 { b"\r\n{ \"name\":\"" } else { b",\r\n{ \"name\":\"" });
        escape_json(&entry.name, out);
        append(out, format_args!("\", \"type\":\"{}\", \"mtime\":\"", kind(entry)));
        out.extend_from_slice(&format_date(entry.mtime));
        if entry.is_file {
            append(out, format_args!("\", \"size\":{} }}", entry.len));
        } else {
            out.extend_from_slice(b"\" }");
        }
    }
    out.extend_from_slice(b"\r\n]");
}

fn xml(entries: &[Entry], out: &mut Vec<u8>) {
    out.extend_from_slice(b"<?xml version=\"1.0\"?>\r\n<list>\r\n");
    for entry in entries {
        let kind = kind(entry);
        let Civil { year, month, day, hour, minute, second } =
            Civil::at(i64::try_from(entry.mtime).unwrap_or(i64::MAX));
        append(out, format_args!("<{kind} mtime=\"{year:>4}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z\""));
        if entry.is_file {
            append(out, format_args!(" size=\"{}\"", entry.len));
        }
        out.push(b'>');
        escape_html(&entry.name, out);
        append(out, format_args!("</{kind}>\r\n"));
    }
    out.extend_from_slice(b"</list>\r\n");
}

fn kind(entry: &Entry) -> &'static str {
    match (entry.is_dir, entry.is_file) {
        (true, _) => "directory",
        (false, true) => "file",
        (false, false) => "other",
    }
}

fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    std::io::Write::write_fmt(out, text).expect("a vector takes all that is written");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, len: u64) -> Entry {
        Entry { name: name.into(), is_dir: false, is_file: true, mtime: 784_111_777, len }
    }

    fn dir(name: &str) -> Entry {
        Entry { is_dir: true, is_file: false, ..file(name, 4096) }
    }

    fn listing(format: AutoindexFormat) -> Listing<'static> {
        Listing { uri: b"/a&b/", format, exact_size: true, offset_secs: 0, utf8: true, callback: None }
    }

    /// The line of one entry in HTML, from its tag on.
    fn line(listing: &Listing<'_>, entry: Entry) -> String {
        let page = String::from_utf8(render(listing, [entry])).expect("the page is text");
        page.split("\r\n").nth(4).expect("the entry follows four lines of head").to_owned()
    }

    #[test]
    fn a_page_has_nginxs_frame_and_order() {
        let page = render(&listing(AutoindexFormat::Html), [file("b", 1), dir("z"), file("B", 12), dir("a")]);
        let pad = |width: usize| " ".repeat(NAME_CHARS - width);
        let expected = format!(
            "<html>\r\n<head><title>Index of /a&amp;b/</title></head>\r\n<body>\r\n<h1>Index of /a&amp;b/</h1><hr><pre>\
             <a href=\"../\">../</a>\r\n\
             <a href=\"a/\">a/</a>{0} 06-Nov-1994 08:49                   -\r\n\
             <a href=\"z/\">z/</a>{0} 06-Nov-1994 08:49                   -\r\n\
             <a href=\"B\">B</a>{1} 06-Nov-1994 08:49                  12\r\n\
             <a href=\"b\">b</a>{1} 06-Nov-1994 08:49                   1\r\n\
             </pre><hr></body>\r\n</html>\r\n",
            pad(2),
            pad(1)
        );
        assert_eq!(String::from_utf8_lossy(&page), expected);
    }

    #[test]
    fn long_names_are_cut_at_fifty() {
        for (name, shown) in [
            ("x".repeat(49), format!("{}</a>  06", "x".repeat(49))),
            ("x".repeat(50), format!("{}</a> 06", "x".repeat(50))),
            ("x".repeat(51), format!("{}..&gt;</a> 06", "x".repeat(47))),
            ("é".repeat(50), format!("{}</a> 06", "é".repeat(50))),
            ("é".repeat(51), format!("{}..&gt;</a> 06", "é".repeat(47))),
            ("<".repeat(51), format!("{}..&gt;</a> 06", "&lt;".repeat(47))),
            ("<\"&>'".to_owned(), format!("&lt;&quot;&amp;&gt;'</a>{} 06", " ".repeat(45))),
        ] {
            let line = line(&listing(AutoindexFormat::Html), file(&name, 1));
            assert!(line.contains(&format!(">{shown}-Nov")), "{line} has {shown}");
        }
        for (name, shown) in [
            ("d".repeat(49), format!("{}/</a> 06", "d".repeat(49))),
            ("d".repeat(50), format!("{}</a> 06", "d".repeat(50))),
        ] {
            let line = line(&listing(AutoindexFormat::Html), dir(&name));
            assert!(line.contains(&format!(">{shown}-Nov")), "{line} has {shown}");
        }
    }

    #[test]
    fn without_utf8_a_byte_is_a_character() {
        let bytes = Listing { utf8: false, ..listing(AutoindexFormat::Html) };
        let name = "é".repeat(26);
        let page = render(&bytes, [file(&name, 1)]);
        let shown = [&name.as_bytes()[..47], b"..&gt;</a> "].concat();
        assert!(page.windows(shown.len()).any(|window| window == shown));
    }

    #[test]
    fn sizes_are_rounded_half_up() {
        let round = Listing { exact_size: false, ..listing(AutoindexFormat::Html) };
        for (len, size) in [
            (0, "       0"),
            (9999, "    9999"),
            (10_000, "     10K"),
            (10_751, "     10K"),
            (10_752, "     11K"),
            (1_048_575, "   1024K"),
            (1_048_576, "      1M"),
            (1_572_863, "      1M"),
            (1_572_864, "      2M"),
            (1_073_741_823, "   1024M"),
            (1_610_612_736, "      2G"),
            (9 << 30, "      9G"),
        ] {
            let line = line(&round, file("f", len));
            assert!(line.ends_with(&format!("08:49{size}")), "{len}: {line}");
        }
        assert!(line(&round, dir("d")).ends_with("08:49       -"));
    }

    #[test]
    fn dates_are_moved_by_the_offset() {
        let local = Listing { offset_secs: 3600, ..listing(AutoindexFormat::Html) };
        assert!(line(&local, file("f", 1)).contains("06-Nov-1994 09:49"));
    }

    #[test]
    fn json_and_xml_say_kind_time_and_size() {
        let other = Entry { is_file: false, ..file("p", 0) };
        let entries = || [file("a\"\u{1}<", 3), dir("d"), other.clone()];
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let json = format!(
            "[\r\n{{ \"name\":\"d\", \"type\":\"directory\", \"mtime\":\"{date}\" }},\
             \r\n{{ \"name\":\"a\\\"\\u0001<\", \"type\":\"file\", \"mtime\":\"{date}\", \"size\":3 }},\
             \r\n{{ \"name\":\"p\", \"type\":\"other\", \"mtime\":\"{date}\" }}\r\n]"
        );
        let text = |listing: &Listing<'_>| String::from_utf8(render(listing, entries())).expect("text");
        assert_eq!(text(&listing(AutoindexFormat::Json)), json);
        assert_eq!(text(&listing(AutoindexFormat::Jsonp)), json);
        let jsonp = Listing { callback: Some(b"f"), ..listing(AutoindexFormat::Jsonp) };
        assert_eq!(text(&jsonp), format!("/* callback */\r\nf({json});"));
        let xml = "<?xml version=\"1.0\"?>\r\n<list>\r\n\
                   <directory mtime=\"1994-11-06T08:49:37Z\">d</directory>\r\n\
                   <file mtime=\"1994-11-06T08:49:37Z\" size=\"3\">a&quot;\u{1}&lt;</file>\r\n\
                   <other mtime=\"1994-11-06T08:49:37Z\">p</other>\r\n</list>\r\n";
        assert_eq!(text(&listing(AutoindexFormat::Xml)), xml);
        assert_eq!(render(&listing(AutoindexFormat::Json), []), b"[\r\n]");
    }

    #[test]
    fn callbacks_are_names() {
        let long = "a".repeat(129);
        for (argument, expected) in [
            (None, Ok(None)),
            (Some(""), Ok(None)),
            (Some("a.b_1"), Ok(Some("a.b_1"))),
            (Some("alert(1)"), Err(CallbackError::Invalid)),
            (Some("é"), Err(CallbackError::Invalid)),
            (Some(&long[1..]), Ok(Some(&long[1..]))),
            (Some(&long), Err(CallbackError::TooLong)),
        ] {
            let expected = expected.map(|name: Option<&str>| name.map(str::as_bytes));
            assert_eq!(check_callback(argument.map(str::as_bytes)), expected, "{argument:?}");
        }
    }

    #[test]
    fn a_directory_is_read_without_hidden_files_and_through_links() {
        let tree = ::tempfile::tempdir().expect("a temp dir can be made");
        let at = |name: &str| tree.path().join(name);
        std::fs::write(at("f"), "abc").expect("written");
        std::fs::write(at(".hidden"), "").expect("written");
        std::fs::create_dir(at("d")).expect("made");
        for (link, target) in [("to-d", "d"), ("to-f", "f"), ("broken", "nowhere"), ("loop", "loop")] {
            std::os::unix::fs::symlink(target, at(link)).expect("linked");
        }
        let path = std::os::unix::ffi::OsStrExt::as_bytes(tree.path().as_os_str());
        let mut entries: Vec<_> = read(path)
            .expect("the directory can be read")
            .into_iter()
            .map(|entry| (String::from_utf8(entry.name).expect("text"), entry.is_dir, entry.is_file))
            .collect();
        entries.sort();
        let expected = [
            ("broken", false, false),
            ("d", true, false),
            ("f", false, true),
            ("loop", false, false),
            ("to-d", true, false),
            ("to-f", false, true),
        ];
        assert_eq!(entries, expected.map(|(name, is_dir, is_file)| (name.to_owned(), is_dir, is_file)));
        assert!(matches!(read(b"/nowhere"), Err(OpenError::NotFound(_))));
    }
}
