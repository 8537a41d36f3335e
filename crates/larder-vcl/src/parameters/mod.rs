//! varnishd's parameters: their names, and those that mean something here.

pub mod table;

use std::path::PathBuf;

use crate::features::Features;
use crate::functions::numbers;
use larder_source::nearest;
use table::TABLE;

/// What the parameters are set to, as far as they mean something here. Times are in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// How many requests may wait for a backend that has all its connections.
    pub backend_wait_limit: u32,
    /// How long each may.
    pub backend_wait_timeout: f64,
    /// How old a ban is before pages are tested by it that nobody asks for.
    pub ban_lurker_age: f64,
    /// How far an origin's clock may be off.
    pub clock_skew: f64,
    /// How long connecting to a backend may take.
    pub connect_timeout: f64,
    /// How long a page is delivered stale, where the answer does not say.
    pub default_grace: f64,
    /// How long a page stays to be revalidated.
    pub default_keep: f64,
    /// How long a page is fresh, where the answer does not say.
    pub default_ttl: f64,
    /// How long a backend may take to begin its answer.
    pub first_byte_timeout: f64,
    /// How long a backend may pause in its answer.
    pub between_bytes_timeout: f64,
    /// How many lines the head of a message may have, with five for its first one.
    pub http_max_hdr: u32,
    /// How many bytes the head of an answer may have.
    pub http_resp_size: usize,
    /// How many bytes a line of it may have.
    pub http_resp_hdr_len: usize,
    /// Whether pages are asked for in gzip, and unpacked for clients without it.
    pub http_gzip_support: bool,
    /// Whether ranges are answered.
    pub http_range_support: bool,
    /// What `feature` turns on.
    pub features: Features,
    /// How deep ESI includes may lie in each other.
    pub max_esi_depth: u32,
    /// How often a request may be restarted.
    pub max_restarts: u32,
    /// How often a fetch may be tried again.
    pub max_retries: u32,
    /// How many steps the match of an expression may take.
    pub pcre2_match_limit: u32,
    /// How many pipes there may be at once; 0 for any number.
    pub pipe_sess_max: u32,
    /// How long a connection of a client may be idle.
    pub timeout_idle: f64,
    /// How long it is remembered that a page is not to be shared.
    pub uncacheable_ttl: f64,
    /// How many bytes of text a request of a client may make.
    pub workspace_client: i64,
    /// How many bytes of text a request to a backend may make.
    pub workspace_backend: i64,
}

impl Default for Parameters {
    /// Varnish's defaults.
    fn default() -> Self {
        Self {
            backend_wait_limit: 0,
            backend_wait_timeout: 0.0,
            ban_lurker_age: 60.0,
            clock_skew: 10.0,
            connect_timeout: 3.5,
            default_grace: 10.0,
            default_keep: 0.0,
            default_ttl: 120.0,
            first_byte_timeout: 60.0,
            between_bytes_timeout: 60.0,
            http_max_hdr: 64,
            http_resp_size: 32 * 1024,
            http_resp_hdr_len: 8 * 1024,
            http_gzip_support: true,
            http_range_support: true,
            features: Features::default(),
            max_esi_depth: 5,
            max_restarts: 4,
            max_retries: 4,
            pcre2_match_limit: MATCH_LIMIT,
            pipe_sess_max: 0,
            timeout_idle: 5.0,
            uncacheable_ttl: 120.0,
            workspace_client: 96 * 1024,
            workspace_backend: 96 * 1024,
        }
    }
}

