//! Plugins that speak to the CLI: what they write and how they read, byte by byte.

use std::io::Write;

use larder_testkit::{Answer, Origin};

use crate::running_varnishd::{Cli, SECRET, Varnishd, proof};
use crate::site::eventually;

/// A server with two hosts of two pages.
fn server(origin: &Origin, options: &[&str]) -> Varnishd {
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=3600").field("Content-Type", "text/html"));
    let varnishd = Varnishd::start(&[&["-f", "", "-S", "secret"], options].concat());
    let mut cli = varnishd.cli(SECRET);
    cli.order(&format!("vcl.inline boot << END\n{}END", vcl(origin)));
    cli.order("vcl.use boot");
    cli.order("start");
    eventually("it serves", || varnishd.answers());
    varnishd
}

/// Notes what bans of the lurker look at, in the names that plugins have for it.
fn vcl(origin: &Origin) -> String {
    format!(
        "vcl 4.1;\nbackend default {{ .host = \"127.0.0.1\"; .port = \"{}\"; }}\nsub vcl_backend_response {{\n    \
         set beresp.http.x-url = bereq.url;\n    set beresp.http.x-host = bereq.http.host;\n    \
         set beresp.http.X-Varnish-URL = bereq.url;\n}}\n",
        origin.address().port()
    )
}

/// What is fetched again: which of the pages a ban has taken.
fn fetched(varnishd: &Varnishd, origin: &Origin) -> Vec<String> {
    let before = origin.count();
    for host in ["news.example", "shop.example"] {
        for path in ["/", "/node/1", "/node/12"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            assert_eq!(varnishd.play(&request).status, 200, "{host}{path}");
        }
    }
    let seen = origin.requests();
    let page = |seen: &larder_testkit::OriginSeen| {
        format!("{}{}", seen.field("Host").unwrap_or_default(), seen.request_line.split(' ').nth(1).unwrap_or_default())
    };
    seen[before..].iter().map(page).collect()
}

/// Shows the secret as the plugins do: cut from the first 32 bytes of the text, and with the secret as it is configured,
/// without the end of its line.
fn authenticated(varnishd: &Varnishd) -> Cli {
    let mut cli = varnishd.connect();
    let (status, text) = cli.answer();
    assert_eq!(status, 107);
    let (status, banner) = cli.ask(&format!("auth {}", proof(&text, b"the secret\n")));
    assert_eq!(status, 200, "{banner}");
    cli
}

