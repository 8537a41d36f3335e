//! The command line, and what is said about configurations.

use std::fs;
use std::path::Path;
use std::process::Output;

use larder_testkit::text_of;

use crate::site::{Setup, run};

fn stderr(output: &Output) -> String {
    text_of(&output.stderr)
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

/// The result of `larder -t` for this file, as it is.
fn test(text: &str) -> (i32, String) {
    let setup = Setup::new();
    setup.write_raw(text);
    let output = setup.larder(&["-t"]);
    assert_eq!(text_of(&output.stdout), "");
    (code(&output), stderr(&output).replace(&setup.fill("{DIR}"), "DIR"))
}

#[test]
fn versions_are_said_as_nginx_says_them() {
    let short = run(&["-v"]);
    assert_eq!((code(&short), stderr(&short).as_str()), (0, "larder version: larder/0.1.0\n"));
    let long = run(&["-V"]);
    let lines: Vec<String> = stderr(&long).lines().map(str::to_owned).collect();
    assert_eq!((code(&long), lines[0].as_str()), (0, "larder version: larder/0.1.0"));
    for start in ["nginx version: nginx/1.", "configure arguments: --"] {
        assert!(lines.iter().any(|line| line.starts_with(start)), "{start}: {lines:?}");
    }
    for help in [&["-h"], &["-?"], &["help"]] {
        let output = run(help);
        assert!(code(&output) == 0 && stderr(&output).contains("Usage: larder"), "{help:?}: {output:?}");
    }
}

#[test]
fn a_word_that_means_nothing_is_refused() {
    for (arguments, message) in [
        (&["-x"][..], "invalid option: \"x\""),
        (&["start"][..], "unknown command: \"start\""),
        (&["-c"][..], "option \"-c\" requires file name"),
        (&["-s", "restart"][..], "invalid option: \"-s restart\""),
        (&["serve", "/tmp", "--listen", "here"][..], "\"here\" is not an address to listen at"),
    ] {
        let output = run(arguments);
        assert_eq!(code(&output), 1, "{arguments:?}");
        assert!(stderr(&output).starts_with(&format!("larder: {message}")), "{arguments:?}: {}", stderr(&output));
    }
}

/// The options that a help has, such as `-c` and `--json`.
fn options_of(help: &str) -> Vec<&str> {
    let lines = help.lines().filter(|line| line.starts_with(' ') && line.trim_start().starts_with('-'));
    let heads = lines.filter_map(|line| line.split_once(" :").map(|(head, _)| head).or(Some(line)));
    let words = heads.flat_map(|head| head.split([' ', ',', '=']));
    words.filter(|word| word.len() > 1 && word.starts_with('-')).collect()
}

#[test]
fn shells_complete_what_the_helps_have() {
    let completions = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/completions").join(name);
        fs::read_to_string(path).unwrap()
    };
    let (bash, zsh, fish) = (completions("larder.bash"), completions("_larder"), completions("larder.fish"));
    for command in
        ["why", "explain", "purge", "top", "cluster", "log", "doctor", "import", "shadow", "varnishlog", "varnishncsa"]
    {
        let output = run(&[command, "-h"]);
        let help = text_of(&output.stdout) + &stderr(&output);
        let options = options_of(&help);
        assert!(options.len() > 2, "{command}: {help}");
        let line = |text: &str, start: &str| {
            let at = text.find(start).unwrap_or_else(|| panic!("{start} is not there"));
            text[at..].split(";;").next().unwrap().to_owned()
        };
        let of_bash = line(&bash, &format!("\n    {command}) "));
        for option in &options {
            assert!(of_bash.split([' ', '\'']).any(|word| word == *option), "{command} {option}: {of_bash}");
        }
        if command.starts_with("varnish") {
            continue;
        }
        let of_zsh = match command {
            "why" | "top" => line(&zsh, "\nwhy | top) "),
            _ => line(&zsh, &format!("\n{command}) ")),
        };
        for option in options {
            let of_all = &zsh[zsh.find("asked=(").unwrap()..zsh.find("case $words").unwrap()];
            let has = |text: &str| {
                text.contains(&format!("{option}["))
                    || text.contains(&format!("{option},"))
                    || text.contains(&format!(",{option}}}"))
            };
            assert!(has(&of_zsh) || has(of_all), "{command} {option} in zsh");
            let (kind, name) =
                if let Some(name) = option.strip_prefix("--") { ("-l", name) } else { ("-s", &option[1..]) };
            let of_fish = fish.lines().any(|line| {
                let is_of_all = !line.contains("-n \"") || line.contains(&format!("seen_subcommand_from {command} "));
                let is_of_it = is_of_all || line.split(['"', ' ']).any(|word| word == command);
                let words: Vec<&str> = line.split_whitespace().collect();
                let in_loop = || {
                    let mut loops = fish.lines().filter(|line| line.starts_with("for option in "));
                    loops.any(|line| line.split(' ').any(|word| word == name))
                };
                is_of_it && words.windows(2).any(|pair| pair == [kind, name] || pair == [kind, "$option"] && in_loop())
            });
            assert!(of_fish, "{command} {option} in fish");
        }
    }
}

