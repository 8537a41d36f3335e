//! The parameters of varnishd, as `-p` and `param.set` set them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use larder_server::vsl;
use larder_vcl::features;
use larder_vcl::functions::numbers;
use larder_vcl::parameters::{self, Parameters};

use super::log_settings;

/// What was set, and what follows from it. What was not set has Varnish's default.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Settings {
    set: BTreeMap<String, String>,
    vcl: Parameters,
    /// `vcl_path`, unless it is the default.
    folders: Option<Vec<PathBuf>>,
    /// `vcc_feature=-err_unref`.
    pub allows_unused: bool,
    /// `feature=+http2`.
    pub speaks_http2: bool,
    own: Own,
    log: Log,
}

/// How the transaction log is kept.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Log(vsl::Settings);

impl Default for Log {
    fn default() -> Self {
        Log(log_settings::usual())
    }
}

/// Parameters that become directives of nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// `http_req_hdr_len`: the bytes of a line of a head.
    pub line_bytes_max: i64,
    /// `http_req_size`: the bytes of a head.
    pub head_bytes_max: i64,
    /// `http_max_hdr`: the lines of a head, of which the first counts for five.
    pub lines_max: i64,
    /// `listen_depth`: how many connections may wait to be accepted.
    pub backlog: i64,
    /// `idle_send_timeout`: seconds for which a client may take nothing.
    pub send_seconds: i64,
    /// `vcl_cooldown`: how long a VCL of no use is kept ready.
    pub cooldown: Duration,
}

impl Default for Own {
    fn default() -> Self {
        Own {
            line_bytes_max: 8 << 10,
            head_bytes_max: 32 << 10,
            lines_max: 64,
            backlog: 1024,
            send_seconds: 60,
            cooldown: Duration::from_secs(600),
        }
    }
}

impl Settings {
    /// Sets a parameter, as `-p NAME=VALUE`. An error says what is wrong with name or value, and nothing has changed.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        parameters::check_name(name)?;
        let mut changed = self.clone();
        changed.take(name, value)?;
        // What a list of flags does not name stays.
        let value = match self.set.get(name) {
            Some(before) if matches!(name, "feature" | "vsl_mask") => features::joined(before, value),
            _ => value.to_owned(),
        };
        changed.set.insert(name.to_owned(), value);
        *self = changed;
        Ok(())
    }

    /// Gives a parameter its default back.
    pub fn reset(&mut self, name: &str) -> Result<(), String> {
        parameters::check_name(name)?;
        let mut others = std::mem::take(&mut self.set);
        others.remove(name);
        *self = Settings::default();
        others.iter().try_for_each(|(name, value)| self.set(name, value))
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        let own = &mut self.own;
        match name {
            "vcl_path" => self.folders = Some(parameters::folders(value)),
            "vcc_feature" => {
                if let Some(is_error) = parameters::flag(value, "err_unref")? {
                    self.allows_unused = !is_error;
                }
            }
            // The same in Varnish 7.
            "vcc_err_unref" => self.allows_unused = !parameters::switch(value)?,
            "feature" => {
                self.vcl.set(name, value)?;
                self.speaks_http2 = http2_of(value).unwrap_or(self.speaks_http2);
            }
            "http_req_hdr_len" => own.line_bytes_max = within(bytes(value)?, 40, 1 << 20)?,
            "http_req_size" => own.head_bytes_max = within(bytes(value)?, 256, 16 << 20)?,
            "http_max_hdr" => own.lines_max = within(count(value)?, 32, 65535)?,
            "listen_depth" => own.backlog = within(count(value)?, 0, i64::from(i32::MAX))?,
            "vcl_cooldown" => {
                own.cooldown = Duration::from_secs(within(seconds(value)?, 1, SECONDS_MAX)?.unsigned_abs())
            }
            "idle_send_timeout" => own.send_seconds = within(seconds(value)?, 0, SECONDS_MAX)?,
            _ if log_settings::take(&mut self.log.0, name, value)? => {}
            _ => {
                self.vcl.set(name, value)?;
            }
        }
        Ok(())
    }

    /// What was set, in order of the names.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.set.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// What a parameter was set to.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.set.get(name).map(String::as_str)
    }

    /// What was set and changes nothing here.
    pub fn without_effect(&self) -> Vec<&str> {
        self.all().filter(|(name, value)| !has_effect(name, value)).map(|(name, _)| name).collect()
    }

    /// Whether something is served in another way than with `others`.
    pub fn differ_from(&self, others: &Settings) -> bool {
        let served = |settings: &Settings| -> Vec<(String, String)> {
            let all = settings.all().filter(|(name, value)| has_effect(name, value) && !name.starts_with("vsl_"));
            all.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        served(self) != served(others)
    }

    /// The parameters that mean something to a VCL.
    pub fn vcl(&self) -> &Parameters {
        &self.vcl
    }

    /// Those that become directives of nginx.
    pub fn own(&self) -> Own {
        self.own
    }

    /// How the transaction log is kept.
    pub fn log(&self) -> vsl::Settings {
        self.log.0
    }

    /// The folders in which VCLs are looked for.
    pub fn vcl_path(&self) -> Vec<PathBuf> {
        self.folders.clone().unwrap_or_else(|| parameters::folders(parameters::VCL_PATH))
    }
}

