//! The parameters of varnishd as its documentation has them (varnishd(1)): what they are, their defaults and limits.

use crate::features;
use crate::functions::numbers;

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// The default, as it is shown; empty if it depends on the machine, or if the name is one of an older version.
    pub default: &'static str,
    /// The smallest value, as it is shown; empty for any.
    pub least: &'static str,
    /// The largest.
    pub most: &'static str,
    /// What is counted.
    pub unit: &'static str,
}

/// What the value of a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `on` or `off`.
    Switch,
    /// A number.
    Count,
    /// A number with a fraction.
    Real,
    /// A time.
    Seconds,
    /// A size.
    Bytes,
    /// Something else.
    Text,
}

impl Row {
    /// A value as it is shown; an error says what would be one.
    pub fn shown(&self, value: &str) -> Result<String, String> {
        if self.name == "feature" {
            return features::shown(value);
        }
        let wrong = |expected: &str| format!("write {expected} in place of \"{value}\"");
        Ok(match self.kind {
            Kind::Text => value.to_owned(),
            Kind::Switch => match super::switch(value) {
                Ok(is_on) => if is_on { "on" } else { "off" }.to_owned(),
                Err(error) => return Err(error),
            },
            Kind::Seconds => format!("{:.3}", self.number(value).ok_or_else(|| wrong("a time such as 10 or 2m"))?),
            Kind::Count => format!("{}", self.number(value).ok_or_else(|| wrong("a number"))?),
            Kind::Real => format!("{}", self.number(value).ok_or_else(|| wrong("a number such as 0.5"))?),
            Kind::Bytes => shown_bytes(self.number(value).ok_or_else(|| wrong("a size such as 64k"))?),
        })
    }

    /// Whether a value is one, and within the limits; an error says what would be.
    pub fn check(&self, value: &str) -> Result<(), String> {
        self.shown(value)?;
        let Some(number) = self.number(value) else { return Ok(()) };
        match (self.number(self.least), self.number(self.most)) {
            (Some(least), _) if number < least => Err(format!("Must be at least {}", self.least)),
            (_, Some(most)) if number > most => Err(format!("Must be no more than {}", self.most)),
            _ => Ok(()),
        }
    }

    /// A value as a number, if it is one of numbers: seconds, bytes, or what is counted.
    pub fn number(&self, value: &str) -> Option<f64> {
        let plain = || value.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        match self.kind {
            Kind::Switch | Kind::Text => None,
            Kind::Count => value.parse::<u32>().ok().map(f64::from),
            Kind::Real => plain(),
            Kind::Seconds => plain().or_else(|| numbers::duration(value.as_bytes())),
            Kind::Bytes => numbers::bytes(value.as_bytes()).map(|bytes| bytes as f64),
        }
    }
}

/// A size in the largest unit that leaves it whole, as varnishd shows it.
fn shown_bytes(bytes: f64) -> String {
    let units = [("g", 30), ("m", 20), ("k", 10)];
    let whole = units.into_iter().find(|(_, shift)| bytes > 0.0 && bytes % f64::from(1 << shift) == 0.0);
    match whole {
        Some((unit, shift)) => format!("{}{unit}", bytes / f64::from(1 << shift)),
        None => format!("{bytes}b"),
    }
}

/// Names that the newest Varnish does not have: those of older versions, and of Varnish Enterprise.
pub const FORMER: [&str; 8] = [
    "backend_queue_limit",
    "backend_queue_timeout",
    "cli_buffer",
    "pcre_match_limit",
    "pcre_match_limit_recursion",
    "vcc_allow_inline_c",
    "vcc_err_unref",
    "vcc_unsafe_path",
];

/// The parameter of a name.
pub fn row(name: &str) -> Option<&'static Row> {
    let at = TABLE.binary_search_by(|row| row.name.cmp(name)).ok()?;
    Some(&TABLE[at])
}

const fn is(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    least: &'static str,
    most: &'static str,
    unit: &'static str,
) -> Row {
    Row { name, kind, default, least, most, unit }
}

