//! What plugins say on the port of a site: by the method, the path and some fields of a request.
//!
//! | request | purges | of |
//! | --- | --- | --- |
//! | `PURGE /page` | the page | all |
//! | `PURGE /path/*`, `PURGE /path/.*`, `X-Purge-Method: regex` | what matches, on the host | Proxy Cache Purge, WP Rocket, W3 Total Cache |
//! | `PURGE` with `xkey: a b`, `Surrogate-Key`, `Cache-Tag` and the like | tags | Shopware, Fastly, Souin |
//! | `PURGE` with `X-Magento-Tags-Pattern`, `X-Pool` | tags, or a ban | Magento 2 |
//! | `PURGE` with `X-Cache-Tags`, `Purge-Cache-Tags`, `X-Cache-Tags-Pattern` | tags, or a ban | CloudPanel, Drupal, Proxy Cache Purge |
//! | `PURGE` with `X-Purge-Method: ban-regex`, `X-Ban-Regex` | what matches, on the host | Proxy Cache Purge |
//! | `BAN` with `Cache-Tags: a\|b` and the like | tags | Drupal |
//! | `BAN` with `X-Host`, `X-Url`, `X-Content-Type`, `X-Cache-Tags` | a ban | FOSHttpCache, Ibexa, Neos, varnish_purge |
//! | `BAN` with `Varnish-Ban-All`, `Varnish-Ban-TYPO3-*` | tags, or a ban | TYPO3 |
//! | `BAN` with `ApiPlatform-Ban-Regex` | tags, or a ban | API Platform |
//! | `BAN` with `X-Ban` | a ban in Varnish's words | people |
//! | `BAN /`, `BAN /part`, `BAN /path/*` | all, what has the part, what matches | Shopware, Acquia |
//! | `URIBAN /page` | the page in all schemes | Lagoon |
//! | `URLPURGE /page` | the page | Breeze |
//! | `PURGEKEYS` with `xkey-purge`, `xkey-softpurge` | tags | FOSHttpCache, Ibexa |
//! | `GET /purge/page` | the page | nginx-helper |

use larder_cache::{How, split_tags};
use larder_conf::model::TAG_NAMES;
use larder_http::Fields;

use super::fields::{self, Method};
use super::{Order, TAGS_MAX, Uri, What, Wrong, patterns};

/// What is looked at of a request.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its method.
    pub method: &'a [u8],
    /// Path and query, as sent.
    pub target: &'a [u8],
    /// Its fields.
    pub fields: &'a Fields,
    /// The names of the fields that have the tags of pages.
    pub tag_fields: &'a [Box<str>],
}

/// Whether requests of this method purge, whatever they say.
pub fn is_purge_method(method: &[u8]) -> bool {
    METHODS.contains(&method)
}

const METHODS: [&[u8]; 5] = [b"PURGE", b"BAN", b"URIBAN", b"PURGEKEYS", b"URLPURGE"];

/// What a request asks to be purged; `None` if it does not ask for that.
pub fn orders(asked: Asked<'_>) -> Option<Result<Vec<Order>, Wrong>> {
    Some(match asked.method {
        b"PURGE" => asked.check(Method::Purge).and_then(|()| purge(asked)),
        b"BAN" => asked.check(Method::Ban).and_then(|()| ban(asked)),
        b"URIBAN" => asked
            .check(Method::UriBan)
            .map(|()| vec![asked.order(What::Uri { of_host: true, uri: Uri::Is(asked.target.into()) })]),
        b"PURGEKEYS" => match asked.check(Method::PurgeKeys).and_then(|()| by_keys(asked)) {
            Ok(orders) if orders.is_empty() => Err(Wrong::Empty("xkey-purge".to_owned())),
            orders => orders,
        },
        b"URLPURGE" => asked.check(Method::UrlPurge).map(|()| vec![asked.order(What::Page(asked.target.into()))]),
        // A link to it in any page has a browser of those who may purge send it: it purges one page and no more.
        b"GET" => Ok(vec![asked.order(What::Page(helper_target(asked.target)?.to_vec()))]),
        _ => return None,
    })
}

/// The pages with the tags that the fields for tags name; none if there are no such fields.
pub fn by_tag_fields(asked: Asked<'_>) -> Result<Vec<Order>, Wrong> {
    asked.of_all_tags(asked.tags(Reading::AsTags)?)
}

/// Whether a field asks for pages to become stale, in place of going.
pub fn how(fields: &Fields) -> How {
    let is_set = |name| {
        let mut lines = fields.get_all(name).peekable();
        lines.peek().is_some() && lines.all(|value| matches!(value, b"1" | b"true" | b"on"))
    };
    if ["Fastly-Soft-Purge", "X-Purge-Soft"].into_iter().any(is_set) { How::Soft } else { How::Hard }
}

/// The page that nginx-helper means.
fn helper_target(target: &[u8]) -> Option<&[u8]> {
    target.strip_prefix(b"/purge").filter(|rest| rest.starts_with(b"/"))
}