/// Whether a value of a parameter changes anything here.
pub fn has_effect(name: &str, value: &str) -> bool {
    OWN.contains(&name) || Parameters::default().set(name, value) == Ok(true)
}

/// The parameters that are read here.
const OWN: [&str; 13] = [
    "vcl_path",
    "vcc_feature",
    "vcc_err_unref",
    "feature",
    "http_req_hdr_len",
    "http_req_size",
    "http_max_hdr",
    "listen_depth",
    "idle_send_timeout",
    "vcl_cooldown",
    "vsl_mask",
    "vsl_reclen",
    "vsl_space",
];

const SECONDS_MAX: i64 = 365 * 86_400;

/// What a list such as `+http2,-trace` says about HTTP/2, if anything.
fn http2_of(list: &str) -> Option<bool> {
    list.split(',').map(str::trim).fold(None, |said, word| match word {
        "+http2" | "all" => Some(true),
        "-http2" | "none" | "default" => Some(false),
        _ => said,
    })
}

fn within(value: i64, least: i64, most: i64) -> Result<i64, String> {
    match (least..=most).contains(&value) {
        true => Ok(value),
        false => Err(format!("write a value between {least} and {most}")),
    }
}

fn bytes(value: &str) -> Result<i64, String> {
    numbers::bytes(value.as_bytes()).ok_or_else(|| format!("write a size such as 64k in place of \"{value}\""))
}

fn count(value: &str) -> Result<i64, String> {
    value.parse().map_err(|_| format!("write a number in place of \"{value}\""))
}

/// A time, to the second above it.
fn seconds(value: &str) -> Result<i64, String> {
    let plain = value.parse::<f64>().ok().filter(|seconds| seconds.is_finite());
    let found = plain.or_else(|| numbers::duration(value.as_bytes()));
    found
        .map(|seconds| seconds.ceil() as i64)
        .ok_or_else(|| format!("write a time such as 10 or 2m in place of \"{value}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_changes_what_it_names_or_nothing() {
        let mut settings = Settings::default();
        for (name, value, expected) in [
            ("default_ttl", "10", Ok(())),
            ("feature", "+http2", Ok(())),
            ("feature", "+esi_disable_xml_check", Ok(())),
            ("http_req_hdr_len", "4k", Ok(())),
            ("vcl_path", "/a:/b", Ok(())),
            ("thread_pools", "2", Ok(())),
            ("http_max_hdr", "7", Err("write a value between 32 and 65535")),
            ("http_req_size", "much", Err("write a size such as 64k in place of \"much\"")),
            ("idle_send_timeout", "soon", Err("write a time such as 10 or 2m in place of \"soon\"")),
            ("default_tll", "1", Err("varnishd has no parameter \"default_tll\"; did you mean \"default_ttl\"?")),
        ] {
            assert_eq!(settings.set(name, value), expected.map_err(str::to_owned), "{name}={value}");
        }
        assert_eq!((settings.vcl().default_ttl, settings.own().line_bytes_max), (10.0, 4096));
        assert!(settings.speaks_http2 && settings.vcl().features.esi_disable_xml_check);
        assert_eq!(settings.get("feature"), Some("+http2,+esi_disable_xml_check"));
        assert_eq!(settings.vcl_path(), ["/a", "/b"].map(PathBuf::from));
        assert_eq!(settings.without_effect(), ["thread_pools"]);
        let mut others = settings.clone();
        others.set("thread_pools", "3").unwrap();
        assert!(!others.differ_from(&settings));
        others.set("default_ttl", "11").unwrap();
        assert!(others.differ_from(&settings));
        assert_eq!((settings.get("default_ttl"), settings.get("http_max_hdr")), (Some("10"), None));
    }

    #[test]
    fn what_is_reset_has_its_default_and_the_rest_stays() {
        let mut settings = Settings::default();
        for (name, value) in [("default_ttl", "10"), ("http_max_hdr", "80"), ("default_grace", "3")] {
            settings.set(name, value).unwrap();
        }
        settings.reset("http_max_hdr").unwrap();
        assert_eq!((settings.own(), settings.vcl().default_ttl), (Own::default(), 10.0));
        assert_eq!(settings.all().map(|(name, _)| name).collect::<Vec<_>>(), ["default_grace", "default_ttl"]);
        assert!(settings.reset("nothing").is_err());
    }
}
