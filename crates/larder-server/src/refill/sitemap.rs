//! Sitemaps: which pages a site says it has. Source: <https://www.sitemaps.org/protocol.html>.

use std::borrow::Cow;
use std::collections::HashSet;

use larder_compress::restore;
use larder_http::Coding;
use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;

/// What a sitemap names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sitemap {
    /// URLs of pages, as they are written.
    pub pages: Vec<String>,
    /// URLs of further sitemaps: it is an index.
    pub maps: Vec<String>,
    /// How many more it names than it may, or such as are too long.
    pub beyond: usize,
}

impl Sitemap {
    /// Reads one: XML, or a text with a URL a line, in gzip or not. An error says why it is none.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let plain = match bytes.starts_with(&[0x1f, 0x8b]) {
            true => Cow::Owned(restore([bytes].into_iter(), Coding::Gzip, BYTES_MAX).map_err(|why| why.to_string())?),
            false => Cow::Borrowed(bytes),
        };
        let text = std::str::from_utf8(&plain).map_err(|_| "it is not in UTF-8".to_owned())?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut found = Self::default();
        match text.trim_start() {
            "" => Err("it is empty".to_owned()),
            xml if xml.starts_with('<') => found.read_xml(xml).map(|()| found),
            _ => {
                let mut known = HashSet::new();
                for (number, line) in text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty()) {
                    if !line.starts_with("http://") && !line.starts_with("https://") {
                        return Err(format!("its line {} is no URL", number + 1));
                    }
                    found.add(line, Kind::Page, &mut known);
                }
                Ok(found)
            }
        }
    }

    fn read_xml(&mut self, xml: &str) -> Result<(), String> {
        let mut reader = Reader::from_str(xml);
        // Sites write `&` in URLs as it is.
        reader.config_mut().allow_dangling_amp = true;
        let mut open: Vec<Element> = Vec::new();
        let mut text = String::new();
        let mut has_root = false;
        let mut known = HashSet::new();
        loop {
            match reader.read_event().map_err(|why| format!("{why}, at byte {}", reader.error_position()))? {
                Event::Start(tag) => {
                    let element = Element::of(tag.name().local_name().as_ref(), &open);
                    match element {
                        Element::Root => has_root = true,
                        Element::Other if open.is_empty() => return Err(NO_SITEMAP.to_owned()),
                        Element::Loc(_) | Element::Entry(_) | Element::Other => {}
                    }
                    if open.len() >= DEPTH_MAX {
                        return Err(format!("its elements lie more than {DEPTH_MAX} deep in each other"));
                    }
                    open.push(element);
                    text.clear();
                }
                Event::End(_) => {
                    if let Some(Element::Loc(kind)) = open.pop() {
                        self.add(text.trim(), kind, &mut known);
                    }
                    text.clear();
                }
                // The rest of one that is too long is of no use.
                Event::Text(_) | Event::CData(_) | Event::GeneralRef(_) if text.len() > TEXT_BYTES_MAX => {}
                Event::Text(piece) if in_loc(&open) => push(&mut text, &piece.xml10_content()),
                Event::CData(piece) if in_loc(&open) => push(&mut text, &piece.xml10_content()),
                Event::GeneralRef(piece) if in_loc(&open) => {
                    match (piece.resolve_char_ref(), resolve_predefined_entity(&piece)) {
                        (Ok(Some(char)), _) => text.push(char),
                        (_, Some(known)) => text.push_str(known),
                        (_, None) => return Err(format!("\"&{};\" is unknown in it", &*piece)),
                    }
                }
                Event::Empty(_) if open.is_empty() && !has_root => has_root = true,
                Event::Eof if has_root && open.is_empty() => return Ok(()),
                Event::Eof => return Err("it breaks off".to_owned()),
                _ => {}
            }
        }
    }

    fn add(&mut self, url: &str, kind: Kind, known: &mut HashSet<String>) {
        if known.contains(url) {
            return;
        }
        if url.len() > URL_BYTES_MAX || known.len() >= URLS_MAX {
            self.beyond += 1;
            return;
        }
        known.insert(url.to_owned());
        let list = match kind {
            Kind::Page => &mut self.pages,
            Kind::Map => &mut self.maps,
        };
        list.push(url.to_owned());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Page,
    Map,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    /// `urlset`, `sitemapindex`.
    Root,
    /// `url`, `sitemap`.
    Entry(Kind),
    /// `loc` in one of these; that of an image is not.
    Loc(Kind),
    Other,
}

impl Element {
    fn of(name: &str, open: &[Element]) -> Self {
        match (name, open) {
            ("urlset" | "sitemapindex", []) => Self::Root,
            ("url", [Self::Root]) => Self::Entry(Kind::Page),
            ("sitemap", [Self::Root]) => Self::Entry(Kind::Map),
            ("loc", [Self::Root, Self::Entry(kind)]) => Self::Loc(*kind),
            _ => Self::Other,
        }
    }
}

/// Adds as much of `piece` as tells whether it is too long.
fn push(text: &mut String, piece: &str) {
    text.extend(piece.chars().take(TEXT_BYTES_MAX + 1));
}