fn purge(asked: Asked<'_>) -> Result<Vec<Order>, Wrong> {
    let (mut orders, mut tags) = (by_keys(asked)?, Vec::new());
    for (field, of_pages) in
        [("X-Magento-Tags-Pattern", "X-Magento-Tags"), ("X-Pool", "X-Pool"), ("X-Cache-Tags-Pattern", "X-Cache-Tags")]
    {
        for value in asked.texts(field)? {
            tags.push(Tagged::read(of_pages, value.as_bytes())?);
        }
    }
    tags.extend(asked.tags(Reading::AsTags)?);
    orders.extend(asked.of_all_tags(tags)?);
    if !orders.is_empty() {
        return Ok(orders);
    }
    if asked.target == b"/souin-api/souin/flush" {
        return Ok(vec![asked.order(What::All)]);
    }
    let target = asked.target.to_vec();
    let of_host = |uri| What::Uri { of_host: true, uri };
    let what = match asked.text("X-Purge-Method")?.map(str::to_ascii_lowercase).as_deref() {
        None | Some("default") => of_target(asked.target),
        Some("exact") => What::Page(target),
        Some("regex") => of_host(Uri::Matches(text("the URL", asked.target)?)),
        Some(BAN_REGEX) => match asked.text("X-Ban-Regex")? {
            Some(regex) => of_host(Uri::Matches(regex.to_owned())),
            None => return Err(Wrong::Empty("X-Ban-Regex".to_owned())),
        },
        // It says so beside the tags.
        Some("tags") => return Err(Wrong::Empty("X-Cache-Tags-Pattern".to_owned())),
        Some("prefix") => of_host(Uri::Begins(target)),
        Some("host") => What::Host,
        Some("all") => What::All,
        Some(other) => {
            return Err(Wrong::Unknown {
                field: "X-Purge-Method",
                value: other.to_owned(),
                known: "default, exact, regex, ban-regex, tags, prefix, host or all",
            });
        }
    };
    let all_schemes = asked.text("X-Purge-Scheme")?.is_some_and(|value| value.eq_ignore_ascii_case("all"));
    let order = asked.order(what);
    Ok(vec![if all_schemes { order.in_all_schemes() } else { order }])
}

/// `X-Purge-Method` where the expression is in a field of its own.
const BAN_REGEX: &str = "ban-regex";

/// A page, or what an asterisk at the end stands for: any bytes, or with a dot before it an expression.
fn of_target(target: &[u8]) -> What {
    let uri = match (target.ends_with(b".*"), target.ends_with(b"*"), str::from_utf8(target)) {
        (true, _, Ok(text)) => Uri::Matches(text.to_owned()),
        (_, true, _) => Uri::Like(target.into()),
        _ => return What::Page(target.into()),
    };
    What::Uri { of_host: true, uri }
}

fn by_keys(asked: Asked<'_>) -> Result<Vec<Order>, Wrong> {
    let mut orders = Vec::new();
    for (field, how) in [("xkey-purge", How::Hard), ("xkey-softpurge", How::Soft)] {
        if let Some(tags) = asked.list(field)? {
            orders.push(Order { what: What::Tags(tags), how });
        }
    }
    Ok(orders)
}

/// What it says besides tags has to hold all at once, together with one of the tags.
fn ban(asked: Asked<'_>) -> Result<Vec<Order>, Wrong> {
    let keys = by_keys(asked)?;
    let of_typo3 = asked.list("Varnish-Ban-TYPO3-Tag")?;
    let has_tags = !keys.is_empty() || of_typo3.is_some();
    let mut tags = asked.tags(Reading::AsExpressions)?;
    if let Some(regex) = asked.text("ApiPlatform-Ban-Regex")? {
        tags.push(Tagged::read("Cache-Tags", patterns::of_api_platform(regex).as_bytes())?);
    }
    let (own, typo3, parts) = (own_ban(asked)?, typo3(asked, has_tags)?, parts(asked)?);
    if let Some(names) = of_typo3 {
        // Each of its fields says something by itself.
        let mut orders = [keys, vec![asked.order(What::Tags(names))], asked.of_all_tags(tags)?].concat();
        for words in [own, typo3, parts].into_iter().flatten() {
            orders.push(if words.is_empty() { asked.order(What::All) } else { asked.ban(words)? });
        }
        return Ok(orders);
    }
    let is_parts_alone = own.is_none() && typo3.is_none();
    let said = [own, typo3, parts];
    let says_which = said.iter().any(Option::is_some);
    let words = joined(said.into_iter().flatten());
    if says_which {
        // Of these fields it is what a client sends for those that do not matter.
        tags.retain(|tags| !tags.is_any());
    }
    if words.is_empty() {
        let orders = [keys, asked.of_all_tags(tags)?].concat();
        return match (orders.is_empty(), says_which) {
            (false, _) => Ok(orders),
            (true, true) => Ok(vec![asked.order(What::All)]),
            (true, false) => Ok(vec![asked.order(banned_target(asked.target)?)]),
        };
    }
    for Order { what, how } in keys {
        match (what, how) {
            (What::Tags(names), How::Hard) => tags.push(Tagged::Whole { field: "xkey".to_owned(), tags: names }),
            _ => return Err(Wrong::SoftBan),
        }
    }
    if tags.is_empty() {
        return Ok(vec![match &words[..] {
            [subject, _, url] if is_parts_alone && subject == URL => {
                asked.order(What::Uri { of_host: false, uri: Uri::Matches(url.clone()) })
            }
            _ => asked.ban(words)?,
        }]);
    }
    tags.into_iter().map(|tags| asked.ban(joined([words.clone(), tags.test()?]))).collect()
}

