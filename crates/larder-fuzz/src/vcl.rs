//! Policies in VCL.

use std::path::Path;

use larder_conf::{MemoryLoader, Severity};
use larder_vcl::{Options, load, render};

/// The file that is read, and what else it can include.
const MAIN_FILE: &str = "/etc/varnish/default.vcl";
const OTHER_FILES: [(&str, &str); 2] =
    [("/etc/varnish/a.vcl", "set req.url = \"/\";"), ("/etc/varnish/b.vcl", "include \"b.vcl\"; include \"a.vcl\";")];

/// VCL: what is refused says why and where, what is accepted has each step, and twice the same is read twice the same.
pub fn vcl(data: &[u8]) {
    let options = Options {
        vcl_path: vec!["/etc/varnish".into()],
        storages: vec!["malloc".to_owned()],
        labels: vec!["other".to_owned()],
        upstreams: vec!["other".to_owned()],
        has_other_backends: true,
        allows_unused: true,
    };
    let mut loader = MemoryLoader::new();
    loader.add(MAIN_FILE, data);
    for (path, text) in OTHER_FILES {
        loader.add(path, text);
    }
    let mut load = || load(Path::new(MAIN_FILE), &options, &mut loader, &|_| Ok(()));
    match (load(), load()) {
        (Ok(one), Ok(other)) => {
            assert_eq!(format!("{:?}", one.policy), format!("{:?}", other.policy));
            assert!(one.notices.iter().all(|notice| notice.severity != Severity::Error));
            assert!(one.policy.steps.iter().all(|sub| !one.policy.subs[sub.0].steps.is_empty()));
            let _: String = render(&one.notices, &one.sources);
        }
        (Err(one), Err(other)) => {
            assert_eq!(one.diagnostics, other.diagnostics);
            assert!(one.diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error));
            for diagnostic in &one.diagnostics {
                assert!(!render(std::slice::from_ref(diagnostic), &one.sources).is_empty());
                assert!(diagnostic.span.is_none_or(|span| one.sources.position(span).is_some()), "{diagnostic:?}");
            }
        }
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => panic!("it loads only sometimes"),
    }
}
