//! WordPress behind `larder_profile auto`, without a word of ours about what is personal, and where the answers are not asked
//! whether they may be stored.

use crate::TOOLBAR;
use crate::site::{KNOWN, Site, WARM, is_nginx};
use crate::visitor::Cache;

/// The site; none for nginx, which has no profiles.
fn site() -> Option<std::sync::Arc<Site>> {
    (!is_nginx()).then(Site::shared)
}

#[test]
fn strangers_share_a_page_whatever_led_them_there() {
    let Some(site) = site() else { return };
    site.visitor(KNOWN).get("/plain/?utm_source=letter&fbclid=1").is(Cache::Miss).shows("Content of plain.");
    site.visitor(KNOWN).get("/plain/").is(Cache::Hit).shows("Content of plain.").hides("utm_source").hides("letter");
    site.visitor(KNOWN).get("/plain/?gclid=2").is(Cache::Hit);
    // PHP was not told of the campaign, and ran once.
    assert_eq!(site.runs(&format!("GET {KNOWN} /plain/")).len(), 1);
    // An argument that is not known has pages of its own.
    site.visitor(KNOWN).get("/plain/?from=letter").is(Cache::Miss);
    site.visitor(KNOWN).get("/plain/?from=letter").is(Cache::Hit);
    let mut measured = site.visitor(KNOWN);
    measured.takes_cookie("_ga", "GA1.1.7");
    measured.get("/plain/").is(Cache::Hit);
    // Of a cookie that nobody knows, nobody knows what it means.
    measured.takes_cookie("favourite_colour", "red");
    measured.get("/plain/").is(Cache::Bypass);
}

#[test]
fn who_logs_in_sees_the_toolbar_and_nobody_else_does() {
    let Some(site) = site() else { return };
    let mut author = site.author(KNOWN);
    author.get("/for-authors/").is(Cache::Bypass).shows(TOOLBAR);
    site.visitor(KNOWN).get("/for-authors/").is(Cache::Miss).hides(TOOLBAR).hides("Howdy");
    author.get("/for-authors/").is(Cache::Bypass).shows(TOOLBAR);
    site.visitor(KNOWN).get("/for-authors/").is(Cache::Hit).hides(TOOLBAR).hides("Howdy");
    author.get("/wp-admin/").is(Cache::Bypass).shows("Dashboard");
    // The form of the login, with its cookie, is made for each.
    for _ in 0..2 {
        let mut new = site.visitor(KNOWN);
        new.get("/wp-login.php").is(Cache::Bypass).shows("user_login");
        assert!(new.has_cookie("wordpress_test_cookie"));
        // Who has seen it and has not logged in is a stranger.
        new.get("/for-authors/").is(Cache::Hit).hides(TOOLBAR);
        let refused = new.get("/wp-admin/").went(Cache::Bypass);
        assert_eq!(refused.status, 302, "{}", refused.body);
    }
}

#[test]
fn a_protected_post_opens_only_for_who_knows_the_password() {
    const FORM: &str = "post-password-form";
    let Some(site) = site() else { return };
    let text = "Content of secret.";
    let mut knowing = site.visitor(KNOWN);
    knowing.get("/secret/").is(Cache::Miss).shows(FORM).hides(text);
    let sent = knowing.post("/wp-login.php?action=postpass", &[("post_password", "swordfish"), ("Submit", "Enter")]);
    assert_eq!(sent.status, 302, "{}", sent.body);
    assert!(knowing.has_cookie("wp-postpass_"));
    knowing.get("/secret/").is(Cache::Bypass).shows(text).hides(FORM);
    site.visitor(KNOWN).get("/secret/").is(Cache::Hit).shows(FORM).hides(text);
    site.visitor(KNOWN).get("/secret/?utm_source=x").is(Cache::Hit).shows(FORM).hides(text);
    knowing.get("/secret/?utm_source=x").is(Cache::Bypass).shows(text);
}

