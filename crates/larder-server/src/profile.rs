//! A profile, made ready to be asked about requests: rows are found by the first byte of what they name, so that one pass
//! over the cookies, the slashes of the path and the arguments answers. Nothing is allocated.

mod index;
mod php;

use std::fmt;

use larder_conf::model::{self, Glob, Part, ProfileRow, Says};
use larder_http::{Fields, Known, Names, unescape};

use crate::vsl::Shown;

use index::Index;

/// The rows of a profile.
pub struct Profile {
    /// What people call it.
    pub name: Box<str>,
    rows: Box<[ProfileRow]>,
    only_static: bool,
    cookies: Index,
    /// Of personal, first and last paths.
    paths: Index,
    files: Index,
    arguments: Index,
    ignored_arguments: Index,
    /// The names of personal fields.
    fields: Names,
    agents: Box<[u16]>,
}

/// What of a request is asked about.
#[derive(Clone, Copy)]
pub struct Request<'r> {
    /// The head.
    pub fields: &'r Fields,
    /// Paths, decoded and in normal form, each with its query: what the client has asked for, and what that has become, or
    /// nothing.
    pub urls: [(&'r [u8], &'r [u8]); 2],
}

/// Whose a page is.
#[derive(Clone, Copy, Debug)]
pub enum Standing<'p, 'r> {
    /// Everybody's.
    ForAll {
        /// Whether there are cookies that the key tells pages apart by, so that all go to the origin.
        is_keyed: bool,
    },
    /// A file's, whatever cookies come with the request, by this row.
    File(&'p ProfileRow),
    /// One visitor's.
    Personal(Why<'p, 'r>),
}

/// Why a page may be one visitor's.
#[derive(Clone, Copy, Debug)]
pub enum Why<'p, 'r> {
    /// A row says it.
    Row(&'p ProfileRow),
    /// No row knows this cookie.
    Unknown(&'r [u8]),
    /// All is that is no file.
    NoFile,
}

/// Who comes first where origins are scarce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// First.
    High,
    /// Most.
    Normal,
    /// Last.
    Low,
}

impl Class {
    /// The value of `$larder_profile_class`.
    pub fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}

impl fmt::Display for Why<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row(row) => {
                let word = part_of(row.says).map_or("", Part::word);
                write!(f, "{word} {} ({}:{})", row.pattern, row.place.0, row.place.1)
            }
            Self::Unknown(name) => {
                write!(f, "cookie {}, which it does not know", Shown(name).cut(NAME_BYTES_MAX))
            }
            Self::NoFile => f.write_str("it is no file of it"),
        }
    }
}

impl Profile {
    /// Of the rows that were read.
    pub fn new(model: &model::Profile) -> Self {
        let rows = &model.rows;
        let index = |is_meant: fn(Says) -> bool, first: fn(&Glob) -> Option<u8>| {
            Index::new(rows, |row| is_meant(row.says).then(|| first(&row.pattern)))
        };
        let mut fields = Names::default();
        for row in rows.iter().filter(|row| row.says == Says::Personal(Part::Field)) {
            fields.insert(row.pattern.start.as_bytes());
        }
        let agents = Index::new(rows, |row| (part_of(row.says) == Some(Part::Agent)).then_some(None)).any;
        Self {
            name: model.name.as_str().into(),
            only_static: model.only_static,
            cookies: index(
                |says| matches!(says, Says::IgnoredCookie | Says::KeyedCookie) || part_of(says) == Some(Part::Cookie),
                |glob| glob.start.bytes().next(),
            ),
            paths: index(|says| part_of(says) == Some(Part::Path), after_slash),
            files: index(|says| matches!(says, Says::Static(_)), after_slash),
            arguments: index(
                |says| part_of(says) == Some(Part::Argument),
                |glob| glob.start.bytes().next().map(php::small),
            ),
            ignored_arguments: index(|says| says == Says::IgnoredArgument, |glob| glob.start.bytes().next()),
            fields,
            agents,
            rows: rows.clone().into(),
        }
    }

