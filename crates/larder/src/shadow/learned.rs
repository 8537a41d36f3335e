//! What the configuration tells of a log: how its lines are written, and of which site they are.

use std::ffi::OsStr;
use std::path::Path;

use larder_conf::model::{AccessLogTarget, Config, LogTarget, Server};

use crate::levels;

use super::line::Format;

/// What is known of a log.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// The name of its `log_format`.
    format: Option<String>,
    /// The name of the only site that writes it.
    pub host: Option<String>,
}

impl Learned {
    /// Of the `access_log` that writes to this file, or has written it before it was rotated.
    pub fn of(config: &Config, path: &Path) -> Learned {
        let wanted = full(path);
        let mut writers: Vec<(&Server, &Path, &str)> = Vec::new();
        for server in &config.http.servers {
            for log in levels::of_server(server).into_iter().flat_map(|settings| &settings.logs.access) {
                if let AccessLogTarget::Fixed(LogTarget::File(file)) = &log.target
                    && is_written_as(&full(file), &wanted)
                {
                    writers.push((server, file, &log.format.value));
                }
            }
        }
        // Of `access.log` and `access.log.1` that are both written, the rotated file of the second is not the first's.
        let longest = writers.iter().map(|(_, file, _)| file.as_os_str().len()).max();
        writers.retain(|(_, file, _)| Some(file.as_os_str().len()) == longest);
        let mut names: Vec<Option<&str>> = writers.iter().map(|(server, ..)| name_of(server)).collect();
        names.dedup();
        let host = match &names[..] {
            [Some(name)] => Some((*name).to_owned()),
            _ => None,
        };
        Learned { format: writers.first().map(|(.., format)| (*format).to_owned()), host }
    }

    /// How its lines are written: as it is said, as is known of it, or `combined`.
    pub fn format(&self, config: &Config, said: Option<&str>) -> Result<Format, String> {
        let name = said.or(self.format.as_deref()).unwrap_or("combined");
        let formats = &config.http.log_formats;
        let format = formats.iter().find(|format| format.name.value == name).ok_or_else(|| {
            let names: Vec<&str> = formats.iter().map(|format| format.name.value.as_str()).collect();
            format!("the configuration has no log_format \"{name}\"; it has {}", names.join(", "))
        })?;
        Format::of(format)
    }
}

/// The first `server_name` that is a host.
pub fn first_name(config: &Config) -> Option<String> {
    config.http.servers.iter().find_map(name_of).map(str::to_owned)
}

fn name_of(server: &Server) -> Option<&str> {
    let name = server.first_name.as_str();
    let is_host = !name.is_empty() && name != "_" && !name.starts_with(['~', '.', '*']) && !name.ends_with('*');
    is_host.then_some(name)
}

/// A path through the links of its folder. The file itself may be gone, as between rotation and the next line.
fn full(path: &Path) -> std::path::PathBuf {
    if let Ok(path) = path.canonicalize() {
        return path;
    }
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    folder.zip(path.file_name()).map_or_else(|| path.to_owned(), |(folder, name)| folder.join(name))
}

/// Whether a log is called `wanted` now, or when it is rotated: `access.log.2.gz`, `access.log-20261126`,
/// `access-20261126.log`.
fn is_written_as(log: &Path, wanted: &Path) -> bool {
    let name = |path: &Path| path.file_name().and_then(OsStr::to_str).map(str::to_owned);
    let (Some(own), Some(name)) = (name(log), name(wanted)) else { return log == wanted };
    if log.parent() != wanted.parent() {
        return false;
    }
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    let is_number = |text: &str| {
        text.starts_with(['.', '-', '_'])
            && text.contains(|letter: char| letter.is_ascii_digit())
            && text.chars().all(|letter| letter.is_ascii_digit() || ".-_:T".contains(letter))
    };
    let (stem, ending) = own.rfind('.').map_or((&*own, ""), |at| own.split_at(at));
    name == own
        || name.strip_prefix(&*own).is_some_and(is_number)
        || name.strip_prefix(stem).and_then(|rest| rest.strip_suffix(ending)).is_some_and(is_number)
}

#[cfg(test)]
mod tests {
    use super::super::tests::config;
    use super::*;

    #[test]
    fn a_log_is_known_also_when_it_is_rotated() {
        let config = config(
            "log_format a '$request'; log_format b '$request $host'; access_log /nolog/access.log a;
             server { listen 80; server_name one.test; }
             server { listen 81; server_name two.test; access_log /nolog/two.log b; }
             server { listen 82; server_name two.test; access_log /nolog/two.log b; }
             server { listen 83; server_name _; access_log /nolog/access.log.other b; }
             server { listen 84; server_name three.test; location /x { access_log /nolog/three.access.log b; } access_log /nolog/two-1.log a; }",
        );
        let a = (Some("a"), Some("one.test"));
        let b = (Some("b"), Some("two.test"));
        for (path, expected) in [
            ("/nolog/access.log", a),
            ("/nolog/access.log.1", a),
            ("/nolog/access.log.12.gz", a),
            ("/nolog/access.log-20261126.gz", a),
            ("/nolog/access-2026-11-26.log", a),
            ("/nolog/access.log.other", (Some("b"), None)),
            ("/nolog/access.log.others", (None, None)),
            ("/nolog/access.logs", (None, None)),
            ("/elsewhere/access.log", (None, None)),
            ("/nolog/two.log.1", b),
            ("/nolog/two-1.log", (Some("a"), Some("three.test"))),
            ("/nolog/two-2.log", b),
            ("/nolog/three.access.log.3", (Some("b"), Some("three.test"))),
        ] {
            let learned = Learned::of(&config, Path::new(path));
            assert_eq!((learned.format.as_deref(), learned.host.as_deref()), expected, "{path}");
        }
    }
}