/// All parameters, by name.
pub const TABLE: [Row; 128] = [
    is("accept_filter", Kind::Switch, "on", "", "", "bool"),
    is("acceptor_sleep_decay", Kind::Real, "0.9", "0", "1", ""),
    is("acceptor_sleep_incr", Kind::Seconds, "0.000", "0.000", "1.000", "seconds"),
    is("acceptor_sleep_max", Kind::Seconds, "0.050", "0.000", "10.000", "seconds"),
    is("auto_restart", Kind::Switch, "on", "", "", "bool"),
    is("backend_idle_timeout", Kind::Seconds, "60.000", "1.000", "", "seconds"),
    is("backend_local_error_holddown", Kind::Seconds, "10.000", "0.000", "", "seconds"),
    is("backend_queue_limit", Kind::Text, "", "", "", ""),
    is("backend_queue_timeout", Kind::Text, "", "", "", ""),
    is("backend_remote_error_holddown", Kind::Seconds, "0.250", "0.000", "", "seconds"),
    is("backend_wait_limit", Kind::Count, "0", "0", "", ""),
    is("backend_wait_timeout", Kind::Seconds, "0.000", "0.000", "", "seconds"),
    is("ban_any_variant", Kind::Count, "0", "0", "", "checks"),
    is("ban_cutoff", Kind::Count, "0", "0", "", "bans"),
    is("ban_dups", Kind::Switch, "on", "", "", "bool"),
    is("ban_lurker_age", Kind::Seconds, "60.000", "0.000", "", "seconds"),
    is("ban_lurker_batch", Kind::Count, "1000", "1", "", ""),
    is("ban_lurker_holdoff", Kind::Seconds, "0.010", "0.000", "", "seconds"),
    is("ban_lurker_sleep", Kind::Seconds, "0.010", "0.000", "", "seconds"),
    is("between_bytes_timeout", Kind::Seconds, "60.000", "0.000", "", "seconds"),
    is("cc_command", Kind::Text, "", "", "", ""),
    is("cc_warnings", Kind::Text, "", "", "", ""),
    is("cli_buffer", Kind::Bytes, "4m", "4k", "", "bytes"),
    is("cli_limit", Kind::Bytes, "64k", "128b", "99999999b", "bytes"),
    is("cli_timeout", Kind::Seconds, "60.000", "0.000", "", "seconds"),
    is("clock_skew", Kind::Count, "10", "0", "", "seconds"),
    is("clock_step", Kind::Seconds, "1.000", "0.000", "", "seconds"),
    is("connect_timeout", Kind::Seconds, "3.500", "0.000", "", "seconds"),
    is("critbit_cooloff", Kind::Seconds, "180.000", "60.000", "254.000", "seconds"),
    is("debug", Kind::Text, "none", "", "", ""),
    is("default_grace", Kind::Seconds, "10.000", "0.000", "", "seconds"),
    is("default_keep", Kind::Seconds, "0.000", "0.000", "", "seconds"),
    is("default_ttl", Kind::Seconds, "120.000", "0.000", "", "seconds"),
    is("experimental", Kind::Text, "none", "", "", ""),
    is("feature", Kind::Text, "none,+validate_headers,+vcl_req_reset", "", "", ""),
    is("fetch_chunksize", Kind::Bytes, "16k", "4k", "", "bytes"),
    is("fetch_maxchunksize", Kind::Bytes, "0.25G", "64k", "", "bytes"),
    is("first_byte_timeout", Kind::Seconds, "60.000", "0.000", "", "seconds"),
    is("gzip_buffer", Kind::Bytes, "32k", "2k", "", "bytes"),
    is("gzip_level", Kind::Count, "6", "0", "9", ""),
    is("gzip_memlevel", Kind::Count, "8", "1", "9", ""),
    is("h2_header_table_size", Kind::Bytes, "4k", "0b", "", "bytes"),
    is("h2_initial_window_size", Kind::Bytes, "65535b", "65535b", "2147483647b", "bytes"),
    is("h2_max_concurrent_streams", Kind::Count, "100", "0", "", "streams"),
    is("h2_max_frame_size", Kind::Bytes, "16k", "16k", "16777215b", "bytes"),
    is("h2_max_header_list_size", Kind::Bytes, "0b", "0b", "2147483647b", "bytes"),
    is("h2_rapid_reset", Kind::Seconds, "1.000", "0.000", "", "seconds"),
    is("h2_rapid_reset_limit", Kind::Count, "100", "0", "", ""),
    is("h2_rapid_reset_period", Kind::Seconds, "60.000", "1.000", "", "seconds"),
    is("h2_rx_window_increment", Kind::Bytes, "1M", "1M", "1G", "bytes"),
    is("h2_rx_window_low_water", Kind::Bytes, "10M", "65535", "1G", "bytes"),
    is("h2_rxbuf_storage", Kind::Text, "Transient", "", "", ""),
    is("h2_window_timeout", Kind::Seconds, "5.000", "0.000", "", "seconds"),
    is("http1_iovs", Kind::Count, "", "5", "1024", "struct iovec (=16 bytes)"),
    is("http_gzip_support", Kind::Switch, "on", "", "", "bool"),
    is("http_max_hdr", Kind::Count, "64", "32", "65535", "header lines"),
    is("http_range_support", Kind::Switch, "on", "", "", "bool"),
    is("http_req_hdr_len", Kind::Bytes, "8k", "40b", "", "bytes"),
    is("http_req_overflow_status", Kind::Count, "0", "", "", "HTTP status code or 0 to disable"),
    is("http_req_size", Kind::Bytes, "32k", "0.25k", "", "bytes"),
    is("http_resp_hdr_len", Kind::Bytes, "8k", "40b", "", "bytes"),
    is("http_resp_size", Kind::Bytes, "32k", "0.25k", "", "bytes"),
    is("idle_send_timeout", Kind::Seconds, "60.000", "0.000", "3600.000", "seconds"),
    is("listen_depth", Kind::Count, "1024", "0", "", "connections"),
    is("lru_interval", Kind::Seconds, "2.000", "0.000", "", "seconds"),
    is("max_esi_depth", Kind::Count, "5", "0", "", "levels"),
    is("max_restarts", Kind::Count, "4", "0", "", "restarts"),
    is("max_retries", Kind::Count, "4", "0", "", "retries"),
    is("max_vcl", Kind::Count, "100", "0", "", ""),
    is("max_vcl_handling", Kind::Count, "1", "0", "2", ""),
    is("nuke_limit", Kind::Count, "50", "0", "", "allocations"),
    is("panic_buffer", Kind::Bytes, "64k", "4k", "10m", "bytes"),
    is("pcre2_depth_limit", Kind::Count, "20", "1", "", ""),
    is("pcre2_jit_compilation", Kind::Switch, "on", "", "", "bool"),
    is("pcre2_match_limit", Kind::Count, "10000", "1", "", ""),
    is("pcre_match_limit", Kind::Text, "", "", "", ""),
    is("pcre_match_limit_recursion", Kind::Text, "", "", "", ""),
    is("ping_interval", Kind::Count, "3", "0", "", "seconds"),
    is("pipe_sess_max", Kind::Count, "0", "0", "", "connections"),
    is("pipe_task_deadline", Kind::Seconds, "0.000", "0.000", "", "seconds"),
    is("pipe_timeout", Kind::Seconds, "60.000", "0.000", "", "seconds"),
    is("pool_req", Kind::Text, "10,100,10", "", "", ""),
    is("pool_sess", Kind::Text, "10,100,10", "", "", ""),
    is("pool_vbo", Kind::Text, "10,100,10", "", "", ""),
    is("prefer_ipv6", Kind::Switch, "off", "", "", "bool"),
    is("rush_exponent", Kind::Count, "3", "1", "", "requests per request"),
    is("send_timeout", Kind::Seconds, "600.000", "0.000", "", "seconds"),
    is("shortlived", Kind::Seconds, "10.000", "0.000", "", "seconds"),
    is("sigsegv_handler", Kind::Switch, "on", "", "", "bool"),
    is("startup_timeout", Kind::Seconds, "0.000", "0.000", "", "seconds"),
    is("syslog_cli_traffic", Kind::Switch, "on", "", "", "bool"),
    is("tcp_fastopen", Kind::Switch, "off", "", "", "bool"),
    is("tcp_keepalive_intvl", Kind::Seconds, "", "1.000", "100.000", "seconds"),
    is("tcp_keepalive_probes", Kind::Count, "", "1", "100", "probes"),
    is("tcp_keepalive_time", Kind::Seconds, "", "1.000", "7200.000", "seconds"),
    is("thread_pool_add_delay", Kind::Seconds, "0.000", "0.000", "", "seconds"),
    is("thread_pool_destroy_delay", Kind::Seconds, "1.000", "0.010", "", "seconds"),
    is("thread_pool_fail_delay", Kind::Seconds, "0.200", "0.010", "", "seconds"),
    is("thread_pool_max", Kind::Count, "5000", "", "", "threads"),
    is("thread_pool_min", Kind::Count, "100", "5", "", "threads"),
    is("thread_pool_reserve", Kind::Count, "0", "", "", "threads"),
    is("thread_pool_stack", Kind::Bytes, "", "", "", "bytes"),
    is("thread_pool_timeout", Kind::Seconds, "300.000", "10.000", "", "seconds"),
    is("thread_pool_watchdog", Kind::Seconds, "60.000", "0.100", "", "seconds"),
    is("thread_pools", Kind::Count, "2", "1", "", "pools"),
    is("thread_queue_limit", Kind::Count, "20", "0", "", "requests"),
    is("thread_stats_rate", Kind::Count, "10", "0", "", "requests"),
    is("timeout_idle", Kind::Seconds, "5.000", "0.000", "3600.000", "seconds"),
    is("timeout_linger", Kind::Seconds, "0.050", "0.000", "", "seconds"),
    is("transit_buffer", Kind::Bytes, "0k", "0k", "", "bytes"),
    is("uncacheable_ttl", Kind::Seconds, "120.000", "0.000", "", "seconds"),
    is("vary_notice", Kind::Count, "10", "1", "", "variants"),
    is("vcc_allow_inline_c", Kind::Text, "", "", "", ""),
    is("vcc_err_unref", Kind::Text, "", "", "", ""),
    is("vcc_feature", Kind::Text, "none,+err_unref,+unsafe_path", "", "", ""),
    is("vcc_unsafe_path", Kind::Text, "", "", "", ""),
    is("vcl_cooldown", Kind::Seconds, "600.000", "1.000", "", "seconds"),
    is("vcl_path", Kind::Text, "", "", "", ""),
    is("vmod_path", Kind::Text, "", "", "", ""),
    is("vsl_buffer", Kind::Bytes, "16k", "267", "", "bytes"),
    is(
        "vsl_mask",
        Kind::Text,
        "all,-Debug,-ExpKill,-H2RxBody,-H2RxHdr,-H2TxBody,-H2TxHdr,-Hash,-ObjHeader,-ObjProtocol,-ObjReason,-ObjStatus,-VdpAcct,-VfpAcct,-WorkThread",
        "",
        "",
        "",
    ),
    is("vsl_reclen", Kind::Bytes, "", "16b", "65535b", "bytes"),
    is("vsl_space", Kind::Bytes, "80M", "1M", "4G", "bytes"),
    is("vsm_free_cooldown", Kind::Seconds, "60.000", "10.000", "600.000", "seconds"),
    is("workspace_backend", Kind::Bytes, "96k", "1k", "", "bytes"),
    is("workspace_client", Kind::Bytes, "96k", "9k", "", "bytes"),
    is("workspace_session", Kind::Bytes, "0.75k", "384b", "", "bytes"),
    is("workspace_thread", Kind::Bytes, "2k", "0.25k", "8k", "bytes"),
];