/// What a ban means that says nothing but a path.
fn banned_target(target: &[u8]) -> Result<What, Wrong> {
    Ok(match target {
        b"/" | b"*" => What::All,
        _ if target.ends_with(b"*") => of_target(target),
        // Without an operator of expressions it is a part of a URL, even if that has a query.
        _ if !target.iter().any(|byte| br"\^$[](){}|+*".contains(byte)) => {
            What::Uri { of_host: false, uri: Uri::Like([b"*", target, b"*"].concat()) }
        }
        _ => What::Uri { of_host: false, uri: Uri::Matches(text("the URL", target)?) },
    })
}

/// A ban in Varnish's words.
fn own_ban(asked: Asked<'_>) -> Result<Option<Vec<String>>, Wrong> {
    Ok(asked.text("X-Ban")?.map(|ban| ban.split_ascii_whitespace().map(str::to_owned).collect()))
}

/// The extension for TYPO3: all of a site, or a page of it, by fields that it has set in the answers. No words are all. With
/// tags, which it has in `xkey`, a site means nothing more.
fn typo3(asked: Asked<'_>, has_tags: bool) -> Result<Option<Vec<String>>, Wrong> {
    // Of an old version, which says of no page what tags it has.
    if asked.fields.contains("Varnish-Ban-TYPO3-CacheTag") {
        return Err(Wrong::Unsupported("Varnish-Ban-TYPO3-CacheTag"));
    }
    let is_all = asked.text("Varnish-Ban-All")? == Some("1");
    let page = asked.text("Varnish-Ban-TYPO3-Pid")?;
    let site = asked.text("Varnish-Ban-TYPO3-Sitename")?;
    match (is_all, page, site) {
        (false, None, None) => return Ok(None),
        (false, None, Some(_)) if has_tags => return Ok(None),
        // It means something, and not all that a ban without it means.
        (false, None, Some(_)) => return Err(Wrong::Empty("Varnish-Ban-TYPO3-Pid".to_owned())),
        (true, ..) | (false, Some(_), _) => {}
    }
    let tests = [
        page.filter(|_| !is_all).map(|page| test("obj.http.TYPO3-Pid", "==", page)),
        site.map(|site| test("obj.http.TYPO3-Sitename", "==", site)),
    ];
    Ok(Some(joined(tests.into_iter().flatten())))
}

/// The expressions of a ban in fields, without those that match everything: no words are all. `None` if the request has none
/// of the fields.
fn parts(asked: Asked<'_>) -> Result<Option<Vec<String>>, Wrong> {
    let (mut tests, mut has_any) = (Vec::new(), false);
    for (field, subject) in PARTS {
        if let Some(value) = asked.text(field)? {
            has_any = true;
            let value = if subject == HOST { patterns::without_port(value) } else { value.to_owned() };
            tests.extend(Some(test(subject, "~", &value)).filter(|_| value != ANY));
        }
    }
    Ok(has_any.then(|| joined(tests)))
}

const PARTS: [(&str, &str); 7] = [
    ("X-Host", HOST),
    ("X-Ban-Host", HOST),
    ("X-Url", URL),
    ("X-Ban-Url", URL),
    ("X-Ban-Regex", URL),
    ("X-Content-Type", "obj.http.content-type"),
    ("X-Site", "obj.http.X-Site"),
];
/// Not those of a request: visitors may write both in ways that get the same page, and the page would stay.
const HOST: &str = "page.host";
const URL: &str = "page.url";
/// The expression that clients send where anything will do.
const ANY: &str = ".*";

fn test(subject: &str, operator: &str, value: &str) -> Vec<String> {
    [subject, operator, value].map(str::to_owned).to_vec()
}

/// The words of a ban for which all of these have to hold.
fn joined(tests: impl IntoIterator<Item = Vec<String>>) -> Vec<String> {
    tests.into_iter().filter(|test| !test.is_empty()).collect::<Vec<_>>().join(&"&&".to_owned())
}

/// What a field for tags says.
enum Tagged {
    /// Tags.
    Whole { field: String, tags: Vec<Box<[u8]>> },
    /// An expression on the field of pages.
    Expression { field: String, value: String },
}

/// How the fields for tags are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    /// As tags, whatever they consist of, unless there are the borders of an expression around them.
    AsTags,
    /// As expressions, which may name tags.
    AsExpressions,
}

impl Tagged {
    /// Reads an expression, which may name tags.
    fn read(field: &str, value: &[u8]) -> Result<Self, Wrong> {
        let field = field.to_owned();
        Ok(match patterns::tags(value) {
            Some(tags) => Self::Whole { tags: some_tags(tags, &field)?, field },
            None => Self::Expression { value: text(&field, value)?, field },
        })
    }

    fn is_any(&self) -> bool {
        matches!(self, Self::Expression { value, .. } if value == ANY)
    }

