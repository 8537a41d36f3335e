//! WordPress behind the server, visited as people do: by strangers, an author, commenters, readers of a protected
//! post, a real browser, and many at once while pages expire.
//!
//! The configuration in `nginx.conf` is of the kind that sites have. `LARDER_TEST_BINARY=/usr/sbin/nginx` runs the
//! same visits against nginx, to see that they ask for nothing that nginx does not give, but for what is said in
//! `nobody_waits_when_a_page_expires_under_load`.

mod database;
mod expiry;
mod profile;
mod site;
mod visitor;

use larder_testkit::Browser;
use site::{NAMES, Site};
use visitor::Cache;

/// What WordPress shows at the top of every page to who is logged in.
const TOOLBAR: &str = "id=\"wpadminbar\"";

/// How the page came to the browser.
const PROTOCOL: &str = "performance.getEntriesByType('navigation')[0].nextHopProtocol";
/// Whether it was smaller on its way.
const IS_PACKED: &str = "(page => page.encodedBodySize > 0 && page.encodedBodySize < page.decodedBodySize / 2)\
                         (performance.getEntriesByType('navigation')[0])";
/// What the page loaded from elsewhere.
const STRANGE_RESOURCES: &str = "performance.getEntriesByType('resource').map(part => part.name)\
                                 .filter(name => /^https?:/.test(name) && !name.startsWith(location.origin + '/'))";

#[test]
fn strangers_share_a_page_that_php_made_once() {
    let site = Site::shared();
    for name in NAMES {
        site.visitor(name).get("/plain/").is(Cache::Miss).shows("Content of plain.");
        for _ in 0..3 {
            site.visitor(name).get("/plain/").is(Cache::Hit).shows("Content of plain.").hides(TOOLBAR);
        }
        assert_eq!(site.runs(&format!("GET {name} /plain/")).len(), 1);
        // A query string goes to PHP, and leaves the stored page alone.
        site.visitor(name).get("/plain/?from=letter").is(Cache::Bypass);
        site.visitor(name).get("/plain/").is(Cache::Hit);
    }
}

#[test]
fn an_author_sees_the_toolbar_and_nobody_else_does() {
    let site = Site::shared();
    for name in NAMES {
        let mut author = site.author(name);
        author.get("/for-authors/").is(Cache::Bypass).shows(TOOLBAR);
        // The author came first and has filled nothing.
        site.visitor(name).get("/for-authors/").is(Cache::Miss).hides(TOOLBAR).hides("Howdy");
        author.get("/for-authors/").is(Cache::Bypass).shows(TOOLBAR);
        site.visitor(name).get("/for-authors/").is(Cache::Hit).hides(TOOLBAR).hides("Howdy");

        author.get("/wp-admin/").shows("Dashboard");
        let refused = site.visitor(name).get("/wp-admin/");
        assert_eq!(refused.status, 302, "{}", refused.body);
        assert!(refused.location.contains("wp-login.php"), "{refused:?}");
    }
}

#[test]
fn a_post_published_in_wp_admin_is_there_for_everyone() {
    let site = Site::shared();
    for name in NAMES {
        let mut author = site.author(name);
        author.get("/wp-admin/post-new.php").shows("wp-block-editor");
        let nonce = author.get("/wp-admin/admin-ajax.php?action=rest-nonce").body;
        let slug = format!("fresh-news-{}", name.replace('.', "-"));
        let post =
            format!("{{\"title\":\"Fresh news\",\"content\":\"Just in.\",\"slug\":\"{slug}\",\"status\":\"publish\"}}");
        let page = format!("/{slug}/");
        let made = author.post_json("/wp-json/wp/v2/posts", &nonce, &post);
        assert_eq!(made.status, 201, "{}", made.body);

        author.get(&page).is(Cache::Bypass).shows("Just in.").shows(TOOLBAR);
        site.visitor(name).get(&page).is(Cache::Miss).shows("Just in.").hides(TOOLBAR);
        site.visitor(name).get(&page).is(Cache::Hit).shows("Just in.").hides(TOOLBAR);
    }
}

