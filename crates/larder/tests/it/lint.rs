//! `-t` and `check` say what is likely to be a mistake, with its place and the mend, and it is a success all the same.

use larder_testkit::text_of;

use crate::site::{Setup, Site, text};

const SHARES_COOKIES: &str = "proxy_cache_path {DIR}/pages keys_zone=p:1m;
    server { listen 127.0.0.1:{PORT};
        location / { proxy_pass http://127.0.0.1:1; proxy_cache p; proxy_ignore_headers Set-Cookie; }
        location = /x { return 200 x; }
    }";

#[test]
fn a_danger_is_told_with_its_place_and_its_mend() {
    let setup = Setup::new();
    setup.configure(SHARES_COOKIES);
    let prefix = format!("{}/", setup.path("").display());
    for (words, is_told) in [(&["-t"][..], true), (&["-T"][..], true), (&["-t", "-q"][..], false)] {
        let output = setup.larder(words);
        let said = text_of(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        for part in [
            "[warn] answers with Set-Cookie are kept here for everybody",
            "nginx.conf:",
            "proxy_cache p;",
            "help: let visitors with a session past the cache",
        ] {
            assert_eq!(said.contains(part), is_told, "{words:?}: {part}: {said}");
        }
    }
    let output = crate::site::run(&["check", "-p", &prefix, "-c", "nginx.conf", "-e", "error.log"]);
    assert!(output.status.success() && text_of(&output.stderr).contains("are kept here for everybody"), "{output:?}");
}

#[test]
fn a_server_starts_without_being_lectured() {
    let site = Site::start(SHARES_COOKIES);
    assert_eq!(text(&site.get("/x")), "x");
    assert!(!site.server().error_log().contains("are kept here for everybody"));
    assert_eq!(site.server().text("stderr"), "");
}
