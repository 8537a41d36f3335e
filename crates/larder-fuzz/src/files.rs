//! Configurations, and pages with SSI or ESI.

use std::path::{Path, PathBuf};

use larder_conf::{MemoryLoader, Options, Severity, lint, load, render};

use crate::pieces::pieces;

/// Configurations: what is refused says why and where, and twice the same is read twice the same.
pub fn nginx_conf(data: &[u8]) {
    let options = Options {
        prefix: PathBuf::from("/p"),
        conf_prefix: PathBuf::from("/p/conf"),
        globals: None,
        is_root: false,
        hostname: "host".to_owned(),
    };
    let mut loader = MemoryLoader::new();
    loader.add("/p/nginx.conf", data);
    let mut load = || load(Path::new("/p/nginx.conf"), &options, &mut loader);
    match (load(), load()) {
        (Ok(one), Ok(other)) => {
            assert_eq!(format!("{:?}", one.notices), format!("{:?}", other.notices));
            for diagnostic in one.notices.iter().chain(&lint(&one.config)) {
                assert!(diagnostic.severity != Severity::Error, "{diagnostic:?}");
                assert!(!render(std::slice::from_ref(diagnostic), &one.sources).is_empty());
            }
        }
        (Err(one), Err(other)) => {
            assert!(one.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error));
            assert_eq!(one.diagnostics.len(), other.diagnostics.len());
            for diagnostic in &one.diagnostics {
                assert!(!render(std::slice::from_ref(diagnostic), &one.sources).is_empty());
                assert!(diagnostic.span.is_none_or(|span| one.sources.position(span).is_some()), "{diagnostic:?}");
            }
        }
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => panic!("it loads only sometimes"),
    }
}

/// Pages with SSI: in pieces as at once, and text is passed on as it is.
pub fn ssi(data: &[u8]) {
    let whole = larder_server::fuzzing::ssi(&[data]);
    assert_eq!(larder_server::fuzzing::ssi(&pieces(data)), whole);
    let has_command = data.windows(5).any(|window| window == b"<!--#");
    if !has_command {
        let text = format!("text {}", data.escape_ascii());
        assert_eq!(whole, if data.is_empty() { Vec::new() } else { vec![text] });
    }
}

/// Pages with ESI: in pieces as at once, and a page without any goes out as it is.
pub fn esi(data: &[u8]) {
    for is_full in [false, true] {
        let whole = larder_server::fuzzing::esi(&[data], is_full);
        assert_eq!(larder_server::fuzzing::esi(&pieces(data), is_full), whole);
        let has = |word: &[u8]| data.windows(word.len()).any(|window| window == word);
        if !has(b"esi:") && !has(b"!--esi") && !data.is_empty() {
            assert_eq!(whole[0], format!("text {}", data.escape_ascii()));
            assert_eq!(whole.len(), if is_full { 3 } else { 2 });
        }
    }
}