    /// Whose the page of a request is. `buffer` is to work in.
    pub fn standing<'p, 'r>(&'p self, request: &Request<'r>, buffer: &mut Vec<u8>) -> Standing<'p, 'r> {
        let is_personal = |row: &&ProfileRow| matches!(row.says, Says::Personal(_));
        if request.fields.contains_any(&self.fields) {
            let named = |row: &&ProfileRow| {
                row.says == Says::Personal(Part::Field) && request.fields.contains(&row.pattern.start)
            };
            if let Some(row) = self.rows.iter().find(named) {
                return Standing::Personal(Why::Row(row));
            }
        }
        for (path, query) in request.urls {
            if let Some(row) = self.path(path).find(is_personal) {
                return Standing::Personal(Why::Row(row));
            }
            if let Some(row) = self.argument(query, buffer, |says| matches!(says, Says::Personal(_))) {
                return Standing::Personal(Why::Row(row));
            }
        }
        match self.files(&request.urls) {
            Some(row) => Standing::File(row),
            None if self.only_static => Standing::Personal(Why::NoFile),
            None => self.by_cookies(request.fields, buffer),
        }
    }

    /// Who comes first, and by which part of the request; by none for most. Who says to be a program comes last, whatever it
    /// asks for.
    pub fn class(&self, request: &Request<'_>, buffer: &mut Vec<u8>) -> (Class, Option<Part>) {
        let agent = request.fields.get_known(Known::UserAgent).unwrap_or_default();
        let is_named = |says| {
            let mut words = self.agents.iter().map(|at| &self.rows[usize::from(*at)]).filter(|row| row.says == says);
            words.any(|row| contains(agent, row.pattern.start.as_bytes()))
        };
        if is_named(Says::Last(Part::Agent)) {
            return (Class::Low, Some(Part::Agent));
        }
        if is_named(Says::First(Part::Agent)) {
            return (Class::High, Some(Part::Agent));
        }
        if let Some(part) = self.says(Says::First, request, buffer) {
            return (Class::High, Some(part));
        }
        match self.says(Says::Last, request, buffer) {
            Some(part) => (Class::Low, Some(part)),
            None => (Class::Normal, None),
        }
    }

    /// The part of a request of which a row says this.
    fn says(&self, what: fn(Part) -> Says, request: &Request<'_>, buffer: &mut Vec<u8>) -> Option<Part> {
        let of_url = |(path, query): (&[u8], &[u8])| {
            if self.path(path).any(|row| row.says == what(Part::Path)) {
                return Some(Part::Path);
            }
            self.argument(query, buffer, |says| says == what(Part::Argument)).map(|_| Part::Argument)
        };
        let is_cookie = |name: &[u8]| {
            let mut named = self.cookies.of(name.first().copied()).map(|at| &self.rows[at]);
            named.any(|row| row.says == what(Part::Cookie) && is_named(&row.pattern, name))
        };
        let is_field = |row: &ProfileRow| row.says == what(Part::Field) && request.fields.contains(&row.pattern.start);
        if let Some(part) = request.urls.into_iter().find_map(of_url) {
            return Some(part);
        }
        if cookie_names(request.fields).any(is_cookie) {
            return Some(Part::Cookie);
        }
        self.rows.iter().any(is_field).then_some(Part::Field)
    }

    /// Whether an argument of a query is left out of keys.
    pub fn has_ignored(&self, query: &[u8]) -> bool {
        !query.is_empty() && pairs(query).any(|pair| self.is_ignored(pair))
    }

    /// Whether an argument of a query is not.
    pub fn keeps_some(&self, query: &[u8]) -> bool {
        !query.is_empty() && pairs(query).any(|pair| !self.is_ignored(pair))
    }

    /// Appends a query without the arguments that are left out of keys.
    pub fn append_kept(&self, query: &[u8], out: &mut Vec<u8>) {
        let mut is_first = true;
        for pair in pairs(query).filter(|pair| !self.is_ignored(pair)) {
            if !std::mem::take(&mut is_first) {
                out.push(b'&');
            }
            out.extend_from_slice(pair);
        }
    }

    /// The same for a path with its query, as it is sent.
    pub fn append_kept_target(&self, target: &[u8], out: &mut Vec<u8>) {
        let Some(at) = memchr::memchr(b'?', target) else { return out.extend_from_slice(target) };
        let (path, query) = (&target[..at], &target[at + 1..]);
        if !self.has_ignored(query) {
            return out.extend_from_slice(target);
        }
        out.extend_from_slice(path);
        out.push(b'?');
        let before = out.len();
        self.append_kept(query, out);
        if out.len() == before {
            out.pop();
        }
    }

    /// The same as bytes of their own.
    pub fn kept_target(&self, target: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.append_kept_target(target, &mut out);
        out
    }

    /// Whether an argument is left out of keys.
    pub fn is_ignored(&self, pair: &[u8]) -> bool {
        self.ignored_by(pair).is_some()
    }