/// A file that can be used, with a placeholder for what a test adds to its server.
fn good(server: &str) -> String {
    format!(
        "pid nginx.pid; error_log error.log; events {{}}\nhttp {{\n    access_log off;\n    server {{\n        \
         listen 127.0.0.1:{{PORT}};\n        {server}\n    }}\n}}\n"
    )
}

#[test]
fn a_good_file_is_said_to_be_good() {
    let (code, said) = test(&good(""));
    let expected = "larder: the configuration file DIR/nginx.conf syntax is ok\n\
                    larder: configuration file DIR/nginx.conf test is successful\n";
    assert_eq!((code, said.as_str()), (0, expected));
}

#[test]
fn a_quiet_test_says_only_what_is_wrong() {
    let setup = Setup::new();
    setup.write_raw(&good(""));
    let quiet = setup.larder(&["-tq"]);
    assert_eq!((code(&quiet), stderr(&quiet).as_str()), (0, ""));
    setup.write_raw(&good("lisen 80;"));
    let quiet = setup.larder(&["-t", "-q"]);
    assert_eq!(code(&quiet), 1);
    assert!(stderr(&quiet).contains("unknown directive \"lisen\""), "{}", stderr(&quiet));
}

#[test]
fn a_dump_has_every_file_once() {
    let setup = Setup::new().file("part.conf", "# the part\n");
    setup.write_raw(&good("include {DIR}/part.conf; location /a { include {DIR}/part.conf; }"));
    let output = setup.larder(&["-T"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let dump = text_of(&output.stdout);
    let main = setup.fill("# configuration file {DIR}/nginx.conf:\n");
    let part = setup.fill("# configuration file {DIR}/part.conf:\n# the part\n");
    assert_eq!((dump.matches(&main).count(), dump.matches(&part).count()), (1, 1), "{dump}");
    assert!(dump.starts_with(&main), "{dump}");
    assert!(stderr(&output).contains("test is successful"));
}

#[test]
fn a_mistake_is_shown_where_it_is_with_what_was_meant() {
    let (code, said) = test(&good("locaton / { return 200; }"));
    assert_eq!(code, 1);
    assert!(said.starts_with("larder: [emerg] unknown directive \"locaton\" in DIR/nginx.conf:6\n"), "{said}");
    assert!(said.contains("6 |         locaton / { return 200; }\n  |         ^^^^^^^"), "{said}");
    assert!(said.contains("did you mean \"location\"?"), "{said}");
    assert!(said.ends_with("larder: configuration file DIR/nginx.conf test failed\n"), "{said}");
}

#[test]
fn all_mistakes_are_shown_at_once() {
    let (code, said) = test(&good(
        "lisen 80;
        proxy_cache nowhere;
        location / { return 200; retrun 404; }
        client_max_body_size much;",
    ));
    assert_eq!(code, 1);
    for mistake in ["\"lisen\"", "\"nowhere\"", "\"retrun\"", "invalid value \"much\" in \"client_max_body_size\""] {
        assert!(said.contains(mistake), "{mistake}: {said}");
    }
    assert_eq!(said.matches("test failed").count(), 1);
}

#[test]
fn a_block_that_is_not_closed_is_named_where_it_was_opened() {
    let (code, said) = test("events {}\nhttp {\n    server {\n        return 200;\n    }\n");
    assert_eq!(code, 1);
    assert!(said.contains("unexpected end of file, expecting \"}\" in DIR/nginx.conf:"), "{said}");
    assert!(said.contains("2 | http {"), "{said}");
    assert!(said.contains("is opened here and not closed"), "{said}");
}

#[test]
fn a_lone_vhost_file_is_read_as_if_it_stood_in_http() {
    let text = "access_log off;\nserver {\n    listen 127.0.0.1:{PORT};\n    location / { return 200 vhost; }\n}\n";
    let setup = Setup::new();
    setup.write_raw(text);
    let output = setup.larder(&["-t", "-g", &setup.fill("pid {DIR}/nginx.pid;")]);
    let said = stderr(&output);
    assert_eq!(code(&output), 0, "{said}");
    assert!(said.contains("[notice] the file has no \"http\" block"), "{said}");
    assert!(said.contains("test is successful"), "{said}");
}

#[test]
fn what_tls_lacks_is_said_in_nginxs_words_and_with_what_to_do() {
    for (directives, message, mend) in [
        (
            "",
            "[emerg] no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive in DIR/nginx.conf:",
            "add ssl_certificate and ssl_certificate_key, or let larder get a certificate with \"larder_acme on\"",
        ),
        (
            "ssl_certificate a.pem;",
            "[emerg] no \"ssl_certificate_key\" is defined for certificate \"DIR/a.pem\" in DIR/nginx.conf:",
            "",
        ),
        (
            "ssl_certificate a.pem; ssl_certificate_key a.key;",
            "[emerg] cannot load certificate \"DIR/a.pem\": No such file or directory",
            "",
        ),
        (
            "ssl_reject_handshake on; ssl_protocols TLSv1.1;",
            "[emerg] no protocol of \"ssl_protocols\" is spoken by larder in DIR/nginx.conf:",
            "add TLSv1.2 and TLSv1.3",
        ),
        (
            "ssl_reject_handshake on; ssl_ecdh_curve secp521r1;",
            "[emerg] no curve of \"secp521r1\" is offered by this TLS library; known are X25519MLKEM768, X25519",
            "help: add secp384r1 and X25519, or remove this line",
        ),
    ] {
        let (code, said) = test(&good(&format!("listen 127.0.0.1:{{PORT2}} ssl; {directives}")));
        assert_eq!(code, 1, "{directives}: {said}");
        assert!(said.contains(message), "{directives}: {said}");
        assert!(said.contains(mend), "{directives}: {said}");
    }
}

#[test]
fn what_has_no_effect_gives_one_notice_however_often_it_is_asked_for() {
    let setup = Setup::new();
    setup.write_raw(&good(
        "gzip on; gzip_types text/css; gzip_comp_level 6; gzip_buffers 4 8k; tcp_nopush on; http3 on;
        location /a { gzip on; gzip_vary on; gzip_buffers 8 8k; }
        location /b { gzip on; gzip_buffers 16 8k; }",
    ));
    for (words, is_listed, notices) in
        [(&["-t"][..], false, 2), (&["-t", "--notices"], true, 3), (&["--notices"], true, 3), (&["-tq"], false, 0)]
    {
        let output = setup.larder(words);
        let said = stderr(&output);
        assert_eq!(code(&output), 0, "{said}");
        assert_eq!(
            said.matches("\"gzip_buffers\" is read and has no effect").count(),
            usize::from(is_listed),
            "{said}"
        );
        assert_eq!(said.matches("[notice]").count(), notices, "{words:?}: {said}");
        // What is lost is told with its place, whatever else there is.
        assert_eq!(said.contains("\"http3\" is read and has no effect"), notices > 0, "{words:?}: {said}");
        let line = "[notice] 2 directives have no effect, and are not needed: see \"larder --notices\"\n";
        assert_eq!(said.contains(line), notices == 2, "{words:?}: {said}");
    }
}

#[test]
fn a_file_that_is_not_there_is_said_in_nginxs_words() {
    let setup = Setup::new();
    let output = setup.larder(&["-t"]);
    let said = stderr(&output);
    assert_eq!(code(&output), 1);
    assert!(said.contains(&setup.fill("open() \"{DIR}/nginx.conf\" failed (2: No such file or directory)")), "{said}");
    setup.write_raw(&good("include {DIR}/nowhere.conf;"));
    let output = setup.larder(&["-t"]);
    let said = stderr(&output);
    assert_eq!(code(&output), 1);
    assert!(
        said.contains(&setup.fill("open() \"{DIR}/nowhere.conf\" failed (2: No such file or directory)")),
        "{said}"
    );
}

#[test]
fn what_only_a_start_would_find_is_found_by_a_test() {
    let setup = Setup::new();
    setup.write_raw(&good("location ~ ^/(a { return 200; }"));
    let output = setup.larder(&["-t"]);
    assert_eq!(code(&output), 1, "{}", stderr(&output));
    setup.write_raw(&good("return 200 $nonesuch;"));
    let output = setup.larder(&["-t"]);
    assert_eq!(code(&output), 1);
    assert!(stderr(&output).contains("unknown \"nonesuch\" variable"), "{}", stderr(&output));
}