/// The module `varnish` of Drupal (`varnish_purge()`), and Purge Varnish for WordPress (`purge_varnish_get_command()`).
#[test]
fn a_plugin_bans_by_host_and_pattern() {
    let origin = Origin::start().unwrap();
    let varnishd = server(&origin, &[]);
    let all = fetched(&varnishd, &origin);
    assert_eq!(all.len(), 6, "{all:?}");
    for (command, gone) in [
        (r#"ban req.http.host ~ news.example && req.url ~ "^/node/1$|^/node/2$""#, &["news.example/node/1"][..]),
        (r#"ban obj.http.x-host ~ shop.example && obj.http.x-url  ~ "^/node/1$""#, &["shop.example/node/1"]),
        (
            r#"ban req.http.host ~ news.example && req.url ~ "/""#,
            &["news.example/", "news.example/node/1", "news.example/node/12"],
        ),
        (
            r#"ban req.http.host == "shop.example" && req.url ~ "^/node/1""#,
            &["shop.example/node/1", "shop.example/node/12"],
        ),
        (r#"ban req.http.host == "news.example" && req.url ~ "^//$""#, &[]),
        (r#"ban req.http.host == "news.example""#, &["news.example/", "news.example/node/1", "news.example/node/12"]),
    ] {
        let mut cli = authenticated(&varnishd);
        assert_eq!(cli.ask(command), (200, String::new()), "{command}");
        drop(cli);
        assert_eq!(fetched(&varnishd, &origin), gone, "{command}");
    }
    authenticated(&varnishd).says("status", 200, "Child in state running");
}

/// Purge Varnish for WordPress writes each command twice, reads one answer, and closes.
#[test]
fn a_plugin_may_leave_before_it_has_read_all() {
    let origin = Origin::start().unwrap();
    let varnishd = server(&origin, &[]);
    fetched(&varnishd, &origin);
    for _ in 0..20 {
        let mut cli = authenticated(&varnishd);
        let command = "ban req.http.host == \"news.example\" && req.url ~ \"^/node/12\"\n";
        cli.0.write_all(command.as_bytes()).unwrap();
        cli.0.write_all(command.as_bytes()).unwrap();
        assert_eq!(cli.answer(), (200, String::new()));
        drop(cli);
        assert_eq!(fetched(&varnishd, &origin), ["news.example/node/12"]);
    }
}

/// What Turpentine for Magento 1 writes: each word in quotes, with `\"`, `\\` and `\n` in it.
fn quoted(words: &[&str]) -> String {
    let word = |word: &&str| format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"));
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// `Nexcessnet_Turpentine_Model_Varnish_Admin_Socket`.
#[test]
fn a_plugin_loads_its_own_vcl_and_bans_by_what_it_notes() {
    let origin = Origin::start().unwrap();
    let varnishd = server(&origin, &["-p", "feature=+esi_ignore_other_elements"]);
    let mut cli = varnishd.connect();
    let (_, challenge) = cli.answer();
    let (status, banner) = cli.ask(&quoted(&["auth", &proof(&challenge, b"the secret\n")]));
    let lines: Vec<&str> = banner.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!((status, lines.len(), lines[1]), (200, 7, "Varnish Cache CLI 1.0"));
    assert_eq!(cli.ask(&quoted(&["banner"])), (200, banner));
    // The second line has the value.
    let (_, feature) = cli.ask(&quoted(&["param.show", "feature"]));
    assert!(feature.lines().nth(1).is_some_and(|line| line.contains("+esi_ignore_other_elements")), "{feature}");
    // From 16 kB on the plugin asks how long a command may be.
    let (status, limit) = cli.ask(&quoted(&["param.show", "cli_buffer"]));
    let mut words = limit.split_whitespace();
    assert_eq!(
        (status, words.next(), words.next(), words.next()),
        (200, Some("cli_buffer"), Some("Value"), Some("is:"))
    );
    let (size, unit) = (words.next().unwrap(), words.next());
    let megabytes: usize = size.strip_suffix('m').expect("it is in megabytes").parse().unwrap();
    assert_eq!(unit, Some("[bytes]"));
    let own = format!("{}# \"{}\\\"\n", vcl(&origin), "x".repeat(100_000));
    assert!(own.len() < megabytes << 20);
    cli.says(&quoted(&["vcl.inline", "vcl_4711", &own]), 200, "VCL compiled.");
    cli.says(&quoted(&["vcl.use", "vcl_4711"]), 200, "VCL 'vcl_4711' now active");
    cli.says(&quoted(&["vcl.list"]), 200, "active      auto    warm         0    vcl_4711\n");
    cli.says(&quoted(&["vcl.show", "vcl_4711"]), 200, &own);
    cli.says(&quoted(&["vcl.discard", "boot"]), 200, "");
    fetched(&varnishd, &origin);
    let all = ["news.example/", "news.example/node/1", "news.example/node/12"].map(str::to_owned);
    let all = [&all[..], &all.clone().map(|page| page.replace("news", "shop"))].concat();
    for (words, gone) in [
        (&["ban", "obj.http.X-Varnish-URL", "~", r"^/node/1\d$"][..], vec![all[2].clone(), all[5].clone()]),
        (&["ban", "obj.http.X-Varnish-URL", "~", ".*"], all.clone()),
        (&["ban", "obj.http.Content-Type", "~", "text/css"], vec![]),
        (&["ban", "obj.http.Content-Type", "~", "text/html"], all.clone()),
    ] {
        assert_eq!(cli.ask(&quoted(words)), (200, String::new()), "{words:?}");
        assert_eq!(fetched(&varnishd, &origin), gone, "{words:?}");
    }
    cli.says(&quoted(&["ban.list"]), 200, r"obj.http.X-Varnish-URL ~ ^/node/1\d$");
    cli.says(&quoted(&["quit"]), 500, "Closing CLI connection");
    assert!(cli.is_closed());
}