    /// By what an argument is left out of keys, by its name as it is written: what is spelled otherwise stays.
    pub fn ignored_by(&self, pair: &[u8]) -> Option<&Glob> {
        let name = &pair[..memchr::memchr(b'=', pair).unwrap_or(pair.len())];
        let mut rows = self.ignored_arguments.of(name.first().copied()).map(|at| &self.rows[at].pattern);
        rows.find(|pattern| is_named(pattern, name))
    }

    /// By the first cookie that may be personal. What a row names most closely counts, and a personal one among equals.
    fn by_cookies<'r>(&self, fields: &'r Fields, buffer: &mut Vec<u8>) -> Standing<'_, 'r> {
        let mut is_keyed = false;
        for name in cookie_names(fields) {
            match self.cookie(name, |a, b| a == b) {
                Some(row) if !matches!(row.says, Says::IgnoredCookie | Says::KeyedCookie) => {
                    return Standing::Personal(Why::Row(row));
                }
                // It may be another to PHP, which before 8.0 has unescaped names.
                Some(row) if php::changes(name) => {
                    buffer.clear();
                    unescape(name, buffer);
                    for read in [php::name(name), php::name(buffer)] {
                        let other = self.cookie(read, |a, b| php::byte(a) == php::byte(b));
                        match other {
                            Some(other) if matches!(other.says, Says::Personal(_)) => {
                                return Standing::Personal(Why::Row(other));
                            }
                            Some(other) if other.says == row.says => {}
                            Some(_) | None => return Standing::Personal(Why::Unknown(name)),
                        }
                    }
                    is_keyed |= row.says == Says::KeyedCookie;
                }
                Some(row) => is_keyed |= row.says == Says::KeyedCookie,
                None => return Standing::Personal(Why::Unknown(name)),
            }
        }
        Standing::ForAll { is_keyed }
    }

    /// The row that names a cookie most closely.
    fn cookie(&self, name: &[u8], is_same: fn(u8, u8) -> bool) -> Option<&ProfileRow> {
        let named = self.cookies.of(name.first().copied()).map(|at| &self.rows[at]);
        let named = named.filter(|row| {
            let Glob { start, end } = &row.pattern;
            rank(row.says) > 0 && matches(start, end.as_deref(), name, is_same)
        });
        named.max_by_key(|row| (row.pattern.weight(), rank(row.says)))
    }

    /// The rows about a path: from one of its slashes on it is named, up to its end, a slash or a dot.
    fn path<'p>(&'p self, path: &[u8]) -> impl Iterator<Item = &'p ProfileRow> {
        from_slashes(path).flat_map(move |rest| {
            let rows = self.paths.of(rest.get(1).map(u8::to_ascii_lowercase)).map(|at| &self.rows[at]);
            rows.filter(move |row| reaches(&row.pattern, rest))
        })
    }

    /// The row that calls what is asked for a file. What has led to a page is none, whatever it was called.
    fn files(&self, urls: &[(&[u8], &[u8])]) -> Option<&ProfileRow> {
        let mut paths = urls.iter().map(|(path, _)| *path).filter(|path| !path.is_empty());
        let first = paths.next().and_then(|path| self.file(path))?;
        paths.all(|path| self.file(path).is_some()).then_some(first)
    }

    /// The row that calls a path a file.
    fn file(&self, path: &[u8]) -> Option<&ProfileRow> {
        // What stands behind a script is its own matter.
        if contains(path, b".php/") {
            return None;
        }
        from_slashes(path).find_map(|rest| {
            let mut rows = self.files.of(rest.get(1).map(u8::to_ascii_lowercase)).map(|at| &self.rows[at]);
            rows.find(|row| is_named(&row.pattern, rest))
        })
    }

    /// The first row about an argument that is meant, as PHP reads names.
    fn argument(
        &self,
        query: &[u8],
        buffer: &mut Vec<u8>,
        mut is_meant: impl FnMut(Says) -> bool,
    ) -> Option<&ProfileRow> {
        if query.is_empty() {
            return None;
        }
        for pair in pairs(query) {
            let pair = match memchr::memchr2(b'%', b'+', pair) {
                None => pair,
                Some(_) => {
                    buffer.clear();
                    unescape(pair, buffer);
                    &*buffer
                }
            };
            let (name, value) = match memchr::memchr(b'=', pair) {
                Some(at) => (&pair[..at], &pair[at + 1..]),
                None => (pair, &b""[..]),
            };
            let name = php::name(name);
            for at in self.arguments.of(name.first().copied().map(php::small)) {
                let row = &self.rows[at];
                if php::is_argument(&row.pattern, name, value) && is_meant(row.says) {
                    return Some(row);
                }
            }
        }
        None
    }
}

