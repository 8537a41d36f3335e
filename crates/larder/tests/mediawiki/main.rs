//! Debian's MediaWiki behind `larder_profile mediawiki`, read by strangers, edited by who is logged in and by who is not. The
//! answers are not asked whether they may be stored, so that the profile alone keeps pages apart; MediaWiki purges what changes.

mod site;
#[path = "../wordpress/visitor.rs"]
#[expect(dead_code, reason = "WordPress has more to ask")]
mod visitor;

use std::time::Instant;

use larder_testkit::PATIENCE;

use site::Site;
use visitor::{Cache, Page, Visitor};

/// What MediaWiki shows on top of each page to who is logged in.
const LOGOUT: &str = "pt-logout";
/// The page that the installation makes.
const MAIN: &str = "/wiki/Main_Page";

/// The value of a hidden field of a form.
fn hidden(page: &Page, name: &str) -> String {
    let tag = page.body.split('<').find(|tag| tag.starts_with("input") && tag.contains(&format!("name=\"{name}\"")));
    let tag = tag.unwrap_or_else(|| panic!("no field {name}: {}", page.body));
    let value = tag.split_once("value=\"").expect("it has a value").1;
    value.split('"').next().unwrap_or_default().replace("&quot;", "\"").replace("&amp;", "&")
}

/// Anna, logged in.
fn author(site: &Site) -> Visitor {
    let mut author = site.visitor();
    let form = author.get("/index.php?title=Special:UserLogin").is(Cache::Bypass);
    let token = hidden(&form, "wpLoginToken");
    let page = author.post(
        "/index.php?title=Special:UserLogin&returnto=Main+Page",
        &[
            ("wpName", "Anna"),
            ("wpPassword", site::PASSWORD),
            ("wploginattempt", "Log in"),
            ("wpEditToken", "+\\"),
            ("authAction", "login"),
            ("wpLoginToken", &token),
        ],
    );
    assert_eq!(page.status, 302, "{}", page.body);
    assert!(author.has_cookie("wikiUserID") && author.has_cookie("wiki_session"));
    author
}

/// Writes a page; what the form leads to.
fn edit(visitor: &mut Visitor, title: &str, text: &str) -> Page {
    let form = visitor.get(&format!("/index.php?title={title}&action=edit")).is(Cache::Bypass);
    let fields: Vec<(&str, String)> = ["wpEditToken", "wpStarttime", "wpEdittime", "editRevId", "parentRevId", "oldid"]
        .into_iter()
        .map(|name| (name, hidden(&form, name)))
        .collect();
    let mut all: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    all.extend([
        ("wpTextbox1", text),
        ("wpSummary", ""),
        ("wpSave", "Save"),
        ("wpUnicodeCheck", "ℳ𝒲♥𝓊𝓃𝒾𝒸ℴ𝒹ℯ"),
        ("wpUltimateParam", "1"),
    ]);
    visitor.post(&format!("/index.php?title={title}&action=submit"), &all)
}

#[test]
fn strangers_share_pages_and_who_is_logged_in_has_their_own() {
    let site = Site::shared();
    // Who is logged in came first, and has filled nothing.
    let mut author = author(&site);
    author.get(MAIN).is(Cache::Bypass).shows(LOGOUT).shows("Anna");
    site.visitor().get(&format!("{MAIN}?utm_source=x")).is(Cache::Miss).hides(LOGOUT).hides("utm_source");
    for cookie in ["wikimwuser-sessionId", "_ga", "CookieConsent"] {
        let mut stranger = site.visitor();
        stranger.takes_cookie(cookie, "7");
        stranger.get(MAIN).is(Cache::Hit).hides(LOGOUT).hides("Anna");
    }
    author.get(MAIN).is(Cache::Bypass).shows(LOGOUT);
    author.get("/wiki/Special:Preferences").is(Cache::Bypass).shows("Anna");
    for path in ["/wiki/Special:RecentChanges", "/index.php/Special:Version", "/api.php?action=query&format=json"] {
        for _ in 0..2 {
            site.visitor().get(path).is(Cache::Bypass);
        }
    }
    let form = author.get("/wiki/Special:UserLogout").is(Cache::Bypass);
    author
        .post("/wiki/Special:UserLogout", &[("wpEditToken", &hidden(&form, "wpEditToken"))])
        .shows("You are now logged out");
    author.get(MAIN).hides(LOGOUT);
    site.visitor().get(MAIN).is(Cache::Hit).hides(LOGOUT);
}

#[test]
fn a_page_that_is_edited_is_there_for_everybody_at_once() {
    let site = Site::shared();
    let mut author = author(&site);
    assert_eq!(edit(&mut author, "News", "It is early.").status, 302);
    site.visitor().get("/wiki/News").went(Cache::Miss).shows("It is early.");
    site.visitor().get("/wiki/News").is(Cache::Hit).shows("It is early.").hides(LOGOUT);
    // MediaWiki purges after its answer.
    assert_eq!(edit(&mut author, "News", "It is late.").status, 302);
    let began = Instant::now();
    while !site.visitor().get("/wiki/News").body.contains("It is late.") {
        assert!(began.elapsed() < PATIENCE, "MediaWiki has not purged: {}", site.error_log());
    }
    site.visitor().get("/wiki/News").is(Cache::Hit).shows("It is late.").hides(LOGOUT);
}

#[test]
fn who_edits_without_a_name_is_alone_from_then_on() {
    let site = Site::shared();
    site.visitor().get("/wiki/Larder_Wiki:About").went(Cache::Miss);
    let mut reader = site.visitor();
    reader.get("/wiki/Larder_Wiki:About").went(Cache::Hit);
    assert_eq!(edit(&mut reader, "Sandbox", "Somebody was here.").status, 302);
    assert!(reader.has_cookie("wiki_session"), "who edits gets a session");
    reader.get("/wiki/Larder_Wiki:About").went(Cache::Bypass);
    site.visitor().get("/wiki/Sandbox").is(Cache::Miss).shows("Somebody was here.");
    site.visitor().get("/wiki/Sandbox").is(Cache::Hit);
}