    /// The test of a ban: that a line of the field matches.
    fn test(&self) -> Result<Vec<String>, Wrong> {
        let (field, value) = match self {
            Self::Whole { field, tags } => {
                let tags = tags.iter().map(|tag| str::from_utf8(tag)).collect::<Result<Vec<_>, _>>();
                (field, patterns::expression(tags.map_err(|_| Wrong::NotText(field.clone()))?))
            }
            Self::Expression { field, value } => (field, value.clone()),
        };
        Ok(test(&format!("obj.lines.{field}"), "~", &value))
    }
}

impl<'a> Asked<'a> {
    fn order(&self, what: What) -> Order {
        Order { what, how: self.how() }
    }

    /// An error says that a field may say which pages are meant, and that this is not known.
    fn check(&self, method: Method) -> Result<(), Wrong> {
        let is_other = |name: &str| OTHER_TAGS.iter().any(|other| other.eq_ignore_ascii_case(name));
        fields::check(self.fields, method, |name| self.is_tag_field(name) || is_other(name))
    }

    fn how(&self) -> How {
        how(self.fields)
    }

    fn ban(&self, words: Vec<String>) -> Result<Order, Wrong> {
        match self.how() {
            How::Hard => Ok(Order { what: What::Ban(words), how: How::Hard }),
            How::Soft => Err(Wrong::SoftBan),
        }
    }