/// How much of a name of a cookie is shown.
const NAME_BYTES_MAX: usize = 64;

/// How much a row about a cookie weighs against one that is as close; 0 for those that do not say whose a page is.
fn rank(says: Says) -> u8 {
    match says {
        Says::IgnoredCookie => 1,
        Says::KeyedCookie => 2,
        Says::Personal(_) => 3,
        Says::IgnoredArgument | Says::Static(_) | Says::First(_) | Says::Last(_) => 0,
    }
}

/// The part of a request that a row is about, unless it says that a cookie or an argument is ignored.
fn part_of(says: Says) -> Option<Part> {
    match says {
        Says::Personal(part) | Says::First(part) | Says::Last(part) => Some(part),
        Says::IgnoredCookie | Says::KeyedCookie | Says::IgnoredArgument | Says::Static(_) => None,
    }
}

fn after_slash(glob: &Glob) -> Option<u8> {
    glob.start.as_bytes().get(1).map(u8::to_ascii_lowercase)
}

/// The names of all cookies. One without a name is one, too.
fn cookie_names(fields: &Fields) -> impl Iterator<Item = &[u8]> {
    let pairs = fields.all_known(Known::Cookie).flat_map(|line| line.split(|byte| *byte == b';'));
    pairs.map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty()).map(|pair| {
        let name = &pair[..memchr::memchr(b'=', pair).unwrap_or(pair.len())];
        name.trim_ascii_end()
    })
}

fn pairs(query: &[u8]) -> impl Iterator<Item = &[u8]> {
    query.split(|byte| *byte == b'&')
}

/// What stands in a path from each of its slashes on.
fn from_slashes(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    memchr::memchr_iter(b'/', path).map(|at| &path[at..])
}

/// Whether a text is what a pattern names, as a whole.
fn is_named(pattern: &Glob, text: &[u8]) -> bool {
    matches(&pattern.start, pattern.end.as_deref(), text, |a, b| a == b)
}

/// Whether a text begins and ends so; without an end, whether it is that.
fn matches(start: &str, end: Option<&str>, text: &[u8], is_same: impl Fn(u8, u8) -> bool) -> bool {
    let same = |a: &[u8], b: &[u8]| a.iter().zip(b).all(|(a, b)| is_same(*a, *b));
    let start = start.as_bytes();
    match end {
        None => start.len() == text.len() && same(start, text),
        Some(end) => {
            let Some(end_at) = text.len().checked_sub(end.len()).filter(|at| *at >= start.len()) else { return false };
            same(start, text) && same(end.as_bytes(), &text[end_at..])
        }
    }
}

/// Whether what is left of a path begins with what a pattern names, and that ends there or at a `/` or `.`.
fn reaches(pattern: &Glob, rest: &[u8]) -> bool {
    let is_same = |a: u8, b: u8| a.eq_ignore_ascii_case(&b);
    if pattern.end.is_some() {
        return matches(&pattern.start, pattern.end.as_deref(), rest, is_same);
    }
    let start = pattern.start.as_bytes();
    let ends = |byte: Option<&u8>| start.ends_with(b":") || matches!(byte, None | Some(b'/' | b'.'));
    rest.len() >= start.len() && start.eq_ignore_ascii_case(&rest[..start.len()]) && ends(rest.get(start.len()))
}

