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

/// The pages with the tags that the fields for tags name; `None` if there are no such fields.
pub fn by_tag_fields(asked: Asked<'_>) -> Result<Option<Order>, Wrong> {
    asked.tags()
}

/// Whether a field asks for pages to become stale, in place of going.
pub fn how(fields: &Fields) -> How {
    let is_set = |name| fields.get(name).is_some_and(|value| matches!(value, b"1" | b"true" | b"on"));
    if ["Fastly-Soft-Purge", "X-Purge-Soft"].into_iter().any(is_set) { How::Soft } else { How::Hard }
}

/// The page that nginx-helper means.
fn helper_target(target: &[u8]) -> Option<&[u8]> {
    target.strip_prefix(b"/purge").filter(|rest| rest.starts_with(b"/"))
}

fn purge(asked: Asked<'_>) -> Result<Vec<Order>, Wrong> {
    let mut orders = by_keys(asked)?;
    for (field, of_pages) in
        [("X-Magento-Tags-Pattern", "X-Magento-Tags"), ("X-Pool", "X-Pool"), ("X-Cache-Tags-Pattern", "X-Cache-Tags")]
    {
        if let Some(value) = asked.text(field)? {
            orders.push(asked.by_tags(value, of_pages)?);
        }
    }
    orders.extend(asked.tags()?);
    orders.extend(other_tags(asked)?);
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

fn ban(asked: Asked<'_>) -> Result<Vec<Order>, Wrong> {
    let mut orders = by_keys(asked)?;
    if let Some(tags) = asked.list("Varnish-Ban-TYPO3-Tag")? {
        orders.push(asked.order(What::Tags(tags)));
    }
    orders.extend(typo3(asked, !orders.is_empty())?);
    if let Some(ban) = asked.text("X-Ban")? {
        orders.push(asked.ban(ban.split_ascii_whitespace().map(str::to_owned).collect())?);
    }
    if let Some(regex) = asked.text("ApiPlatform-Ban-Regex")? {
        orders.push(asked.by_tags(&patterns::of_api_platform(regex), "Cache-Tags")?);
    }
    let parts = parts(asked)?;
    if parts.is_empty() {
        orders.extend(asked.tags()?);
        orders.extend(other_tags(asked)?);
    } else {
        orders.push(by_parts(asked, parts)?);
    }
    if orders.is_empty() {
        orders.push(asked.order(banned_target(asked.target)?));
    }
    Ok(orders)
}

/// What fields say that have the tags of pages, and are no tag fields here.
fn other_tags(asked: Asked<'_>) -> Result<Vec<Order>, Wrong> {
    let mut orders = Vec::new();
    for field in OTHER_TAGS {
        if let Some(value) = asked.text(field)?.filter(|_| !asked.is_tag_field(field)) {
            orders.push(asked.by_tags(value, field)?);
        }
    }
    Ok(orders)
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

/// The extension for TYPO3: all of a site, or a page of it, by fields that it has set in the answers. With tags, which it
/// has in `xkey`, a site means nothing more.
fn typo3(asked: Asked<'_>, has_tags: bool) -> Result<Option<Order>, Wrong> {
    // Of an old version, which says of no page what tags it has.
    if asked.fields.contains("Varnish-Ban-TYPO3-CacheTag") {
        return Err(Wrong::Unsupported("Varnish-Ban-TYPO3-CacheTag"));
    }
    let is_all = asked.text("Varnish-Ban-All")? == Some("1");
    let page = asked.text("Varnish-Ban-TYPO3-Pid")?;
    let site = asked.text("Varnish-Ban-TYPO3-Sitename")?;
    let tests = [
        page.filter(|_| !is_all).map(|page| test("obj.http.TYPO3-Pid", "==", page)),
        site.map(|site| test("obj.http.TYPO3-Sitename", "==", site)),
    ];
    Ok(match (is_all, page, site) {
        (false, None, None) => None,
        (false, None, Some(_)) if has_tags => None,
        // It means something, and not all that a ban without it means.
        (false, None, Some(_)) => return Err(Wrong::Empty("Varnish-Ban-TYPO3-Pid".to_owned())),
        (true, _, None) => Some(asked.order(What::All)),
        (true, _, Some(_)) | (false, Some(_), _) => Some(asked.ban(joined(tests.into_iter().flatten()))?),
    })
}

/// The expressions of a ban in fields, without those that match everything: a subject of the language of bans, and what it
/// has to match. Empty if the request has none of the fields.
fn parts<'a>(asked: Asked<'a>) -> Result<Vec<(&'static str, &'a str)>, Wrong> {
    let mut parts = Vec::new();
    for (field, subject) in PARTS {
        if let Some(value) = asked.text(field)? {
            parts.push((subject, value));
        }
    }
    Ok(parts)
}

const PARTS: [(&str, &str); 7] = [
    ("X-Host", "req.http.host"),
    ("X-Ban-Host", "req.http.host"),
    ("X-Url", "req.url"),
    ("X-Ban-Url", "req.url"),
    ("X-Ban-Regex", "req.url"),
    ("X-Content-Type", "obj.http.content-type"),
    ("X-Site", "obj.http.X-Site"),
];

fn by_parts(asked: Asked<'_>, parts: Vec<(&'static str, &str)>) -> Result<Order, Wrong> {
    let parts: Vec<_> = parts.into_iter().filter(|(_, value)| *value != ".*").collect();
    let tags = asked.text("X-Cache-Tags")?.filter(|value| *value != ".*");
    match (&parts[..], tags) {
        ([], None) => Ok(asked.order(What::All)),
        ([], Some(tags)) => asked.by_tags(tags, "X-Cache-Tags"),
        ([("req.url", url)], None) => {
            Ok(asked.order(What::Uri { of_host: false, uri: Uri::Matches((*url).to_owned()) }))
        }
        (parts, tags) => {
            let tests = parts.iter().map(|(subject, value)| test(subject, "~", value));
            let tags = tags.map(|tags| test("obj.http.X-Cache-Tags", "~", tags));
            asked.ban(joined(tests.chain(tags)))
        }
    }
}

