//! Golden cases: each file of `cases/` is a configuration, a line `----`, and what comes of it.
//!
//! What comes of it is what is rendered, errors or notices. A first line `# dump: WHAT` asks for a part of
//! the model in its place, or by `lint` for the likely mistakes, and `==> PATH` begins another file. `UPDATE_CASES=1`
//! rewrites the expectations.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use larder_conf::model::{Config, Location, ProfileRow, tls_files};
use larder_conf::{MemoryLoader, Options, Span, lint, load, render};

const MAIN_FILE: &str = "/etc/nginx/nginx.conf";

#[test]
fn every_case_comes_out_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let update = std::env::var_os("UPDATE_CASES").is_some();
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the folder of cases is there")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "case"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 60, "only {} cases were found", paths.len());
    let mut wrong = String::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a case is a text file");
        let (input, expected) = text.split_once("----\n").unwrap_or((&text, ""));
        let found = run(input);
        if found == expected {
            continue;
        }
        if update {
            let new = format!("{}----\n{found}", with_newline(input));
            std::fs::write(&path, new).expect("a case can be written");
        } else {
            let _ = writeln!(wrong, "==== {}\n-- expected\n{expected}\n-- found\n{found}", path.display());
        }
    }
    assert!(wrong.is_empty(), "{wrong}\nUPDATE_CASES=1 rewrites them");
}

