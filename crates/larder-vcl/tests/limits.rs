//! What is bounded, so that no VCL takes all of the memory, the time or the stack.

use std::path::Path;

use larder_source::MemoryLoader;
use larder_vcl::{Loaded, Options, load};

const MAIN_FILE: &str = "/etc/varnish/default.vcl";

/// What comes of a VCL with these files: its policy, or the first message.
fn load_files(files: &[(&str, String)]) -> Result<Loaded, String> {
    let mut loader = MemoryLoader::new();
    for (path, text) in files {
        loader.add(*path, text.as_str());
    }
    let options = Options { has_other_backends: true, ..Options::default() };
    load(Path::new(MAIN_FILE), &options, &mut loader, &|_| Ok(()))
        .map_err(|failed| failed.diagnostics[0].message.clone())
}

fn load_text(text: String) -> Result<Loaded, String> {
    load_files(&[(MAIN_FILE, format!("vcl 4.1;\n{text}"))])
}

#[test]
fn the_deepest_tree_that_is_read_can_be_walked() {
    // Each parenthesis has as many operators as may stand in a row, and the last of them holds the next parenthesis.
    let chain = "1s + ".repeat(19);
    let expression = format!("{}1s{}", format!("({chain}").repeat(60), ")".repeat(60));
    let loaded =
        load_text(format!("sub vcl_backend_response {{ set beresp.ttl = {expression}; }}")).expect("it is bounded");
    assert_eq!(loaded.policy.clone().subs, loaded.policy.subs);
    assert!(!format!("{:?}", loaded.policy).is_empty());

    let expression = format!("{}1s{}", "(".repeat(60), format!("{} )", " + 1s".repeat(20)).repeat(60));
    let loaded =
        load_text(format!("sub vcl_backend_response {{ set beresp.ttl = {expression}; }}")).expect("it is bounded");
    assert_eq!(loaded.policy.clone().subs, loaded.policy.subs);
    assert!(!format!("{:?}", loaded.policy).is_empty());
}

#[test]
fn what_is_deeper_is_an_error() {
    for text in [
        format!("sub vcl_recv {{ set req.url = {}\"a\"{}; }}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("sub vcl_recv {{ set req.url = {}1; }}", "- ".repeat(100_000)),
        format!("sub vcl_recv {{ {}{} }}", "{".repeat(100_000), "}".repeat(100_000)),
        format!("sub vcl_recv {{ {} {} }}", "if (true) {".repeat(100_000), "}".repeat(100_000)),
        format!("backend b {{ {}", ".probe = {".repeat(100_000)),
    ] {
        let message = load_text(text).map(|_| ()).expect_err("it is too deep");
        assert_eq!(message, "this nests more than 64 deep");
    }
}

#[test]
fn what_is_long_is_not_deep() {
    for text in [
        format!("sub vcl_recv {{ set req.url = \"a\"{}; }}", " + req.url".repeat(10_000)),
        format!(
            "sub vcl_recv {{ if (req.url == \"/\"{}) {{ return (pass); }} }}",
            " || req.url ~ \"a\"".repeat(10_000)
        ),
        format!("sub vcl_recv {{ if (true) {{ }} {} }}", "elseif (false) { }".repeat(10_000)),
        (0..10_000).map(|n| format!("sub s{n} {{ call s{}; }}\n", n + 1)).collect::<String>()
            + "sub s10000 { } sub vcl_recv { call s0; }",
    ] {
        load_text(text).expect("it is as deep as a short one");
    }
}

#[test]
fn includes_end() {
    let files = |name: &str, text: &str| {
        vec![(MAIN_FILE, "vcl 4.1; include \"0\";".to_owned()), (name, text.to_owned())]
            .into_iter()
            .map(|(path, text)| (path.to_owned(), text))
            .collect::<Vec<_>>()
    };
    let run = |files: &[(String, String)]| {
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
        load_files(&files).map(|_| ()).expect_err("it has to end")
    };
    assert_eq!(run(&files("0", "include \"0\";")), "\"0\" includes itself");

    let mut deep = files("0", "include \"1\";");
    deep.extend((1..100).map(|n| (n.to_string(), format!("include \"{}\";", n + 1))));
    assert_eq!(run(&deep), "files include files more than 32 deep");

    // Two files include the next twice, and so on; the last has this text.
    let wide = |deep: usize, text: String| {
        let mut wide = files("0", "include \"1\"; include \"1\";");
        wide.extend((1..deep).map(|n| (n.to_string(), format!("include \"{0}\"; include \"{0}\";", n + 1))));
        wide.push((deep.to_string(), text));
        run(&wide)
    };
    assert_eq!(wide(25, "sub s { }".to_owned()), "files are included more than 10000 times");
    assert_eq!(wide(10, "sub s { }".repeat(1_000)), "the files have more than 1000000 words and signs together");
    assert_eq!(
        wide(10, " ".repeat(1 << 20)),
        "the files have more than 64 MB together, each as often as it is included"
    );
    let long = "; ".repeat(1_000_001);
    assert_eq!(run(&files("0", &long)), "the files have more than 1000000 words and signs together");
}

#[test]
fn a_file_of_mistakes_has_few_messages() {
    for text in
        ["$ ".repeat(100_000), "x; ".repeat(100_000), "sub vcl_recv { x; }".repeat(10_000), "acl a { } ".repeat(10_000)]
    {
        let mut loader = MemoryLoader::new();
        loader.add(MAIN_FILE, format!("vcl 4.1;\n{text}"));
        let loaded = load(Path::new(MAIN_FILE), &Options::default(), &mut loader, &|_| Ok(()));
        let count = loaded.expect_err("it is no VCL").diagnostics.len();
        assert!((1..=100).contains(&count), "{count}");
    }
}