impl Parameters {
    /// Sets a parameter to a value that is written as for varnishd. True if that means something here. An error says
    /// what is wrong with the name or the value.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        check_name(name)?;
        match name {
            "backend_wait_limit" => self.backend_wait_limit = count(value)?,
            "backend_wait_timeout" => self.backend_wait_timeout = seconds(value)?,
            "ban_lurker_age" => self.ban_lurker_age = seconds(value)?,
            "clock_skew" => self.clock_skew = seconds(value)?,
            "connect_timeout" => self.connect_timeout = seconds(value)?,
            "default_grace" => self.default_grace = seconds(value)?,
            "default_keep" => self.default_keep = seconds(value)?,
            "default_ttl" => self.default_ttl = seconds(value)?,
            "first_byte_timeout" => self.first_byte_timeout = seconds(value)?,
            "between_bytes_timeout" => self.between_bytes_timeout = seconds(value)?,
            "http_max_hdr" => self.http_max_hdr = count(value)?,
            "http_resp_size" => self.http_resp_size = bytes_from(256, value)?,
            "http_resp_hdr_len" => self.http_resp_hdr_len = bytes_from(40, value)?,
            "http_gzip_support" => self.http_gzip_support = switch(value)?,
            "http_range_support" => self.http_range_support = switch(value)?,
            "feature" => self.features.set(value)?,
            "max_esi_depth" => self.max_esi_depth = count(value)?,
            "max_restarts" => self.max_restarts = count(value)?,
            "max_retries" => self.max_retries = count(value)?,
            // As it was called before Varnish 7.
            "pcre2_match_limit" | "pcre_match_limit" => self.pcre2_match_limit = count(value)?.max(1),
            "pipe_sess_max" => self.pipe_sess_max = count(value)?,
            "timeout_idle" => self.timeout_idle = seconds(value)?,
            "uncacheable_ttl" => self.uncacheable_ttl = seconds(value)?,
            "workspace_client" => self.workspace_client = bytes(value)?,
            "workspace_backend" => self.workspace_backend = bytes(value)?,
            _ => {
                table::row(name).map_or(Ok(()), |row| row.check(value))?;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Parameters {
    /// How many fields the head of a message may have.
    pub fn fields_max(&self) -> usize {
        (self.http_max_hdr as usize).saturating_sub(5)
    }
}

/// Whether varnishd has a parameter of this name; the error says that it has not.
pub fn check_name(name: &str) -> Result<(), String> {
    if table::row(name).is_some() {
        return Ok(());
    }
    let hint = nearest(name, TABLE.iter().map(|row| row.name))
        .map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
    Err(format!("varnishd has no parameter \"{name}\"{hint}"))
}

/// A time: seconds, or with a unit of VCL.
fn seconds(value: &str) -> Result<f64, String> {
    let plain = value.parse::<f64>().ok().filter(|seconds| seconds.is_finite());
    let found = plain.or_else(|| numbers::duration(value.as_bytes()));
    found
        .filter(|seconds| *seconds >= 0.0)
        .ok_or_else(|| format!("write a time such as 10 or 2m in place of \"{value}\""))
}

fn count(value: &str) -> Result<u32, String> {
    value.parse().map_err(|_| format!("write a number in place of \"{value}\""))
}

fn bytes(value: &str) -> Result<i64, String> {
    numbers::bytes(value.as_bytes()).ok_or_else(|| format!("write a size such as 64k in place of \"{value}\""))
}

/// Bytes, of which there must be some.
fn bytes_from(least: usize, value: &str) -> Result<usize, String> {
    let found = usize::try_from(bytes(value)?).ok().filter(|found| *found >= least);
    found.ok_or_else(|| format!("write {least} bytes or more"))
}

/// How many steps the match of an expression may take, unless `pcre2_match_limit` is set.
pub const MATCH_LIMIT: u32 = 10_000;

/// What `vcl_path` is unless it is set, as in Debian's packages.
pub const VCL_PATH: &str = "/etc/varnish:/usr/share/varnish/vcl";

/// The folders of a path.
pub fn folders(path: &str) -> Vec<PathBuf> {
    path.split(':').filter(|folder| !folder.is_empty()).map(PathBuf::from).collect()
}

/// The flags of `vcc_feature`.
const VCC_FEATURES: [&str; 3] = ["allow_inline_c", "err_unref", "unsafe_path"];

/// What a list such as `-err_unref,+unsafe_path` says about one of the flags, if it says anything. An error names what is no
/// such list.
pub fn flag(list: &str, wanted: &str) -> Result<Option<bool>, String> {
    let mut is_set = None;
    for word in list.split(',').map(str::trim) {
        let (sign, name) = match (word, word.split_at_checked(1)) {
            ("default", _) => {
                is_set = None;
                continue;
            }
            ("none", _) => {
                is_set = Some(false);
                continue;
            }
            ("all", _) => {
                is_set = Some(true);
                continue;
            }
            (_, Some((sign @ ("+" | "-"), name))) => (sign, name),
            _ => return Err(format!("write +NAME or -NAME in place of \"{word}\"")),
        };
        if !VCC_FEATURES.contains(&name) {
            return Err(format!("\"{name}\" is none of {}", VCC_FEATURES.join(", ")));
        }
        if name == wanted {
            is_set = Some(sign == "+");
        }
    }
    Ok(is_set)
}

/// What `on`, `off` and the like say.
pub fn switch(word: &str) -> Result<bool, String> {
    match word {
        "on" | "yes" | "true" | "enable" => Ok(true),
        "off" | "no" | "false" | "disable" => Ok(false),
        _ => Err(format!("write on or off in place of \"{word}\"")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_about_a_flag_counts() {
        for (list, expected) in [
            ("-err_unref", Ok(Some(false))),
            ("+unsafe_path", Ok(None)),
            ("none, +err_unref", Ok(Some(true))),
            ("-err_unref,all", Ok(Some(true))),
            ("-err_unref,default", Ok(None)),
            ("err_unref", Err("write +NAME or -NAME in place of \"err_unref\"".to_owned())),
            ("", Err("write +NAME or -NAME in place of \"\"".to_owned())),
            ("+x", Err("\"x\" is none of allow_inline_c, err_unref, unsafe_path".to_owned())),
        ] {
            assert_eq!(flag(list, "err_unref"), expected, "{list}");
        }
    }

    #[test]
    fn parameters_are_set_as_for_varnishd() {
        let mut parameters = Parameters::default();
        for (name, value, expected) in [
            ("default_ttl", "10", Ok(true)),
            ("default_grace", "2m", Ok(true)),
            ("max_retries", "0", Ok(true)),
            ("http_gzip_support", "off", Ok(true)),
            ("workspace_client", "9k", Ok(true)),
            ("feature", "+esi_remove_bom", Ok(true)),
            ("max_esi_depth", "2", Ok(true)),
            ("thread_pools", "2", Ok(false)),
            ("default_tll", "10", Err("varnishd has no parameter \"default_tll\"; did you mean \"default_ttl\"?")),
            ("default_ttl", "-1", Err("write a time such as 10 or 2m in place of \"-1\"")),
            ("default_ttl", "NaN", Err("write a time such as 10 or 2m in place of \"NaN\"")),
            ("max_restarts", "x", Err("write a number in place of \"x\"")),
            ("workspace_backend", "much", Err("write a size such as 64k in place of \"much\"")),
        ] {
            assert_eq!(parameters.set(name, value), expected.map_err(str::to_owned), "{name}={value}");
        }
        let expected = Parameters {
            default_ttl: 10.0,
            default_grace: 120.0,
            max_retries: 0,
            max_esi_depth: 2,
            features: Features { esi_remove_bom: true, ..Features::default() },
            http_gzip_support: false,
            workspace_client: 9 * 1024,
            ..Parameters::default()
        };
        assert_eq!(parameters, expected);
    }
}