fn with_newline(text: &str) -> String {
    if text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

fn options() -> Options {
    Options {
        prefix: "/usr/share/nginx".into(),
        conf_prefix: "/etc/nginx".into(),
        globals: None,
        is_root: true,
        hostname: "web1.example.org".into(),
    }
}

fn run(input: &str) -> String {
    let mut options = options();
    let mut loader = MemoryLoader::new();
    let mut dump = None;
    let mut path = MAIN_FILE.to_owned();
    let mut text = String::new();
    for line in input.lines() {
        if let Some(next) = line.strip_prefix("==> ") {
            loader.add(std::mem::replace(&mut path, next.to_owned()), std::mem::take(&mut text));
        } else if let Some(what) = line.strip_prefix("# dump: ") {
            dump = Some(what.to_owned());
        } else if let Some(globals) = line.strip_prefix("# globals: ") {
            options.globals = Some(globals.to_owned());
        } else if let Some(glob) = line.strip_prefix("# glob: ") {
            let (pattern, matches) = glob.split_once(" = ").expect("a glob is PATTERN = PATHS");
            loader.add_glob(pattern, matches.split(' ').map(PathBuf::from).collect());
        } else {
            text.push_str(line);
            text.push('\n');
        }
    }
    loader.add(path, text);
    match load(Path::new(MAIN_FILE), &options, &mut loader) {
        Err(failed) => render(&failed.diagnostics, &failed.sources),
        Ok(loaded) => match dump {
            Some(what) if what == "lint" => render(&lint(&loaded.config), &loaded.sources),
            Some(what) => {
                let mut out = render(&loaded.notices, &loaded.sources);
                out.push_str(&show(&loaded.config, &what));
                out
            }
            None if loaded.notices.is_empty() => "ok\n".to_owned(),
            None => render(&loaded.notices, &loaded.sources),
        },
    }
}

/// A part of the model: `main`, `http.FIELD`, `server N FIELD`, `location N FIELD` (counted in order through
/// the first server) or `if N FIELD`.
fn show(config: &Config, what: &str) -> String {
    let words: Vec<&str> = what.split(' ').collect();
    let text = match words.as_slice() {
        ["main"] => format!("{:#?}", config.main),
        ["upstreams"] => format!("{:#?}", config.http.upstreams),
        ["gates"] => {
            let groups: Vec<_> = config.http.upstreams.iter().map(|group| (&group.gate, &group.queue)).collect();
            let mut all = Vec::new();
            collect(&config.http.servers[0].root, &mut all);
            all.iter().fold(format!("{groups:#?}\n"), |mut out, location| {
                let _ = writeln!(out, "{:?} {:?}", location.matcher, location.settings.gating);
                out
            })
        }
        ["maps"] => format!("{:#?}", config.http.maps),
        ["geos"] => format!("{:#?}", config.http.geos),
        ["splits"] => format!("{:#?}", config.http.splits),
        ["charset_maps"] => format!("{:#?}", config.http.charset_maps),
        ["caches"] => format!("{:#?}", config.http.cache_paths),
        ["placements"] => format!("{:?} {:#?}", config.http.memory_bytes, config.http.placements),
        ["memory"] => format!("{:?} {:?}", config.http.memory_bytes, config.http.memory_total),
        ["limits"] => format!("{:#?}\n{:#?}", config.http.limit_req_zones, config.http.limit_conn_zones),
        ["cluster"] => format!("{:#?}", config.http.cluster),
        ["acme"] => {
            let orders: Vec<_> = config.http.servers.iter().map(|server| &server.acme).collect();
            format!("{:#?}\n{orders:#?}", config.acme)
        }
        ["tls_files"] => tls_files(config).iter().fold(String::new(), |mut out, file| {
            let _ = writeln!(out, "{:?} {}", file.purpose, file.path.display());
            out
        }),
        ["protocols"] => {
            config.http.servers.iter().flat_map(|server| &server.listens).fold(String::new(), |mut out, listen| {
                let words = [
                    (listen.ssl, " ssl"),
                    (listen.http2, " http2"),
                    (listen.proxy_protocol, " proxy_protocol"),
                    (listen.admin, " larder_admin"),
                ];
                let words: String = words.iter().filter(|(has, _)| *has).map(|(_, word)| *word).collect();
                let _ = writeln!(out, "{:?}{words}", listen.address);
                out
            })
        }
        ["formats"] => format!("{:#?}", config.http.log_formats),
        ["server", n, field] => {
            let server = &config.http.servers[n.parse::<usize>().expect("a number")];
            match *field {
                "listens" => format!("{:#?}", server.listens),
                "names" => format!("{:#?}\n{:#?}", server.names, server.first_name),
                "script" => format!("{:#?}", server.script),
                "client" => format!("{:#?}", server.client),
                "zones" => {
                    let mut all = Vec::new();
                    collect(&server.root, &mut all);
                    all.iter().fold(format!("{:?}\n", server.status_zone), |mut out, location| {
                        let _ = writeln!(out, "{:?} {:?}", location.matcher, location.settings.modules.status_zone);
                        out
                    })
                }
                "tls" => format!("{:#?}", server.tls),
                "http2" => format!("{:#?}\n{:#?}", server.http2, server.root.settings.connection.http2_chunk_bytes),
                field => show_location(&server.root, field),
            }
        }
        ["location", n, field] => {
            let mut all = Vec::new();
            collect(&config.http.servers[0].root, &mut all);
            show_location(all[n.parse::<usize>().expect("a number")], field)
        }
        _ => panic!("nobody knows how to dump {what}"),
    };
    without_spans(&text)
}

fn collect<'c>(location: &'c Location, all: &mut Vec<&'c Location>) {
    for inside in &location.locations {
        all.push(inside);
        collect(inside, all);
    }
}