    /// The value of a field, which has to say one thing.
    fn text(&self, field: &'a str) -> Result<Option<&'a str>, Wrong> {
        match self.texts(field)?[..] {
            [] => Ok(None),
            [value] => Ok(Some(value)),
            _ => Err(Wrong::Twice(field.to_owned())),
        }
    }

    /// The values of all lines of a field, each of which has to say something.
    fn texts(&self, field: &'a str) -> Result<Vec<&'a str>, Wrong> {
        let mut texts = Vec::new();
        for value in self.fields.get_all(field) {
            match str::from_utf8(value).map(str::trim) {
                Ok("") => return Err(Wrong::Empty(field.to_owned())),
                Ok(value) => texts.push(value),
                Err(_) => return Err(Wrong::NotText(field.to_owned())),
            }
        }
        Ok(texts)
    }

    /// The tags in all lines of a field.
    fn list(&self, field: &str) -> Result<Option<Vec<Box<[u8]>>>, Wrong> {
        if !self.fields.contains(field) {
            return Ok(None);
        }
        let tags: Vec<Box<[u8]>> = self.fields.get_all(field).flat_map(split_tags).map(Box::from).collect();
        some_tags(tags, field).map(Some)
    }

    fn is_tag_field(&self, field: &str) -> bool {
        TAG_NAMES
            .iter()
            .copied()
            .chain(self.tag_fields.iter().map(|name| &**name))
            .any(|name| name.eq_ignore_ascii_case(field))
    }

    /// What the fields for tags say, line by line.
    fn tags(&self, reading: Reading) -> Result<Vec<Tagged>, Wrong> {
        let own = self.tag_fields.iter().map(|name| &**name);
        let is_usual = |name: &&str| !TAG_NAMES.iter().any(|usual| usual.eq_ignore_ascii_case(name));
        let mut names: Vec<&str> = TAG_NAMES.iter().copied().chain(own.filter(is_usual)).collect();
        names.extend(OTHER_TAGS.iter().filter(|name| !self.is_tag_field(name)));
        let mut tags = Vec::new();
        for field in names {
            for value in self.fields.get_all(field) {
                if split_tags(value).next().is_none() {
                    return Err(Wrong::Empty(field.to_owned()));
                }
                tags.push(match reading {
                    Reading::AsTags if !patterns::has_borders(value) => {
                        Tagged::Whole { field: field.to_owned(), tags: split_tags(value).map(Box::from).collect() }
                    }
                    Reading::AsTags | Reading::AsExpressions => Tagged::read(field, value)?,
                });
            }
        }
        Ok(tags)
    }

    /// The pages that one of these means. Those of tags are purged at once, together.
    fn of_all_tags(&self, all: Vec<Tagged>) -> Result<Vec<Order>, Wrong> {
        let (mut whole, mut orders) = (Vec::new(), Vec::new());
        for tagged in all {
            match tagged {
                Tagged::Whole { field, tags } if self.is_tag_field(&field) => whole.extend(tags),
                tagged => orders.push(self.ban(tagged.test()?)?),
            }
        }
        if !whole.is_empty() {
            orders.insert(0, self.order(What::Tags(some_tags(whole, "tags")?)));
        }
        Ok(orders)
    }
}

fn some_tags(tags: Vec<Box<[u8]>>, field: &str) -> Result<Vec<Box<[u8]>>, Wrong> {
    match tags.len() {
        0 => Err(Wrong::Empty(field.to_owned())),
        1..=TAGS_MAX => Ok(tags),
        _ => Err(Wrong::TooMany),
    }
}

fn text(what: &str, bytes: &[u8]) -> Result<String, Wrong> {
    str::from_utf8(bytes).map(str::to_owned).map_err(|_| Wrong::NotText(what.to_owned()))
}

/// Fields that say tags of the same field of pages.
const OTHER_TAGS: [&str; 2] = ["X-Cache-Tags", "Purge-Cache-Tags"];

#[cfg(test)]
mod tests {
    use super::*;

    /// What a request of these lines purges, in words.
    fn shown(request: &str) -> String {
        let (line, rest) = request.split_once('\n').unwrap_or((request, ""));
        let (method, target) = line.split_once(' ').expect("a method and a target");
        let mut fields = Fields::new();
        for line in rest.lines() {
            let (name, value) = line.split_once(':').expect("a field");
            fields.push(name.as_bytes(), value.trim().as_bytes());
        }
        let own = [Box::from("X-Own-Tags")];
        let asked = Asked { method: method.as_bytes(), target: target.as_bytes(), fields: &fields, tag_fields: &own };
        let Some(orders) = orders(asked) else { return "nothing".to_owned() };
        match orders {
            Ok(orders) => orders.iter().map(in_words).collect::<Vec<_>>().join("; "),
            Err(wrong) => format!("wrong: {wrong}"),
        }
    }

    fn in_words(order: &Order) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let what = match &order.what {
            What::Page(page) => format!("page {}", text(page)),
            What::Uri { of_host, uri } => {
                let uri = match uri {
                    Uri::Is(uri) => format!("is {}", text(uri)),
                    Uri::Like(uri) => format!("like {}", text(uri)),
                    Uri::Begins(uri) => format!("begins {}", text(uri)),
                    Uri::Matches(uri) => format!("~ {uri}"),
                };
                format!("{} {uri}", if *of_host { "here" } else { "anywhere" })
            }
            What::Host => "host".to_owned(),
            What::Tags(tags) => format!("tags {}", tags.iter().map(|tag| text(tag)).collect::<Vec<_>>().join(" ")),
            What::Ban(words) => format!("ban {}", words.join(" ")),
            What::All => "all".to_owned(),
        };
        if order.how == How::Soft { format!("{what}, softly") } else { what }
    }

    #[test]
    fn wordpress_purges_pages_and_sites() {
        for (request, expected) in [
            ("PURGE /hello-world/?a=1", "page /hello-world/?a=1"),
            ("PURGE /\nX-Purge-Method: default", "page /"),
            ("PURGE /.*\nX-Purge-Method: regex", "here ~ /.*"),
            ("PURGE /a(b\nX-Purge-Method: regex", "here ~ /a(b"),
            ("PURGE /.*", "here ~ /.*"),
            ("PURGE /.*\nX-Purge-Method: default", "here ~ /.*"),
            ("PURGE /blog/*", "here like /blog/*"),
            ("PURGE /search?q=*\nX-Purge-Method: exact", "page /search?q=*"),
            ("PURGE /blog/\nX-Purge-Method: prefix", "here begins /blog/"),
            ("PURGE /a*b\nX-Purge-Method: prefix", "here begins /a*b"),
            ("PURGE /\nX-Purge-Method: host", "host"),
            ("PURGE /\nX-Purge-Method: all", "all"),
            ("PURGE /a\nX-Purge-Scheme: all", "here is /a"),
            (
                "PURGE /\nX-Purge-Method: everything",
                "wrong: \"X-Purge-Method: everything\" is unknown: it may be default, exact, regex, ban-regex, tags, prefix, host or all",
            ),
            ("PURGE /\nX-Purge-Method: ban-regex\nX-Ban-Regex: ^/t", "here ~ ^/t"),
            (
                "PURGE /\nX-Ban-Regex: ^/t",
                "wrong: larder does not know the field \"X-Ban-Regex\" of a PURGE, which may say which pages are meant",
            ),
            ("PURGE /\nX-Purge-Method: ban-regex", "wrong: \"X-Ban-Regex\" is empty"),
            ("PURGE /\nX-Purge-Method: tags", "wrong: \"X-Cache-Tags-Pattern\" is empty"),
            ("URLPURGE /a*", "page /a*"),
            ("GET /purge/2026/hello/?a=1", "page /2026/hello/?a=1"),
            ("GET /purge/", "page /"),
            ("GET /purge/*", "page /*"),
            ("GET /purge/.*", "page /.*"),
            ("GET /purge", "nothing"),
            ("GET /purged/a", "nothing"),
            ("POST /purge/a", "nothing"),
            ("purge /a", "nothing"),
        ] {
            assert_eq!(shown(request), expected, "{request}");
        }
    }

    #[test]
    fn tags_are_those_of_the_fields() {
        for (request, expected) in [
            ("PURGE /\nxkey: a b", "tags a b"),
            ("PURGE /x\nSurrogate-Key: a\nSurrogate-Key: b", "tags a b"),
            ("PURGE /souin-api/souin\nSurrogate-Key: a, b", "tags a b"),
            ("PURGE /souin-api/souin/flush", "all"),
            ("PURGE /\nX-Own-Tags: a", "tags a"),
            ("PURGE /\nxkey: a\nFastly-Soft-Purge: 1", "tags a, softly"),
            ("PURGE /\nxkey: a\nFastly-Soft-Purge: 0", "tags a"),
            ("PURGE /a\nFastly-Soft-Purge: 1", "page /a, softly"),
            // What is special in expressions is not so in lists.
            ("PURGE /\nxkey: z* t?", "tags z* t?"),
            ("PURGE /\nCache-Tag: post[1],f(x),a+b", "tags post[1] f(x) a+b"),
            ("PURGE /\nxkey: a|b", "tags a|b"),
            ("PURGE /\nSurrogate-Key: (^|,)(a|b)(,|$)", "tags a b"),
            ("PURGE /\nxkey: a\nCache-Tags: (^|\\s)b(\\s|$)|(^|\\s)c(\\s|$)", "tags b c a"),
            ("PURGE /\nxkey: (^|,)a.+(,|$)", "ban obj.lines.xkey ~ (^|,)a.+(,|$)"),
            // All of them go.
            (
                "PURGE /\nxkey: a\nCache-Tag: (^|,)b.+(,|$)\nCache-Tag: (^|,)c.+(,|$)",
                "tags a; ban obj.lines.Cache-Tag ~ (^|,)b.+(,|$); ban obj.lines.Cache-Tag ~ (^|,)c.+(,|$)",
            ),
            ("PURGE /\nxkey: a\nxkey: ,", "wrong: \"xkey\" is empty"),
            ("PURGE /\nxkey:", "wrong: \"xkey\" is empty"),
            ("PURGE /\nxkey: ,", "wrong: \"xkey\" is empty"),
            ("PURGEKEYS /\nxkey-purge: a b\nxkey-softpurge: c", "tags a b; tags c, softly"),
            ("PURGEKEYS /", "wrong: \"xkey-purge\" is empty"),
            ("BAN /\nxkey-purge: siteId_1", "tags siteId_1"),
            ("URIBAN /a?b", "here is /a?b"),
        ] {
            assert_eq!(shown(request), expected, "{request}");
        }
    }

    /// Their fields need not be tag fields.
    #[test]
    fn tags_are_taken_from_the_fields_of_a_purge_too() {
        let of = |field: &str, tags: &str| format!(r"ban obj.lines.{field} ~ (^|[\s,])({tags})([\s,]|$)");
        for (request, expected) in [
            ("PURGE /\nPurge-Cache-Tags: node:1", of("Purge-Cache-Tags", r"node\:1")),
            ("PURGE /\nX-Cache-Tags: a,b", of("X-Cache-Tags", "a|b")),
            ("PURGE /\nX-Purge-Method: tags\nX-Cache-Tags-Pattern: p-1|home", of("X-Cache-Tags", r"p\-1|home")),
            ("PURGE /\nX-Cache-Tags-Pattern: \\bp-1\\b", r"ban obj.lines.X-Cache-Tags ~ \bp-1\b".to_owned()),
        ] {
            assert_eq!(shown(request), expected, "{request}");
        }
    }

    #[test]
    fn api_platform_bans_by_tags() {
        for (regex, expected) in [
            (r"(/books/1)($|\,)", "tags /books/1"),
            (r"(/books|/books/1\.json)($|\,)", "tags /books /books/1.json"),
            (r"(^|\,)/books($|\,)", "tags /books"),
            (r"((^|\,)/books($|\,))|((^|\,)/books/1($|\,))", "tags /books /books/1"),
            ("/books/.*", "ban obj.lines.Cache-Tags ~ /books/.*"),
            (r"(/a,b)($|\,)", "ban obj.lines.Cache-Tags ~ (^|,)(/a,b)(,|$)"),
        ] {
            assert_eq!(shown(&format!("BAN /\nApiPlatform-Ban-Regex: {regex}")), expected, "{regex}");
        }
    }

    #[test]
    fn magento_purges_tags_a_pool_or_all_that_has_tags() {
        for (request, expected) in [
            ("PURGE /\nX-Magento-Tags-Pattern: ((^|,)cat_p_1(,|$))|((^|,)cms_b(,|$))", "tags cat_p_1 cms_b"),
            ("PURGE /\nX-Magento-Tags-Pattern: .*", "ban obj.lines.X-Magento-Tags ~ .*"),
            ("PURGE /\nX-Magento-Tags-Pattern: cat_[cp]", "ban obj.lines.X-Magento-Tags ~ cat_[cp]"),
            ("PURGE /\nX-Magento-Tags-Pattern: ((^|,)a(,|$))\nX-Magento-Tags-Pattern: ((^|,)b(,|$))", "tags a b"),
            (
                "PURGE /\nX-Magento-Tags-Pattern: a[1]\nX-Magento-Tags-Pattern: b\nX-Pool: c.*\nX-Pool: d.*",
                "tags b; ban obj.lines.X-Magento-Tags ~ a[1]; ban obj.lines.X-Pool ~ c.*; ban obj.lines.X-Pool ~ d.*",
            ),
            ("PURGE /\nX-Magento-Tags-Pattern:", "wrong: \"X-Magento-Tags-Pattern\" is empty"),
            ("PURGE /\nX-Pool: blue", r"ban obj.lines.X-Pool ~ (^|[\s,])(blue)([\s,]|$)"),
        ] {
            assert_eq!(shown(request), expected, "{request}");
        }
    }

    #[test]
    fn bans_say_in_fields_what_they_mean() {
        let own = r"(^|[\s,])";
        for (request, expected) in [
            ("BAN /\nCache-Tags: node:7|user:3", "tags node:7 user:3".to_owned()),
            ("BAN /tags\nCache-Tags: node:7 node:12", "tags node:7 node:12".to_owned()),
            ("BAN /\ncache-tags: (^|\\s)node:1(\\s|$)", "tags node:1".to_owned()),
            ("BAN /\nCache-Tags: node:.+", "ban obj.lines.Cache-Tags ~ node:.+".to_owned()),
            ("BAN /\nPurge-Cache-Tags: node:1", format!(r"ban obj.lines.Purge-Cache-Tags ~ {own}(node\:1)([\s,]|$)")),
            ("BAN /\nX-Host: .*\nX-Url: .*\nX-Content-Type: .*", "all".to_owned()),
            ("BAN /\nX-Host: .*\nX-Url: ^/news\nX-Content-Type: .*", "anywhere ~ ^/news".to_owned()),
            (
                "BAN /\nX-Host: ^(a|b)$\nX-Url: .*\nX-Content-Type: text/html",
                "ban page.host ~ ^(a|b)$ && obj.http.content-type ~ text/html".to_owned(),
            ),
            (
                "BAN /\nX-Host: .*\nX-Url: .*\nX-Content-Type: .*\nX-Cache-Tags: (^|,)(a\\-1|b)(,|$)",
                format!(r"ban obj.lines.X-Cache-Tags ~ {own}(a\-1|b)([\s,]|$)"),
            ),
            (
                "BAN /\nX-Host: a\nX-Url: .*\nX-Content-Type: .*\nX-Cache-Tags: (^|,)(b)(,|$)",
                format!("ban page.host ~ a && obj.lines.X-Cache-Tags ~ {own}(b)([\\s,]|$)"),
            ),
            (
                "BAN /\nx-ban-url: /node/*\nx-ban-host: a.example:8080",
                "ban page.host ~ a.example && page.url ~ /node/*".to_owned(),
            ),
            ("BAN /\nX-Ban-Regex: ^/t", "anywhere ~ ^/t".to_owned()),
            ("BAN /\nX-Ban-Host: a\nX-Ban-Regex: ^/t", "ban page.host ~ a && page.url ~ ^/t".to_owned()),
            ("BAN /\nX-Ban: obj.http.a == b && obj.age > 1h", "ban obj.http.a == b && obj.age > 1h".to_owned()),
            ("BAN /\nX-Ban: obj.age > 1h\nX-Purge-Soft: 1", format!("wrong: {}", Wrong::SoftBan)),
            ("BAN /\nX-Url:", "wrong: \"X-Url\" is empty".to_owned()),
        ] {
            assert_eq!(shown(request), expected, "{request}");
        }
    }

    /// As FOSHttpCache does whose field of tags has another name.
    #[test]
    fn what_a_ban_says_holds_together_with_its_tags() {
        let any = "X-Host: .*\nX-Url: .*\nX-Content-Type: .*";
        let of = |field: &str, tags: &str| format!(r"obj.lines.{field} ~ (^|[\s,])({tags})([\s,]|$)");
        for (fields, expected) in [
            (format!("{any}\nxkey: (^|,)(t1)(,|$)"), "tags t1".to_owned()),
            (format!("{any}\nX-Own-Tags: (^|,)(t1)(,|$)"), "tags t1".to_owned()),
            (format!("{any}\nxkey: t.+"), "ban obj.lines.xkey ~ t.+".to_owned()),
            (format!("{any}\nxkey: .*"), "all".to_owned()),
            ("X-Url: ^/a\nxkey: t1".to_owned(), format!("ban page.url ~ ^/a && {}", of("xkey", "t1"))),
            ("X-Url: ^/a\nxkey: .*".to_owned(), "anywhere ~ ^/a".to_owned()),
            // One of the tags is enough, but not without the rest.
            (
                "X-Url: ^/a\nxkey: t1\nCache-Tags: t.2\nCache-Tags: t.+".to_owned(),
                [of("Cache-Tags", r"t\.2"), "obj.lines.Cache-Tags ~ t.+".to_owned(), of("xkey", "t1")]
                    .map(|tags| format!("ban page.url ~ ^/a && {tags}"))
                    .join("; "),
            ),
            ("X-Host: ^a$\nxkey-purge: t1".to_owned(), format!("ban page.host ~ ^a$ && {}", of("xkey", "t1"))),
            ("X-Host: ^a$\nxkey-softpurge: t1".to_owned(), format!("wrong: {}", Wrong::SoftBan)),
            (format!("{any}\nxkey-softpurge: t1"), "tags t1, softly".to_owned()),
            ("X-Ban: obj.age > 1h\nX-Url: ^/a".to_owned(), "ban obj.age > 1h && page.url ~ ^/a".to_owned()),
            ("X-Ban: req.url ~ a".to_owned(), "ban req.url ~ a".to_owned()),
            (
                "Varnish-Ban-TYPO3-Pid: 7\nX-Host: a".to_owned(),
                "ban obj.http.TYPO3-Pid == 7 && page.host ~ a".to_owned(),
            ),
            ("Varnish-Ban-All: 1\nxkey: t1".to_owned(), "tags t1".to_owned()),
        ] {
            assert_eq!(shown(&format!("BAN /\n{fields}")), expected, "{fields}");
        }
    }

    #[test]
    fn a_field_that_means_one_thing_may_not_be_there_twice() {
        for (request, field) in [
            ("BAN /\nX-Url: a\nX-Url: b", "X-Url"),
            ("BAN /\nX-Ban: obj.age > 1h\nX-Ban: obj.age > 2h", "X-Ban"),
            ("BAN /\nVarnish-Ban-TYPO3-Pid: 1\nVarnish-Ban-TYPO3-Pid: 2", "Varnish-Ban-TYPO3-Pid"),
            ("PURGE /\nX-Purge-Method: exact\nX-Purge-Method: all", "X-Purge-Method"),
            ("PURGE /\nX-Purge-Scheme: all\nX-Purge-Scheme: all", "X-Purge-Scheme"),
        ] {
            assert_eq!(shown(request), format!("wrong: {}", Wrong::Twice(field.to_owned())), "{request}");
        }
        assert_eq!(shown("PURGE /a\nX-Purge-Soft: 1\nX-Purge-Soft: 0"), "page /a", "it is hard if in doubt");
    }

    #[test]
    fn a_value_stays_one_word_of_a_ban() {
        assert_eq!(
            shown("BAN /\nX-Host: a && obj.age > 0s\nX-Url: b"),
            "ban page.host ~ a && obj.age > 0s && page.url ~ b",
            "as it is shown"
        );
        let mut fields = Fields::new();
        fields.push(b"X-Host", b"a && obj.age > 0s");
        fields.push(b"X-Url", b"b");
        let asked = Asked { method: b"BAN", target: b"/", fields: &fields, tag_fields: &[] };
        let Some(Ok(orders)) = orders(asked) else { panic!("it is a ban") };
        let What::Ban(words) = &orders[0].what else { panic!("it is a ban") };
        assert_eq!(words[..], ["page.host", "~", "a && obj.age > 0s", "&&", "page.url", "~", "b"]);
    }

    #[test]
    fn bans_of_paths_mean_what_has_them() {
        for (request, expected) in [
            ("BAN /", "all"),
            ("BAN /hat", "anywhere like */hat*"),
            ("BAN /hat?variant=2", "anywhere like */hat?variant=2*"),
            ("BAN ^/hat$", "anywhere ~ ^/hat$"),
            ("BAN /node/*", "here like /node/*"),
            ("BAN /.*", "here ~ /.*"),
        ] {
            assert_eq!(shown(request), expected, "{request}");
        }
    }

    #[test]
    fn typo3_purges_a_site_a_page_of_it_or_tags() {
        for (request, expected) in [
            ("BAN /\nVarnish-Ban-All: 1", "all"),
            ("BAN /\nVarnish-Ban-All: 1\nVarnish-Ban-TYPO3-Sitename: s1", "ban obj.http.TYPO3-Sitename == s1"),
            (
                "BAN /\nVarnish-Ban-TYPO3-Pid: 7\nVarnish-Ban-TYPO3-Sitename: s1",
                "ban obj.http.TYPO3-Pid == 7 && obj.http.TYPO3-Sitename == s1",
            ),
            ("BAN /\nVarnish-Ban-TYPO3-Pid: 7", "ban obj.http.TYPO3-Pid == 7"),
            ("BAN /\nVarnish-Ban-TYPO3-Sitename: s1", "wrong: \"Varnish-Ban-TYPO3-Pid\" is empty"),
            ("BAN /\nVarnish-Ban-TYPO3-Tag: tx_news_7\nVarnish-Ban-TYPO3-Sitename: s1", "tags tx_news_7"),
            ("BAN /\nVarnish-Ban-TYPO3-Tag: pageId_1 pageId_2", "tags pageId_1 pageId_2"),
            ("BAN /\nVarnish-Ban-TYPO3-Sitename: s1\nxkey-purge: tx_news_7", "tags tx_news_7"),
            ("BAN /\nVarnish-Ban-TYPO3-Tag: x\nVarnish-Ban-TYPO3-Pid: 7", "tags x; ban obj.http.TYPO3-Pid == 7"),
            (
                "BAN /\nVarnish-Ban-TYPO3-Tag:\nVarnish-Ban-TYPO3-Sitename: s1",
                "wrong: \"Varnish-Ban-TYPO3-Tag\" is empty",
            ),
            (
                "BAN /\nVarnish-Ban-TYPO3-CacheTag: x\nVarnish-Ban-TYPO3-Sitename: s1",
                "wrong: \"Varnish-Ban-TYPO3-CacheTag\" is not supported: purge by tag, by page or all",
            ),
        ] {
            assert_eq!(shown(request), expected, "{request}");
        }
    }

    #[test]
    fn what_is_no_text_or_too_much_purges_nothing() {
        let bytes = |fields: &Fields, target: &[u8], method: &[u8]| {
            orders(Asked { method, target, fields, tag_fields: &[] }).expect("it purges")
        };
        let mut fields = Fields::new();
        fields.push(b"X-Purge-Method", b"regex");
        assert_eq!(bytes(&fields, b"/\xff", b"PURGE"), Err(Wrong::NotText("the URL".to_owned())));
        fields.set("X-Purge-Method", b"\xff");
        assert_eq!(bytes(&fields, b"/", b"PURGE"), Err(Wrong::NotText("X-Purge-Method".to_owned())));
        let mut fields = Fields::new();
        let many = (0..=TAGS_MAX).map(|number| format!("t{number}")).collect::<Vec<_>>().join(" ");
        fields.push(b"xkey", many.as_bytes());
        assert_eq!(bytes(&fields, b"/", b"PURGE"), Err(Wrong::TooMany));
    }
}
