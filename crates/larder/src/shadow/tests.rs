//! A configuration for the tests of this folder.

use larder_conf::MemoryLoader;
use larder_conf::model::Config;

use crate::configuration::{Configuration, Surroundings};
use crate::paths::DefaultLog;

/// That of a file with this `http` block.
pub fn config(http: &str) -> Config {
    let surroundings = Surroundings {
        conf_file: "nginx.conf".into(),
        conf_prefix: "/etc".into(),
        prefix: "/srv".into(),
        globals: None,
        is_root: true,
        hostname: "host".to_owned(),
        error_log: DefaultLog::Stderr,
    };
    let mut files = MemoryLoader::new();
    files.add("nginx.conf", format!("events {{}} http {{ {http} }}"));
    Configuration::from_memory(surroundings, files).unwrap_or_else(|rejected| panic!("{rejected}")).config
}