fn show_location(location: &Location, field: &str) -> String {
    let settings = &location.settings;
    match field {
        "matcher" => format!("{:#?}", location.matcher),
        "handler" => format!("{:#?}", location.handler),
        "script" => format!("{:#?}", location.script),
        "try_files" => format!("{:#?}", location.try_files),
        "alias" => format!("{:#?}\n{:#?}", location.alias, location.alias_replaces),
        "root" => format!("{:#?}", settings.files.root),
        "edits" => format!("{:#?}", settings.fields.edits),
        "headers" => format!("{:#?}", settings.fields.add_headers),
        "error_pages" => format!("{:#?}", settings.errors.pages),
        "access" => format!("{:#?}", settings.access.rules),
        "access_logs" => format!("{:#?}", settings.logs.access),
        "error_log" => format!("{:#?}", settings.logs.error),
        "expires" => format!("{:#?}", settings.fields.expires),
        "index" => format!("{:#?}", settings.files.index),
        "autoindex" => format!("{:#?}", settings.files.autoindex),
        "limits" => format!("{:#?}\n{:#?}", settings.limits.req.zones, settings.limits.conn.zones),
        "realip" => format!("{:#?}\n{:#?}", settings.real_ip.from, settings.real_ip.header),
        "params" => format!("{:#?}", settings.fastcgi.params),
        "fastcgi" => format!("{:#?}", settings.fastcgi.origin),
        "compression" => format!("{:#?}", settings.compression),
        "subrequests" => format!("{:#?}", settings.subrequests),
        "caching" => format!("{:#?}", settings.caching),
        "purging" => format!("{:#?}", settings.purging),
        "profile" => settings.profile.profile.as_ref().map_or_else(
            || "none\n".to_owned(),
            |profile| {
                let own = |row: &&ProfileRow| row.place.0.starts_with('/');
                profile.rows.iter().filter(own).fold(format!("{}\n", profile.name), |mut out, row| {
                    let _ = writeln!(out, "{:?} {} {}:{}", row.says, row.pattern, row.place.0, row.place.1);
                    out
                })
            },
        ),
        "modules" => format!("{:#?}", settings.modules),
        "origin_tls" => {
            let proxy = &settings.proxy;
            format!("{:#?}\n{:#?}\n{:#?}", location.handler.origin_scheme(), proxy.tls, proxy.proxy_protocol)
        }
        "proxy" => format!("{:#?}", settings.proxy),
        "limit_except" => {
            format!("{:#?}", location.limit_except.as_ref().map(|l| (&l.methods, &l.location.settings.access.rules)))
        }
        "types" => {
            let mut types: Vec<_> = settings.files.types.iter().collect();
            types.sort();
            format!("{types:#?}")
        }
        _ => panic!("nobody knows how to dump {field}"),
    }
}

/// Debug text without the places, and with values that fit on one line.
fn without_spans(text: &str) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if line.trim_start().starts_with("span: Span {") {
            for inner in lines.by_ref() {
                if inner.trim() == "}," {
                    break;
                }
            }
            continue;
        }
        out.push_str(line);
        out.push('\n');
    }
    // Short pieces read better without their line breaks.
    for _ in 0..8 {
        out = fold(&out);
    }
    out
}

fn fold(text: &str) -> String {
    const WIDTH_MAX: usize = 100;
    let lines: Vec<&str> = text.lines().collect();
    let mut out = String::new();
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let opens = line.ends_with(['(', '{', '[']);
        let body: Vec<&str> = lines[at + 1..]
            .iter()
            .copied()
            .take_while(|l| l.trim_start().len() < l.len() && indent(l) > indent(line))
            .collect();
        let is_flat = opens && body.iter().all(|l| !l.ends_with(['(', '{', '['])) && at + body.len() + 1 < lines.len();
        if is_flat {
            let close = lines[at + body.len() + 1].trim_start();
            let inner: Vec<&str> = body.iter().map(|l| l.trim()).collect();
            let joined = format!("{line}{}{close}", inner.join(" ").trim_end_matches(','));
            if joined.len() <= WIDTH_MAX {
                out.push_str(&joined);
                out.push('\n');
                at += body.len() + 2;
                continue;
            }
        }
        out.push_str(line);
        out.push('\n');
        at += 1;
    }
    out
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// A configuration with a bit of everything.
const GOOD: &str = include_str!("good.conf");