#[test]
fn a_pending_comment_is_seen_by_its_author_only() {
    let site = Site::shared();
    for name in NAMES {
        let mut reader = site.visitor(name);
        reader.get("/commented/").is(Cache::Miss).shows("id=\"commentform\"");

        // Nobody may say the same thing twice.
        let (once, twice) = (format!("Well said once on {name}."), format!("Well said twice on {name}."));
        let mut commenter = site.visitor(name);
        commenter.get("/commented/").is(Cache::Hit);
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

        // Without consent to cookies WordPress shows it once, under an address with a query string.
        let sent = commenter.post("/wp-comments-post.php", &form(&once));
        assert_eq!(sent.status, 302, "{}", sent.body);
        assert!(sent.location.contains("unapproved="), "{sent:?}");
        commenter.follow(&sent).is(Cache::Bypass).shows(&once);
        commenter.get("/commented/").is(Cache::Hit).hides(&once);

        // With consent the commenter is known by cookies from then on.
        let mut consenting = form(&twice).to_vec();
        consenting.push(("wp-comment-cookies-consent", "yes"));
        commenter.post("/wp-comments-post.php", &consenting);
        assert!(commenter.has_cookie("comment_author_"), "WordPress remembers who commented");
        commenter.get("/commented/").is(Cache::Bypass).shows(&twice);

        reader.get("/commented/").is(Cache::Hit).hides("Well said").hides("Carla");
        site.visitor(name).get("/commented/").is(Cache::Hit).hides("Well said").hides("Carla");
    }
}

#[test]
fn a_protected_post_opens_only_for_who_knows_the_password() {
    const FORM: &str = "post-password-form";
    let site = Site::shared();
    for name in NAMES {
        let text = "Content of secret.";
        site.visitor(name).get("/secret/").is(Cache::Miss).shows(FORM).hides(text);
        site.visitor(name).get("/secret/").is(Cache::Hit).shows(FORM).hides(text);

        let mut knowing = site.visitor(name);
        knowing.get("/secret/").is(Cache::Hit).shows(FORM);
        let sent =
            knowing.post("/wp-login.php?action=postpass", &[("post_password", "swordfish"), ("Submit", "Enter")]);
        assert_eq!(sent.status, 302, "{}", sent.body);
        assert!(knowing.has_cookie("wp-postpass_"));
        knowing.get("/secret/").is(Cache::Bypass).shows(text).hides(FORM);

        let mut guessing = site.visitor(name);
        guessing.post("/wp-login.php?action=postpass", &[("post_password", "tuna"), ("Submit", "Enter")]);
        guessing.get("/secret/").is(Cache::Bypass).shows(FORM).hides(text);

        site.visitor(name).get("/secret/").is(Cache::Hit).shows(FORM).hides(text);
        knowing.get("/secret/").is(Cache::Bypass).shows(text);
    }
}

#[test]
fn a_browser_that_logs_in_leaves_no_trace_for_others() {
    let site = Site::shared();
    for name in NAMES {
        let page = site.url(name, "/for-browsers/");

        let author = Browser::start();
        author.open(&site.url(name, "/wp-login.php"));
        author.fill("#user_login", "anna");
        author.fill("#user_pass", "open sesame");
        author.click("#wp-submit");
        author.wait_for("#adminmenu");
        author.open(&page);
        assert!(author.has("#wpadminbar"), "{}", author.words());
        assert!(author.source().contains("Howdy"));

        let stranger = Browser::start();
        for _ in 0..2 {
            stranger.open(&page);
            let source = stranger.source();
            assert!(source.contains("Content of for-browsers."), "{}", stranger.words());
            assert!(!stranger.has("#wpadminbar") && !source.contains("Howdy"), "{}", stranger.words());
            assert_eq!(stranger.says(PROTOCOL), if name == "blog.test" { "http/1.1" } else { "h2" });
            assert_eq!(stranger.says(IS_PACKED), "true", "the page was compressed on its way");
            assert_eq!(stranger.says(STRANGE_RESOURCES), "", "everything comes from the same place, as safely");
        }
        site.visitor(name).get("/for-browsers/").is(Cache::Hit).hides(TOOLBAR);

        author.open(&page);
        assert!(author.has("#wpadminbar"), "the author stays logged in: {}", author.words());
    }
}