#[test]
fn a_pending_comment_is_seen_by_its_author_only() {
    let Some(site) = site() else { return };
    let said = format!("Well said on {KNOWN}.");
    let mut commenter = site.visitor(KNOWN);
    commenter.get("/commented/").is(Cache::Miss);
    let form = |text| {
        [
            ("comment", text),
            ("author", "Carla"),
            ("email", "carla@example.org"),
            ("url", ""),
            ("comment_post_ID", site.post("commented")),
            ("comment_parent", "0"),
            ("submit", "Post Comment"),
        ]
    };
    // Without consent to cookies WordPress shows it once, by arguments that are for the commenter.
    let once = format!("{said} Once.");
    let sent = commenter.post("/wp-comments-post.php", &form(&once));
    assert!(sent.location.contains("unapproved=") && sent.location.contains("moderation-hash="), "{sent:?}");
    commenter.follow(&sent).is(Cache::Bypass).shows(&once);
    commenter.follow(&sent).is(Cache::Bypass).shows(&once);
    commenter.get("/commented/").is(Cache::Hit).hides("Well said");
    let mut consenting = form(&said).to_vec();
    consenting.push(("wp-comment-cookies-consent", "yes"));
    commenter.post("/wp-comments-post.php", &consenting);
    assert!(commenter.has_cookie("comment_author_"));
    commenter.get("/commented/").is(Cache::Bypass).shows(&said);
    site.visitor(KNOWN).get("/commented/").is(Cache::Hit).hides("Well said").hides("Carla");
}

#[test]
fn a_preview_is_for_who_may_see_it_and_leaves_nothing() {
    let Some(site) = site() else { return };
    let mut author = site.author(KNOWN);
    let nonce = author.get("/wp-admin/admin-ajax.php?action=rest-nonce").is(Cache::Bypass).body;
    let draft = "{\"title\":\"Not yet\",\"content\":\"Nobody knows this yet.\",\"status\":\"draft\"}";
    let made = author.post_json("/wp-json/wp/v2/posts", &nonce, draft);
    assert_eq!(made.status, 201, "{}", made.body);
    let number = made.body.split_once("\"id\":").expect("it has a number").1;
    let number = number.split(',').next().unwrap_or_default();
    let preview = format!("/?p={number}&preview=true");
    author.get(&preview).is(Cache::Bypass).shows("Nobody knows this yet.");
    for _ in 0..2 {
        site.visitor(KNOWN).get(&preview).went(Cache::Bypass).hides("Nobody knows this yet.");
    }
    let draft = format!("/?p={number}");
    author.get(&draft).is(Cache::Bypass).shows("Nobody knows this yet.");
    site.visitor(KNOWN).get(&draft).hides("Nobody knows this yet.");
}

#[test]
fn the_interface_for_programs_is_asked_each_time() {
    let Some(site) = site() else { return };
    for path in ["/wp-json/wp/v2/posts?per_page=1", "/?rest_route=/wp/v2/posts", "/xmlrpc.php"] {
        for _ in 0..2 {
            site.visitor(KNOWN).get(path).went(Cache::Bypass);
        }
    }
    // A cart of WooCommerce, whose plugin is not here.
    let mut buyer = site.visitor(KNOWN);
    site.visitor(KNOWN).get("/slow/").is(Cache::Miss);
    buyer.takes_cookie("woocommerce_items_in_cart", "1");
    buyer.get("/slow/").is(Cache::Bypass);
    site.visitor(KNOWN).get("/slow/").is(Cache::Hit);
}

#[test]
fn the_posts_of_the_sitemap_are_there_before_anybody_asks() {
    let Some(site) = site() else { return };
    site.wait_for_log("warmed http://warm.test/wp-sitemap.xml: ");
    for path in ["/plain/", "/commented/", "/"] {
        site.visitor(WARM).get(path).is(Cache::Hit).hides(TOOLBAR);
        assert_eq!(site.runs(&format!("GET {WARM} {path}")).len(), 1, "{path}");
    }
    site.visitor(WARM).get("/plain/").is(Cache::Hit).shows("Content of plain.");
}