#[test]
fn damaged_configurations_never_panic() {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % (below as u64)).expect("it is below a usize")
    };
    let good = GOOD.as_bytes();
    let words: Vec<&str> = GOOD.split_whitespace().collect();
    for _ in 0..600 {
        let mut bytes = good.to_vec();
        for _ in 0..=random(6) {
            let at = random(bytes.len());
            match random(6) {
                0 => bytes[at] = b"{};\"'$\\#~@=:/\n \0\xff0"[random(18)],
                1 => {
                    bytes.remove(at);
                }
                2 => bytes.insert(at, b"{};\"'$\\ "[random(8)]),
                3 => bytes.truncate(at.max(1)),
                4 => {
                    let word = words[random(words.len())].as_bytes();
                    bytes.splice(at..at, word.iter().copied());
                }
                _ => {
                    let to = (at + random(40)).min(bytes.len());
                    bytes.drain(at..to);
                }
            }
            if bytes.is_empty() {
                bytes.push(b';');
            }
        }
        let mut loader = MemoryLoader::new();
        loader.add(MAIN_FILE, bytes);
        match load(Path::new(MAIN_FILE), &options(), &mut loader) {
            Ok(loaded) => drop(render(&loaded.notices, &loaded.sources)),
            Err(failed) => drop(render(&failed.diagnostics, &failed.sources)),
        }
    }
}

#[test]
fn the_good_configuration_is_good_and_loads_again_from_its_sources() {
    let mut loader = MemoryLoader::new();
    loader.add(MAIN_FILE, GOOD);
    let loaded = match load(Path::new(MAIN_FILE), &options(), &mut loader) {
        Ok(loaded) => loaded,
        Err(failed) => panic!("{}", render(&failed.diagnostics, &failed.sources)),
    };
    let again = load(Path::new(MAIN_FILE), &options(), &mut MemoryLoader::from(&loaded.sources));
    let again = again.unwrap_or_else(|failed| panic!("{failed}"));
    let text = |config: &Config| {
        // The order of a map of types is nobody's business.
        let mut types: Vec<_> = config.http.settings.files.types.iter().collect();
        types.sort();
        format!("{:?}{types:?}", config.http.upstreams)
    };
    assert_eq!(text(&loaded.config), text(&again.config));
}

#[test]
fn a_later_stage_renders_with_the_same_sources() {
    let mut loader = MemoryLoader::new();
    loader.add(MAIN_FILE, "http { server { location ~ ( { } } }");
    let loaded = load(Path::new(MAIN_FILE), &options(), &mut loader).unwrap_or_else(|failed| panic!("{failed}"));
    let larder_conf::model::Matcher::Regex(pattern) = &loaded.config.http.servers[0].root.locations[0].matcher else {
        panic!("it is a regular expression");
    };
    let diagnostic = larder_conf::Diagnostic::error("missing closing parenthesis").at(pattern.span);
    let text = render(&[*diagnostic], &loaded.sources);
    assert!(text.starts_with("larder: [emerg] missing closing parenthesis in /etc/nginx/nginx.conf:1\n"), "{text}");
    assert_eq!(loaded.sources.position(Span { end: 0, ..pattern.span }).map(|p| p.column), Some(28));
}

#[test]
fn many_small_files_and_loops_of_includes_end() {
    for (files, message) in [
        (&[("a", "include a;")][..], "includes itself"),
        (&[("a", "include b;"), ("b", "include a;")], "includes itself"),
    ] {
        let mut loader = MemoryLoader::new();
        loader.add(MAIN_FILE, "include a;");
        for (name, text) in files {
            loader.add(format!("/etc/nginx/{name}"), *text);
        }
        let failed = load(Path::new(MAIN_FILE), &options(), &mut loader).expect_err("it goes in circles");
        assert!(failed.diagnostics[0].message.contains(message), "{:?}", failed.diagnostics);
    }
    // Each file includes the next one twice, so that the last would be read 2^40 times.
    let mut loader = MemoryLoader::new();
    loader.add(MAIN_FILE, "include f0;");
    for n in 0..40 {
        loader.add(format!("/etc/nginx/f{n}"), format!("include f{0}; include f{0};", n + 1));
    }
    loader.add("/etc/nginx/f40", "");
    assert!(load(Path::new(MAIN_FILE), &options(), &mut loader).is_err());
    let deep = "location / {".repeat(100_000);
    loader.add(MAIN_FILE, format!("http {{ server {{ {deep}"));
    assert!(load(Path::new(MAIN_FILE), &options(), &mut loader).is_err());
}