fn test(subject: &str, operator: &str, value: &str) -> [String; 3] {
    [subject, operator, value].map(str::to_owned)
}

fn joined(tests: impl Iterator<Item = [String; 3]>) -> Vec<String> {
    tests.collect::<Vec<_>>().join(&"&&".to_owned())
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

    /// The value of a field, which has to say something.
    fn text(&self, field: &str) -> Result<Option<&'a str>, Wrong> {
        let Some(value) = self.fields.get(field) else { return Ok(None) };
        match str::from_utf8(value).map(str::trim) {
            Ok("") => Err(Wrong::Empty(field.to_owned())),
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(Wrong::NotText(field.to_owned())),
        }
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

    /// What the fields for tags say, each of which is a list, or an expression.
    fn tags(&self) -> Result<Option<Order>, Wrong> {
        let own = self.tag_fields.iter().map(|name| &**name);
        let is_usual = |name: &&str| !TAG_NAMES.iter().any(|usual| usual.eq_ignore_ascii_case(name));
        let (mut tags, mut ban) = (Vec::new(), None);
        for field in TAG_NAMES.iter().copied().chain(own.filter(is_usual)) {
            for value in self.fields.get_all(field) {
                match patterns::tags(value) {
                    Some(found) => tags.extend(found),
                    None if split_tags(value).next().is_none() => return Err(Wrong::Empty(field.to_owned())),
                    None => {
                        let value = text(field, value)?;
                        ban = Some(self.ban(test(&format!("obj.http.{field}"), "~", &value).to_vec())?);
                    }
                }
            }
        }
        match (tags.is_empty(), ban) {
            (_, Some(ban)) => Ok(Some(ban)),
            (true, None) => Ok(None),
            (false, None) => Ok(Some(self.order(What::Tags(some_tags(tags, "tags")?)))),
        }
    }

    /// Pages whose field `of_pages` matches: by their tags if it has those and the expression means whole ones, or else by
    /// a ban.
    fn by_tags(&self, value: &str, of_pages: &str) -> Result<Order, Wrong> {
        let subject = format!("obj.http.{of_pages}");
        match patterns::tags(value.as_bytes()) {
            Some(tags) if self.is_tag_field(of_pages) => Ok(self.order(What::Tags(some_tags(tags, of_pages)?))),
            Some(tags) => {
                let tags = some_tags(tags, of_pages)?;
                let tags = tags.iter().map(|tag| str::from_utf8(tag)).collect::<Result<Vec<_>, _>>();
                let tags = tags.map_err(|_| Wrong::NotText(of_pages.to_owned()))?;
                self.ban(test(&subject, "~", &patterns::expression(tags)).to_vec())
            }
            None => self.ban(test(&subject, "~", value).to_vec()),
        }
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
        let of = |field: &str, tags: &str| format!(r"ban obj.http.{field} ~ (^|[\s,])({tags})([\s,]|$)");
        for (request, expected) in [
            ("PURGE /\nPurge-Cache-Tags: node:1", of("Purge-Cache-Tags", r"node\:1")),
            ("PURGE /\nX-Cache-Tags: a,b", of("X-Cache-Tags", "a|b")),
            ("PURGE /\nX-Purge-Method: tags\nX-Cache-Tags-Pattern: p-1|home", of("X-Cache-Tags", r"p\-1|home")),
            ("PURGE /\nX-Cache-Tags-Pattern: \\bp-1\\b", r"ban obj.http.X-Cache-Tags ~ \bp-1\b".to_owned()),
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
            ("/books/.*", "ban obj.http.Cache-Tags ~ /books/.*"),
            (r"(/a,b)($|\,)", "ban obj.http.Cache-Tags ~ (^|,)(/a,b)(,|$)"),
        ] {
            assert_eq!(shown(&format!("BAN /\nApiPlatform-Ban-Regex: {regex}")), expected, "{regex}");
        }
    }

    #[test]
    fn magento_purges_tags_a_pool_or_all_that_has_tags() {
        for (request, expected) in [
            ("PURGE /\nX-Magento-Tags-Pattern: ((^|,)cat_p_1(,|$))|((^|,)cms_b(,|$))", "tags cat_p_1 cms_b"),
            ("PURGE /\nX-Magento-Tags-Pattern: .*", "ban obj.http.X-Magento-Tags ~ .*"),
            ("PURGE /\nX-Magento-Tags-Pattern: cat_[cp]", "ban obj.http.X-Magento-Tags ~ cat_[cp]"),
            ("PURGE /\nX-Magento-Tags-Pattern:", "wrong: \"X-Magento-Tags-Pattern\" is empty"),
            ("PURGE /\nX-Pool: blue", r"ban obj.http.X-Pool ~ (^|[\s,])(blue)([\s,]|$)"),
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
            ("BAN /\nCache-Tags: node:.+", "ban obj.http.Cache-Tags ~ node:.+".to_owned()),
            ("BAN /\nPurge-Cache-Tags: node:1", format!(r"ban obj.http.Purge-Cache-Tags ~ {own}(node\:1)([\s,]|$)")),
            ("BAN /\nX-Host: .*\nX-Url: .*\nX-Content-Type: .*", "all".to_owned()),
            ("BAN /\nX-Host: .*\nX-Url: ^/news\nX-Content-Type: .*", "anywhere ~ ^/news".to_owned()),
            (
                "BAN /\nX-Host: ^(a|b)$\nX-Url: .*\nX-Content-Type: text/html",
                "ban req.http.host ~ ^(a|b)$ && obj.http.content-type ~ text/html".to_owned(),
            ),
            (
                "BAN /\nX-Host: .*\nX-Url: .*\nX-Content-Type: .*\nX-Cache-Tags: (^|,)(a\\-1|b)(,|$)",
                format!(r"ban obj.http.X-Cache-Tags ~ {own}(a\-1|b)([\s,]|$)"),
            ),
            (
                "BAN /\nX-Host: a\nX-Url: .*\nX-Content-Type: .*\nX-Cache-Tags: (^|,)(b)(,|$)",
                "ban req.http.host ~ a && obj.http.X-Cache-Tags ~ (^|,)(b)(,|$)".to_owned(),
            ),
            (
                "BAN /\nx-ban-url: /node/*\nx-ban-host: a.example",
                "ban req.http.host ~ a.example && req.url ~ /node/*".to_owned(),
            ),
            ("BAN /\nX-Ban-Regex: ^/t", "anywhere ~ ^/t".to_owned()),
            ("BAN /\nX-Ban-Host: a\nX-Ban-Regex: ^/t", "ban req.http.host ~ a && req.url ~ ^/t".to_owned()),
            ("BAN /\nX-Ban: obj.http.a == b && obj.age > 1h", "ban obj.http.a == b && obj.age > 1h".to_owned()),
            ("BAN /\nX-Ban: obj.age > 1h\nX-Purge-Soft: 1", format!("wrong: {}", Wrong::SoftBan)),
            ("BAN /\nX-Url:", "wrong: \"X-Url\" is empty".to_owned()),
        ] {
            assert_eq!(shown(request), expected, "{request}");
        }
    }

    #[test]
    fn a_value_stays_one_word_of_a_ban() {
        assert_eq!(
            shown("BAN /\nX-Host: a && obj.age > 0s\nX-Url: b"),
            "ban req.http.host ~ a && obj.age > 0s && req.url ~ b",
            "as it is shown"
        );
        let mut fields = Fields::new();
        fields.push(b"X-Host", b"a && obj.age > 0s");
        fields.push(b"X-Url", b"b");
        let asked = Asked { method: b"BAN", target: b"/", fields: &fields, tag_fields: &[] };
        let Some(Ok(orders)) = orders(asked) else { panic!("it is a ban") };
        let What::Ban(words) = &orders[0].what else { panic!("it is a ban") };
        assert_eq!(words[..], ["req.http.host", "~", "a && obj.age > 0s", "&&", "req.url", "~", "b"]);
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
