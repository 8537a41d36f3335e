//! varnishd's parameters, as far as checking a VCL needs them.

use std::path::PathBuf;

/// All parameters that `-p` may set.
pub const NAMES: [&str; 127] = [
    "accept_filter",
    "acceptor_sleep_decay",
    "acceptor_sleep_incr",
    "acceptor_sleep_max",
    "auto_restart",
    "backend_idle_timeout",
    "backend_local_error_holddown",
    "backend_queue_limit",
    "backend_queue_timeout",
    "backend_remote_error_holddown",
    "backend_wait_limit",
    "backend_wait_timeout",
    "ban_any_variant",
    "ban_cutoff",
    "ban_dups",
    "ban_lurker_age",
    "ban_lurker_batch",
    "ban_lurker_holdoff",
    "ban_lurker_sleep",
    "between_bytes_timeout",
    "cc_command",
    "cc_warnings",
    "cli_limit",
    "cli_timeout",
    "clock_skew",
    "clock_step",
    "connect_timeout",
    "critbit_cooloff",
    "debug",
    "default_grace",
    "default_keep",
    "default_ttl",
    "experimental",
    "feature",
    "fetch_chunksize",
    "fetch_maxchunksize",
    "first_byte_timeout",
    "gzip_buffer",
    "gzip_level",
    "gzip_memlevel",
    "h2_header_table_size",
    "h2_initial_window_size",
    "h2_max_concurrent_streams",
    "h2_max_frame_size",
    "h2_max_header_list_size",
    "h2_rapid_reset",
    "h2_rapid_reset_limit",
    "h2_rapid_reset_period",
    "h2_rx_window_increment",
    "h2_rx_window_low_water",
    "h2_rxbuf_storage",
    "h2_window_timeout",
    "http1_iovs",
    "http_gzip_support",
    "http_max_hdr",
    "http_range_support",
    "http_req_hdr_len",
    "http_req_overflow_status",
    "http_req_size",
    "http_resp_hdr_len",
    "http_resp_size",
    "idle_send_timeout",
    "listen_depth",
    "lru_interval",
    "max_esi_depth",
    "max_restarts",
    "max_retries",
    "max_vcl",
    "max_vcl_handling",
    "nuke_limit",
    "panic_buffer",
    "pcre2_depth_limit",
    "pcre2_jit_compilation",
    "pcre2_match_limit",
    "pcre_match_limit",
    "pcre_match_limit_recursion",
    "ping_interval",
    "pipe_sess_max",
    "pipe_task_deadline",
    "pipe_timeout",
    "pool_req",
    "pool_sess",
    "pool_vbo",
    "prefer_ipv6",
    "rush_exponent",
    "send_timeout",
    "shortlived",
    "sigsegv_handler",
    "startup_timeout",
    "syslog_cli_traffic",
    "tcp_fastopen",
    "tcp_keepalive_intvl",
    "tcp_keepalive_probes",
    "tcp_keepalive_time",
    "thread_pool_add_delay",
    "thread_pool_destroy_delay",
    "thread_pool_fail_delay",
    "thread_pool_max",
    "thread_pool_min",
    "thread_pool_reserve",
    "thread_pool_stack",
    "thread_pool_timeout",
    "thread_pool_watchdog",
    "thread_pools",
    "thread_queue_limit",
    "thread_stats_rate",
    "timeout_idle",
    "timeout_linger",
    "transit_buffer",
    "uncacheable_ttl",
    "vary_notice",
    "vcc_allow_inline_c",
    "vcc_err_unref",
    "vcc_feature",
    "vcc_unsafe_path",
    "vcl_cooldown",
    "vcl_path",
    "vmod_path",
    "vsl_buffer",
    "vsl_mask",
    "vsl_reclen",
    "vsl_space",
    "vsm_free_cooldown",
    "workspace_backend",
    "workspace_client",
    "workspace_session",
    "workspace_thread",
];

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
    fn names_are_in_order_and_each_there_once() {
        assert!(NAMES.is_sorted_by(|one, next| one < next));
    }
}