/// Whether a word is in a text, in any case.
fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len().max(1)).any(|part| part.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use larder_conf::profiles;

    use super::*;

    /// A profile that is written for a test, on top of nothing.
    fn profile(text: &str) -> Profile {
        let mut wrong = Vec::new();
        let written = profiles::read(text, 0, "x.profile", &mut wrong);
        let made = profiles::own("x", &written, &mut wrong);
        assert!(wrong.is_empty(), "{wrong:?}");
        Profile::new(&made)
    }

    fn ours(name: &str) -> Profile {
        Profile::new(&profiles::known(profiles::find(name).expect("it is one of ours")))
    }

    /// Whose the page is of a request with these fields, for a URL that may have led to another.
    fn told(profile: &Profile, urls: &[&str], fields: &[(&str, &str)]) -> String {
        let fields: Fields = fields.iter().copied().collect();
        let part = |url: &&str| -> (Vec<u8>, Vec<u8>) {
            let (path, query) = url.split_once('?').unwrap_or((url, ""));
            (path.into(), query.into())
        };
        let urls: Vec<_> = urls.iter().map(part).collect();
        let of = |at: usize| urls.get(at).map_or((&b""[..], &b""[..]), |(path, query)| (&path[..], &query[..]));
        let request = Request { fields: &fields, urls: [of(0), of(1)] };
        match profile.standing(&request, &mut Vec::new()) {
            Standing::ForAll { is_keyed: false } => "all".to_owned(),
            Standing::ForAll { is_keyed: true } => "all of a key".to_owned(),
            Standing::File(row) => format!("file {}", row.place.1),
            Standing::Personal(why) => why.to_string(),
        }
    }

    #[test]
    fn a_cookie_is_personal_unless_it_is_known_to_change_no_page() {
        let profile = profile(
            "personal cookie s_* s id*x\nignored cookie s_ok a* a_b*\npersonal cookie a_b* c\nignored cookie c k\nkeyed cookie k l_*",
        );
        for (lines, expected) in [
            (&[][..], "all"),
            (&[""], "all"),
            (&[" ; ;"], "all"),
            (&["s_ok=1"], "all"),
            (&["s_ok=1; s_no=2"], "cookie s_* (x.profile:1)"),
            (&["s_ok=1", "s=2"], "cookie s (x.profile:1)"),
            (&["s_ok=1;s =2"], "cookie s (x.profile:1)"),
            (&["s"], "cookie s (x.profile:1)"),
            (&["a=1"], "all"),
            (&["a_bc=1"], "cookie a_b* (x.profile:3)"),
            (&["c=1"], "cookie c (x.profile:3)"),
            (&["k=1"], "all of a key"),
            (&["a=1; l_x=1"], "all of a key"),
            (&["l_x=1; s=1"], "cookie s (x.profile:1)"),
            (&["idx=1"], "cookie id*x (x.profile:1)"),
            (&["id_x=1"], "cookie id*x (x.profile:1)"),
            (&["id=1"], "cookie id, which it does not know"),
            (&["ix=1"], "cookie ix, which it does not know"),
            (&["S=1"], "cookie S, which it does not know"),
            (&["=1"], "cookie , which it does not know"),
            (&["a=\"; s=1\""], "cookie s (x.profile:1)"),
            (&["a=1, s=1"], "all"),
        ] {
            let fields: Vec<_> = lines.iter().map(|line| ("Cookie", *line)).collect();
            assert_eq!(told(&profile, &["/"], &fields), expected, "{lines:?}");
        }
    }

    #[test]
    fn a_cookie_is_known_by_the_name_that_php_has_for_it() {
        let profile = profile("ignored cookie a* *_ok\npersonal cookie a_b* s\nkeyed cookie k*");
        for (line, expected) in [
            ("a.1.2f=1", "all"),
            ("a.b=1", "cookie a_b* (x.profile:2)"),
            ("a[b=1", "cookie a_b* (x.profile:2)"),
            ("a%5Fb=1", "cookie a_b* (x.profile:2)"),
            ("a%20b=1", "cookie a_b* (x.profile:2)"),
            ("a[b]=1", "all"),
            ("s_ok=1", "all"),
            ("s[_ok=1", "all"),
            ("s%00_ok=1", "cookie s (x.profile:2)"),
            ("s[x]_ok=1", "cookie s (x.profile:2)"),
            ("t[x]_ok=1", "cookie t[x]_ok, which it does not know"),
            ("k[x]_ok=1", "cookie k[x]_ok, which it does not know"),
            ("k.x=1", "all of a key"),
        ] {
            assert_eq!(told(&profile, &["/"], &[("Cookie", line)]), expected, "{line}");
        }
    }

    #[test]
    fn a_path_is_found_at_any_depth_and_ends_where_a_name_does() {
        let profile = profile("personal path /cart /my-account /a/b /wiki/Special: /x/*.key");
        for (urls, expected) in [
            (&["/"][..], "all"),
            (&["/cart"], "cart"),
            (&["/cart/"], "cart"),
            (&["/de/CART/2"], "cart"),
            (&["/cart.php"], "cart"),
            (&["/cart.php/x"], "cart"),
            (&["/carts"], "all"),
            (&["/acart"], "all"),
            (&["/discarted/"], "all"),
            (&["/x/my-account"], "my-account"),
            (&["/a/b/c"], "a/b"),
            (&["/a/c"], "all"),
            (&["/wiki/Special:UserLogin"], "wiki/Special:"),
            (&["/x/y/z.key"], "x/*.key"),
            (&["/x/y/z.keys"], "all"),
            (&["/cart", "/index.php"], "cart"),
            (&["/", "/cart"], "cart"),
        ] {
            let expected = if expected == "all" { "all".to_owned() } else { format!("path /{expected} (x.profile:1)") };
            assert_eq!(told(&profile, urls, &[]), expected, "{urls:?}");
        }
    }

    #[test]
    fn an_argument_is_found_as_php_reads_its_name() {
        let profile = profile("personal argument preview preview_id add-to-cart action=edit title=Special:*");
        for (query, expected) in [
            ("", "all"),
            ("preview", "preview"),
            ("a=1&preview=true", "preview"),
            ("pre%76iew=true", "preview"),
            ("+preview=1", "preview"),
            ("preview[]=1", "preview"),
            ("preview%5B%5D=1", "preview"),
            ("preview.id=1", "preview_id"),
            ("preview+id=1", "preview_id"),
            ("PREVIEW=1", "preview"),
            ("preview%00=1", "preview"),
            ("preview%00x=1", "preview"),
            ("%20preview%00[=1", "preview"),
            ("preview[%00]=1", "all"),
            ("preview[id=1", "preview_id"),
            ("preview%5Bid=1", "preview_id"),
            ("preview[=1", "all"),
            ("[preview]=1", "all"),
            ("add-to-cart%00[]=7", "add-to-cart"),
            ("action%00=edit", "action=edit"),
            ("action[]=edit", "action=edit"),
            ("title%00x=Special:A", "title=Special:*"),
            ("previews=1", "all"),
            ("a=preview", "all"),
            ("a=1%26preview=1", "all"),
            ("add-to-cart=7", "add-to-cart"),
            ("action=edit", "action=edit"),
            ("action=%65dit", "action=edit"),
            ("action=edits", "all"),
            ("action=view", "all"),
            ("title=Special%3AUserLogin&x", "title=Special:*"),
            ("title=Specials", "all"),
            ("%", "all"),
            ("%7", "all"),
            ("&&=&", "all"),
        ] {
            let expected =
                if expected == "all" { "all".to_owned() } else { format!("argument {expected} (x.profile:1)") };
            assert_eq!(told(&profile, &[&format!("/?{query}")], &[]), expected, "{query}");
            assert_eq!(told(&profile, &["/", &format!("/index.php?{query}")], &[]), expected, "{query}");
        }
    }

    #[test]
    fn a_file_is_the_same_whatever_cookies_come_but_not_whatever_else_does() {
        let profile =
            profile("static 1d /f/*.css\npersonal path /f/secret\npersonal argument who\npersonal field X-Who");
        let cookie = &[("Cookie", "a=1")][..];
        for (urls, fields, expected) in [
            (&["/f/a.css"][..], &[][..], "file 1"),
            (&["/f/a.css"], cookie, "file 1"),
            (&["/x/f/a.css?v=1"], &[], "file 1"),
            (&["/f/a.css/x"], cookie, "cookie a, which it does not know"),
            (&["/f/a.CSS"], cookie, "cookie a, which it does not know"),
            (&["/x.php/f/a.css"], cookie, "cookie a, which it does not know"),
            // The page of an application in the place of a file.
            (&["/f/a.css", "/index.php"], cookie, "cookie a, which it does not know"),
            (&["/f/a.css", "/y/f/a.css"], &[], "file 1"),
            (&["/f/secret/a.css"], &[], "path /f/secret (x.profile:2)"),
            (&["/f/a.css?who=me"], &[], "argument who (x.profile:3)"),
            (&["/f/a.css"], &[("x-who", "me")], "field X-Who (x.profile:4)"),
        ] {
            assert_eq!(told(&profile, urls, fields), expected, "{urls:?} {fields:?}");
        }
    }

    #[test]
    fn where_all_else_is_personal_only_files_are_for_all() {
        let profile = ours("nextcloud");
        for (url, expected) in [
            ("/core/css/server.css", "file"),
            ("/cloud/apps/files/l/x.mjs", "file"),
            ("/core/preview.png", "it is no file of it"),
            ("/index.php/apps/files/", "it is no file of it"),
            ("/", "it is no file of it"),
        ] {
            let told = told(&profile, &[url], &[("Cookie", "oc_sessionPassphrase=1")]);
            assert!(told.starts_with(expected), "{url}: {told}");
        }
    }

    #[test]
    fn arguments_of_campaigns_are_left_out_and_the_others_stay_as_they_are() {
        let profile = ours("common");
        for (target, expected) in [
            ("/", "/"),
            ("/?", "/?"),
            ("/?a=1&b=2", "/?a=1&b=2"),
            ("/?utm_source=x", "/"),
            ("/?utm_source=x&b=%41&&a&gclid=y", "/?b=%41&&a"),
            ("/?b=2&fbclid", "/?b=2"),
            ("/?a=utm_source", "/?a=utm_source"),
            ("/?UTM_source=x", "/?UTM_source=x"),
            ("/?%75tm_source=x", "/?%75tm_source=x"),
            ("/?utm_source=x?y", "/"),
            ("/?a=1?gclid=2", "/?a=1?gclid=2"),
        ] {
            let mut out = Vec::new();
            profile.append_kept_target(target.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected, "{target}");
            let query = target.split_once('?').map_or("", |(_, query)| query);
            let mut kept = Vec::new();
            profile.append_kept(query.as_bytes(), &mut kept);
            assert_eq!(profile.keeps_some(query.as_bytes()), !kept.is_empty(), "{target}");
        }
    }

    #[test]
    fn who_buys_comes_first_and_programs_come_last() {
        let profile = ours("woocommerce");
        for (url, fields, expected) in [
            ("/", &[][..], Class::Normal),
            ("/de/checkout/", &[], Class::High),
            ("/?add-to-cart=5", &[], Class::High),
            ("/", &[("Cookie", "_ga=1; wp_woocommerce_session_x=1")], Class::High),
            ("/feed/", &[], Class::Low),
            ("/", &[("User-Agent", "Mozilla/5.0 (compatible; GoogleBot/2.1)")], Class::Low),
            ("/checkout", &[("User-Agent", "curl/8")], Class::Low),
            ("/checkout", &[("User-Agent", "")], Class::High),
        ] {
            let fields: Fields = fields.iter().copied().collect();
            let (path, query) = url.split_once('?').unwrap_or((url, ""));
            let request = Request { fields: &fields, urls: [(path.as_bytes(), query.as_bytes()), (b"", b"")] };
            assert_eq!(profile.class(&request, &mut Vec::new()).0, expected, "{url}");
        }
    }

    #[test]
    fn on_any_site_a_session_comes_first_and_a_crawler_last() {
        const CHROME: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120.0.0.0 Safari/537.36";
        const GOOGLE: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
        let profile = ours("common");
        for (cookie, agent, expected) in [
            ("", CHROME, Class::Normal),
            ("", "", Class::Normal),
            ("_ga=GA1.2; _hjSessionUser_1=x; lang=de", CHROME, Class::Normal),
            ("a=PHPSESSID=1", CHROME, Class::Normal),
            ("a=1; wordpress_logged_in_0123=me", CHROME, Class::High),
            ("PHPSESSID=1", CHROME, Class::High),
            ("SESS0123=1", CHROME, Class::High),
            ("", GOOGLE, Class::Low),
            ("", "Googlebot-Image/1.0", Class::Low),
            ("", "Mozilla/5.0 (compatible; YandexBot/3.0)", Class::Low),
            ("", "facebookexternalhit/1.1", Class::Low),
            ("", "Mozilla/5.0 (Linux; Android 9; CUBOT X19) Chrome/96.0", Class::Normal),
            ("JSESSIONID=1", GOOGLE, Class::Low),
        ] {
            let fields: Fields = [("Cookie", cookie), ("User-Agent", agent)].into_iter().collect();
            let request = Request { fields: &fields, urls: [(b"/", b""), (b"", b"")] };
            assert_eq!(profile.class(&request, &mut Vec::new()).0, expected, "{cookie} {agent}");
        }
    }

    #[test]
    fn visitors_of_each_application_are_told_apart() {
        let cookie = |value: &'static str| vec![("Cookie", value)];
        for (name, url, fields, is_personal) in [
            ("wordpress", "/2026/hello/", vec![], false),
            ("wordpress", "/2026/hello/?utm_source=news", cookie("_ga=GA1.1.1; _fbp=fb.1"), false),
            ("wordpress", "/hello/", cookie("wordpress_test_cookie=WP+Cookie+check"), false),
            ("wordpress", "/hello/", cookie("cookieyes-consent=1; CookieLawInfoConsent=1; cmplz_policy_id=1"), false),
            ("wordpress", "/hello/", cookie("_cfuvid=1; __stripe_mid=1; __stripe_sid=1; borlabs-cookie-uid=1"), false),
            ("wordpress", "/hello/", cookie("wp-wpml_current_language=de; trp_language=de; googtrans=/en/de"), false),
            (
                "wordpress",
                "/hello/",
                cookie("twk_uuid_1=1; tawkConnectionTime=1; _pk_id.1.1fff=1; pys_first_visit=1"),
                false,
            ),
            (
                "wordpress",
                "/hello/",
                cookie("mailchimp_landing_site=https%3A%2F%2Fa.test; _wpfuuid=1; affwp_ref=3"),
                false,
            ),
            ("wordpress", "/hello/", cookie("wmc_current_currency=EUR"), true),
            ("wordpress", "/hello/", cookie("rated_7=5"), true),
            ("wordpress", "/hello/", cookie("wordpress_logged_in_5b769bc2=x"), true),
            ("wordpress", "/hello/", cookie("wordpress_5b769bc2=x"), true),
            ("wordpress", "/hello/", cookie("wp-postpass_5b769bc2=%24P%24B"), true),
            ("wordpress", "/hello/", cookie("comment_author_email_5b769bc2=a"), true),
            ("wordpress", "/hello/", cookie("pll_language=de"), true),
            ("wordpress", "/?p=7&preview=true", vec![], true),
            ("wordpress", "/wp-login.php", vec![], true),
            ("wordpress", "/blog/wp-admin/post.php", vec![], true),
            ("wordpress", "/hello/", vec![("Authorization", "Basic YTpi")], true),
            ("woocommerce", "/product/hat/", cookie("sbjs_first=typ%3Dtypein; tk_ai=woo"), false),
            ("woocommerce", "/product/hat/", cookie("woocommerce_items_in_cart=1"), true),
            ("woocommerce", "/shop/?add-to-cart=9", vec![], true),
            ("woocommerce", "/checkout/order-received/12/", vec![], true),
            ("woocommerce", "/hello/", cookie("wordpress_logged_in_5b769bc2=x"), true),
            ("edd", "/downloads/a/", cookie("edd_items_in_cart=1"), true),
            ("edd", "/?edd_action=add_to_cart", vec![], true),
            ("bbpress", "/forums/topic/a/?bbp_reply_to=4", vec![], true),
            ("bbpress", "/forums/?action=bbp_subscribe&object_id=1", vec![], true),
            ("bbpress", "/forums/topic/a/", vec![], false),
            ("magento", "/hat.html", cookie("PHPSESSID=1; form_key=2; mage-cache-storage=%7B%7D"), false),
            ("magento", "/hat.html", cookie("PHPSESSID=1; X-Magento-Vary=3"), true),
            ("magento", "/customer/section/load/", vec![], true),
            ("magento", "/checkout/cart/", vec![], true),
            ("drupal", "/node/1", cookie("has_js=1"), false),
            ("drupal", "/node/1", cookie("SSESS5b769bc2=x"), true),
            ("drupal", "/node/1", cookie("NO_CACHE=1"), true),
            ("drupal", "/user/login", vec![], true),
            ("drupal", "/system/files/private.pdf", vec![], true),
            ("mediawiki", "/index.php/Main_Page", vec![], false),
            ("mediawiki", "/wiki/Main_Page", cookie("wikimwuser-sessionId=7"), false),
            ("mediawiki", "/wiki/Main_Page", cookie("wiki_session=7"), true),
            ("mediawiki", "/wiki/Main_Page", cookie("wikiUserID=7"), true),
            ("mediawiki", "/index.php?title=Special:UserLogin", vec![], true),
            ("mediawiki", "/index.php?title=A&action=edit", vec![], true),
            ("mediawiki", "/wiki/Special:Preferences", vec![], true),
            ("joomla", "/index.php/blog", vec![], false),
            ("joomla", "/", cookie("0cc175b9c0f1b6a831c399e269772661=x"), true),
            ("joomla", "/index.php?option=com_users&view=login", vec![], true),
            ("laravel", "/posts/1", cookie("shop_session=x"), true),
            ("laravel", "/posts/1", cookie("_gid=x"), false),
            ("symfony", "/posts/1", cookie("PHPSESSID=x"), true),
            ("symfony", "/_profiler/1", vec![], true),
            ("php", "/", cookie("x=1"), true),
            ("php", "/", vec![("X-Requested-With", "XMLHttpRequest")], true),
        ] {
            let told = told(&ours(name), &[url], &fields);
            let is_for_all = matches!(&*told, "all" | "all of a key");
            assert_eq!(!is_for_all, is_personal, "{name} {url} {fields:?}: {told}");
        }
    }
}