#[cfg(test)]
mod tests {
    use super::super::Parameters;
    use super::*;

    #[test]
    fn names_are_in_order_and_each_there_once() {
        assert!(TABLE.is_sorted_by(|one, next| one.name < next.name));
        assert!(FORMER.iter().all(|name| row(name).is_some()));
    }

    #[test]
    fn the_defaults_of_the_table_are_those_that_hold() {
        let mut set = Parameters::default();
        for row in &TABLE {
            for shown in [row.default, row.least, row.most].into_iter().filter(|shown| !shown.is_empty()) {
                assert!(row.shown(shown).is_ok(), "{} {shown}", row.name);
            }
            if !row.default.is_empty() {
                assert_eq!(row.check(row.default), Ok(()), "{}", row.name);
                set.set(row.name, row.default).unwrap_or_else(|error| panic!("{}: {error}", row.name));
            }
        }
        assert_eq!(set, Parameters::default());
    }

    #[test]
    fn values_are_shown_as_varnishd_shows_them_and_kept_within_limits() {
        for (name, value, shown) in [
            ("default_ttl", "2m", Ok("120.000")),
            ("thread_pools", "0", Err("Must be at least 1")),
            ("thread_pools", "many", Err("write a number in place of \"many\"")),
            ("http_resp_size", "32768", Ok("32k")),
            ("http_resp_size", "300", Ok("300b")),
            ("gzip_level", "10", Err("Must be no more than 9")),
            ("ban_dups", "yes", Ok("on")),
            ("acceptor_sleep_decay", "0.5", Ok("0.5")),
        ] {
            let row = row(name).expect("it is a parameter");
            let found = row.check(value).and_then(|()| row.shown(value));
            assert_eq!(found, shown.map(str::to_owned).map_err(str::to_owned), "{name} {value}");
        }
    }
}
