//! Golden cases: each file of `cases/` is a VCL, a line `----`, and what comes of it.
//!
//! What comes of it is what is rendered, or a dump of the policy without the builtin VCL. `==> PATH` begins another
//! file, and the lines `# glob: PATTERN = PATHS`, `# storages: NAMES`, `# labels: NAMES`, `# upstreams: NAMES` and
//! `# unused is allowed` say what is outside. `UPDATE_CASES=1` rewrites the expectations.

mod dump;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use larder_source::MemoryLoader;
use larder_vcl::{Options, load, render};

const MAIN_FILE: &str = "/etc/varnish/default.vcl";

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
    assert!(paths.len() >= 40, "only {} cases were found", paths.len());
    let mut wrong = String::new();
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a case is a text file");
        let (input, expected) = text.split_once("----\n").unwrap_or((&text, ""));
        let found = run(input);
        if found == expected {
            continue;
        }
        if update {
            std::fs::write(&path, format!("{}\n----\n{found}", input.trim_end())).expect("a case can be written");
        } else {
            let _ = writeln!(wrong, "==== {}\n-- expected\n{expected}\n-- found\n{found}", path.display());
        }
    }
    assert!(wrong.is_empty(), "{wrong}\nUPDATE_CASES=1 rewrites them");
}

#[test]
fn the_builtin_vcl_alone_is_a_policy() {
    let mut loader = MemoryLoader::new();
    loader.add(MAIN_FILE, "vcl 4.1;");
    let options = Options { has_other_backends: true, ..Options::default() };
    let loaded = load(Path::new(MAIN_FILE), &options, &mut loader, &|_| Ok(())).expect("it is ours");
    assert!(loaded.notices.is_empty());
    assert!(loaded.policy.subs.iter().all(|sub| !sub.steps.is_empty()), "each of its subs is reached");
    assert_eq!(loaded.policy.default_backend, None);
}

#[test]
fn a_name_that_begins_with_a_point_is_beside_the_file_that_includes_it() {
    for (main, part) in [("h.vcl", "sub/ok.vcl"), ("./h.vcl", "./sub/ok.vcl"), ("../a/h.vcl", "../a/sub/ok.vcl")] {
        let mut loader = MemoryLoader::new();
        loader.add(main, "vcl 4.1; backend default none; include \"./sub/ok.vcl\";").add(part, "# nothing\n");
        let options = Options { vcl_path: vec!["/etc/varnish".into()], ..Options::default() };
        let loaded = load(Path::new(main), &options, &mut loader, &|_| Ok(()));
        assert!(
            loaded.is_ok(),
            "{main}: {:?}",
            loaded.err().map(|failed| render(&failed.diagnostics, &failed.sources))
        );
    }
}

fn run(input: &str) -> String {
    let mut options =
        Options { vcl_path: vec!["/etc/varnish".into(), "/usr/share/varnish".into()], ..Options::default() };
    let mut loader = MemoryLoader::new();
    let mut path = MAIN_FILE.to_owned();
    let mut text = String::new();
    for line in input.lines() {
        if let Some(next) = line.strip_prefix("==> ") {
            loader.add(std::mem::replace(&mut path, next.to_owned()), std::mem::take(&mut text));
        } else if let Some(glob) = line.strip_prefix("# glob: ") {
            let (pattern, matches) = glob.split_once(" = ").expect("a glob is PATTERN = PATHS");
            loader.add_glob(pattern, matches.split(' ').map(PathBuf::from).collect());
        } else if let Some(names) = line.strip_prefix("# storages: ") {
            options.storages = names.split(' ').map(str::to_owned).collect();
        } else if let Some(names) = line.strip_prefix("# upstreams: ") {
            options.upstreams = names.split(' ').map(str::to_owned).collect();
        } else if let Some(names) = line.strip_prefix("# labels: ") {
            options.labels = names.split(' ').map(str::to_owned).collect();
        } else if line == "# unused is allowed" {
            options.allows_unused = true;
        } else {
            text.push_str(line);
            text.push('\n');
        }
    }
    loader.add(path, text);
    match load(Path::new(MAIN_FILE), &options, &mut loader, &is_regex) {
        Err(failed) => render(&failed.diagnostics, &failed.sources),
        Ok(loaded) => render(&loaded.notices, &loaded.sources) + &dump::dump(&loaded.policy),
    }
}

/// Stands for the library of the engine: what matters here is that it is asked.
fn is_regex(pattern: &str) -> Result<(), String> {
    match pattern.matches('(').count() == pattern.matches(')').count() {
        true => Ok(()),
        false => Err("parentheses do not match".to_owned()),
    }
}