fn in_loc(open: &[Element]) -> bool {
    matches!(open.last(), Some(Element::Loc(_)))
}

/// How long a sitemap may be, restored, by the protocol.
pub const BYTES_MAX: usize = 50 << 20;
/// How many URLs it may have, by the protocol.
const URLS_MAX: usize = 50_000;
/// How long a URL may be, by the protocol.
const URL_BYTES_MAX: usize = 2048;
/// The same with spaces around it.
const TEXT_BYTES_MAX: usize = 2 * URL_BYTES_MAX;
/// A sitemap needs five.
const DEPTH_MAX: usize = 32;
const NO_SITEMAP: &str = "it is HTML or other XML, and neither \"urlset\" nor \"sitemapindex\"";

#[cfg(test)]
mod tests {
    use larder_compress::{Effort, compress};

    use super::*;

    fn pages(urls: &[&str]) -> Sitemap {
        Sitemap { pages: urls.iter().map(|url| (*url).to_owned()).collect(), ..Sitemap::default() }
    }

    const SET: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?><?xml-stylesheet type=\"text/xsl\" href=\"//a.test/main.xsl\"?>\n\
        <urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" xmlns:image=\"http://www.google.com/schemas/sitemap-image/1.1\">\n\
        <!-- <url><loc>https://a.test/comment</loc></url> -->\n\
        <url>\n<loc> https://a.test/?a=1&amp;b=2 </loc><lastmod>2026-01-01</lastmod>\
        <image:image><image:loc>https://a.test/a.png</image:loc></image:image></url>\
        <url><loc><![CDATA[https://a.test/c&d]]></loc></url><url><loc>https://a.test/&#233;&#x2F;</loc></url>\
        <url><loc>https://a.test/x&y</loc></url></urlset>";

    #[test]
    fn what_a_sitemap_names_are_pages_and_further_sitemaps() {
        let expected =
            pages(&["https://a.test/?a=1&b=2", "https://a.test/c&d", "https://a.test/é/", "https://a.test/x&y"]);
        assert_eq!(Sitemap::read(SET.as_bytes()), Ok(expected.clone()));
        assert_eq!(Sitemap::read(format!("\u{feff}{SET}\n").as_bytes()), Ok(expected.clone()));
        let packed = compress([SET.as_bytes()].into_iter(), Coding::Gzip, Effort::Quick(6)).unwrap();
        assert_eq!(Sitemap::read(&packed), Ok(expected));
        let index = "<sitemapindex><sitemap><loc>https://a.test/b.xml.gz</loc></sitemap></sitemapindex>";
        let maps = vec!["https://a.test/b.xml.gz".to_owned()];
        assert_eq!(Sitemap::read(index.as_bytes()), Ok(Sitemap { maps, ..Sitemap::default() }));
        let text = b"https://a.test/a\r\n\r\n https://a.test/b\n";
        assert_eq!(Sitemap::read(text), Ok(pages(&["https://a.test/a", "https://a.test/b"])));
        assert_eq!(Sitemap::read(b"<urlset/>"), Ok(Sitemap::default()));
    }

    #[test]
    fn what_is_none_is_told() {
        let deep = format!("<urlset>{}", "<a>".repeat(40));
        for (bytes, expected) in [
            (&b""[..], "it is empty"),
            (b"\xff\xfe<", "it is not in UTF-8"),
            (b"https://a.test/\n\nLog in", "its line 3 is no URL"),
            (b"<html><body><p>Log in", NO_SITEMAP),
            (b"<urlset><url><loc>https://a.test/", "it breaks off"),
            (b"<urlset><url><loc>https://a.test/&nbsp;</loc></url></urlset>", "\"&nbsp;\" is unknown in it"),
            (b"\x1f\x8b\x08\x00", "the gzip stream is cut short"),
            (deep.as_bytes(), "its elements lie more than 32 deep in each other"),
        ] {
            let found = Sitemap::read(bytes).expect_err("it is none");
            assert!(found.starts_with(expected), "{found}");
        }
        let wrong = Sitemap::read(b"<urlset><url></loc>").expect_err("it is not well formed");
        assert!(wrong.contains("at byte"), "{wrong}");
    }

    #[test]
    fn no_more_is_taken_than_a_sitemap_may_have() {
        let text: String = (0..URLS_MAX + 3).map(|number| format!("https://a.test/{number}\n")).collect();
        let found = Sitemap::read(text.as_bytes()).expect("it is a sitemap");
        assert_eq!((found.pages.len(), found.beyond), (URLS_MAX, 3));
        let long = format!("<urlset><url><loc>https://a.test/{}</loc></url></urlset>", "&amp;".repeat(1 << 20));
        let found = Sitemap::read(long.as_bytes()).expect("it is a sitemap");
        assert_eq!((found.pages.len(), found.beyond), (0, 1));
        let twice = "https://a.test/\nhttps://a.test/\n";
        assert_eq!(Sitemap::read(twice.as_bytes()), Ok(pages(&["https://a.test/"])));
    }
}
