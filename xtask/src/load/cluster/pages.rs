//! The pages of the site, and what purges mean of them.

/// How many pages there are.
pub const PAGES: usize = 20_000;
/// How many share a tag, a folder or a kind.
const GROUP: usize = 20;
/// How many tags, folders and kinds there are.
const GROUPS: usize = PAGES / GROUP;
/// Of so many pages one is fresh for a second only.
const SHORT_EVERY: usize = 16;

/// What a purge means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purge {
    /// A page, by its URL.
    Page(usize),
    /// The same, softly.
    PageSoftly(usize),
    /// A page, by the API.
    PageByApi(usize),
    /// The pages of a tag.
    Tag(usize),
    /// The same, softly.
    TagSoftly(usize),
    /// The pages of a tag, by the command.
    TagByCommand(usize),
    /// The pages of a folder.
    Folder(usize),
    /// The pages of a kind, by a ban.
    Kind(usize),
}

/// Where a page is.
pub fn path(page: usize) -> String {
    format!("/f{}/{page}", folder(page))
}

/// The page at a path.
pub fn at(path: &str) -> Option<usize> {
    let (_, number) = path.rsplit_once('/')?;
    number.parse().ok().filter(|page| *page < PAGES)
}

/// Whether a page is fresh for long.
pub fn is_lasting(page: usize) -> bool {
    !page.is_multiple_of(SHORT_EVERY)
}

/// What the origin says of a page beside its version.
pub fn fields(page: usize) -> String {
    let lifetime = if is_lasting(page) { "max-age=3600" } else { "max-age=1" };
    format!("xkey: t{}\r\nX-Kind: k{}\r\nCache-Control: {lifetime}\r\n", tag(page), kind(page))
}

fn folder(page: usize) -> usize {
    page / GROUP
}

fn tag(page: usize) -> usize {
    page % GROUPS
}

fn kind(page: usize) -> usize {
    // Neither the pages of a folder nor those of a tag have one kind.
    page * 7 / 3 % GROUPS
}

impl Purge {
    /// The one of this number: of all kinds in turn, and of pages and groups in no order.
    pub fn of(number: usize) -> Purge {
        let chance = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        let (page, group) = (chance % PAGES, chance % GROUPS);
        match number % 200 {
            7 => Purge::TagByCommand(group),
            turn => match turn % 8 {
                0 | 1 => Purge::Page(page),
                2 => Purge::PageSoftly(page),
                3 => Purge::PageByApi(page),
                4 => Purge::Tag(group),
                5 => Purge::TagSoftly(group),
                6 => Purge::Folder(group),
                _ => Purge::Kind(group),
            },
        }
    }

    /// The pages that it means.
    pub fn pages(self) -> Vec<usize> {
        let those = |is_meant: &dyn Fn(usize) -> bool| (0..PAGES).filter(|page| is_meant(*page)).collect();
        match self {
            Purge::Page(page) | Purge::PageSoftly(page) | Purge::PageByApi(page) => vec![page],
            Purge::Tag(group) | Purge::TagSoftly(group) | Purge::TagByCommand(group) => {
                those(&|page| tag(page) == group)
            }
            Purge::Folder(group) => those(&|page| folder(page) == group),
            Purge::Kind(group) => those(&|page| kind(page) == group),
        }
    }

    /// Whether pages may be delivered once more while they are fetched anew.
    pub fn is_soft(self) -> bool {
        matches!(self, Purge::PageSoftly(_) | Purge::TagSoftly(_))
    }

    /// The request on the port of the site, without `Host`; `None` for those that go another way.
    pub fn request(self) -> Option<(&'static str, String, String)> {
        Some(match self {
            Purge::Page(page) => ("PURGE", path(page), String::new()),
            Purge::PageSoftly(page) => ("PURGE", path(page), "X-Purge-Soft: 1\r\n".to_owned()),
            Purge::Tag(group) => ("PURGEKEYS", "/".to_owned(), format!("xkey-purge: t{group}\r\n")),
            Purge::TagSoftly(group) => ("PURGEKEYS", "/".to_owned(), format!("xkey-softpurge: t{group}\r\n")),
            Purge::Folder(group) => ("PURGE", format!("/f{group}/"), "X-Purge-Method: prefix\r\n".to_owned()),
            Purge::Kind(group) => ("BAN", "/".to_owned(), format!("X-Ban: obj.http.X-Kind == k{group}\r\n")),
            Purge::PageByApi(_) | Purge::TagByCommand(_) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_means_the_pages_that_say_so() {
        for number in 0..400 {
            let purge = Purge::of(number);
            let pages = purge.pages();
            let said = match purge {
                Purge::Page(page) | Purge::PageSoftly(page) | Purge::PageByApi(page) => {
                    assert_eq!(pages, [page]);
                    continue;
                }
                Purge::Tag(group) | Purge::TagSoftly(group) | Purge::TagByCommand(group) => {
                    format!("xkey: t{group}\r\n")
                }
                Purge::Folder(group) => {
                    assert!(pages.iter().all(|page| path(*page).starts_with(&format!("/f{group}/"))), "{purge:?}");
                    continue;
                }
                Purge::Kind(group) => format!("X-Kind: k{group}\r\n"),
            };
            assert!(!pages.is_empty() && pages.iter().all(|page| fields(*page).contains(&said)), "{purge:?}");
        }
        assert_eq!(at(&path(19_999)), Some(19_999));
        assert_eq!((at("/f1/20000"), at("/"), at("none")), (None, None, None));
    }
}
