//! What each parameter of varnishd means here, as `param.show` tells it.

/// The text of a parameter. Empty for a name that is none.
pub fn text(name: &str) -> &'static str {
    TEXTS.binary_search_by(|(known, _)| (*known).cmp(name)).map_or("", |at| TEXTS[at].1)
}

/// All of them, by name. Of what changes nothing here, it says what it is for in Varnish.
const TEXTS: [(&str, &str); 128] = [
    ("accept_filter", "Have the kernel wait for the first bytes of a connection before it is accepted."),
    ("acceptor_sleep_decay", "By what the pause before the next accept is multiplied after each success."),
    ("acceptor_sleep_incr", "How much longer the pause before the next accept becomes with each failure."),
    ("acceptor_sleep_max", "The longest pause before the next accept."),
    (
        "auto_restart",
        "Start the process that serves again when it has died. larder is one process: the unit file does that.",
    ),
    ("backend_idle_timeout", "How long an unused connection to a backend is kept. Here it is 60 seconds."),
    (
        "backend_local_error_holddown",
        "For how long a backend is left alone after no connection to it could be made for want of something local.",
    ),
    ("backend_queue_limit", "The name of backend_wait_limit in Varnish Enterprise."),
    ("backend_queue_timeout", "The name of backend_wait_timeout in Varnish Enterprise."),
    ("backend_remote_error_holddown", "For how long a backend is left alone after it has refused a connection."),
    (
        "backend_wait_limit",
        "How many requests may wait for a connection to a backend that has max_connections of them. A backend may say it itself: .wait_limit.",
    ),
    (
        "backend_wait_timeout",
        "How long a request waits for a connection to a backend that has max_connections of them. A backend may say it itself: .wait_timeout.",
    ),
    ("ban_any_variant", "How many bans a lookup tests on pages that it has not matched by Vary yet."),
    ("ban_cutoff", "How many bans the lurker works through before it drops all older pages."),
    ("ban_dups", "Take older bans of the same words as done. larder always does."),
    (
        "ban_lurker_age",
        "How old a ban that looks at obj. alone is when it begins to be worked through in the background.",
    ),
    ("ban_lurker_batch", "How many pages the lurker tests before it pauses."),
    ("ban_lurker_holdoff", "How long the lurker pauses when it would hold up a lookup."),
    (
        "ban_lurker_sleep",
        "How long the lurker pauses after each batch. Here it takes a tenth of the time of one thread.",
    ),
    (
        "between_bytes_timeout",
        "How long a backend may pause while it sends an answer. A backend and bereq.between_bytes_timeout may say it for themselves.",
    ),
    ("cc_command", "How a VCL is compiled with a C compiler. larder needs none."),
    ("cc_warnings", "The warnings of the C compiler. larder needs none."),
    ("cli_buffer", "How long a command of the CLI may be. Here a line may have 4 MB, and a text after << 16 MB."),
    (
        "cli_limit",
        "How long an answer of the CLI may be. Here it is 1 MB; what is longer is cut, and has the status 201.",
    ),
    ("cli_timeout", "How long the process that serves may take for a command. larder is one process."),
    (
        "clock_skew",
        "By how many seconds the clock of a backend may differ from this one. Beyond that, Expires counts from the Date of the answer.",
    ),
    ("clock_step", "How far the clock may jump between two looks at it before that is an error."),
    (
        "connect_timeout",
        "How long a connection to a backend may take. A backend and bereq.connect_timeout may say it for themselves.",
    ),
    ("critbit_cooloff", "How long keys that have left the index are kept."),
    ("debug", "Flags for those who work on Varnish."),
    (
        "default_grace",
        "For how long past its ttl a page may be delivered while it is fetched again, unless the VCL or stale-while-revalidate says it: beresp.grace.",
    ),
    (
        "default_keep",
        "For how long past ttl and grace a page is kept, to ask whether it has changed, unless the VCL says it: beresp.keep.",
    ),
    (
        "default_ttl",
        "The time of a page about which neither its backend nor the VCL says how long it is fresh: beresp.ttl.",
    ),
    ("experimental", "Flags of what is not finished in Varnish."),
    (
        "feature",
        "Flags, each with + or -; those that are not named stay as they are. Of them http2 and those that begin with esi_ mean something here.",
    ),
    ("fetch_chunksize", "The least that is allotted at once for a body that comes."),
    ("fetch_maxchunksize", "The most that is allotted at once for a body that comes."),
    (
        "first_byte_timeout",
        "How long a backend may take until its answer begins. A backend and bereq.first_byte_timeout may say it for themselves.",
    ),
    ("gzip_buffer", "How large the buffer for packing and unpacking is."),
    ("gzip_level", "How well pages are packed that come without gzip. larder has a level of its own."),
    ("gzip_memlevel", "How much memory packing takes."),
    ("h2_header_table_size", "How large the table of HPACK is that clients may use."),
    ("h2_initial_window_size", "How much a client may send on a stream before it hears more."),
    (
        "h2_max_concurrent_streams",
        "How many requests a client may have open on a connection of HTTP/2. larder's own limit is 128.",
    ),
    ("h2_max_frame_size", "The largest frame that a client may send."),
    ("h2_max_header_list_size", "The largest head that a client may send, by HTTP/2. Here http_req_size holds for it."),
    ("h2_rapid_reset", "How soon after its request a reset counts as an attack. larder has limits of its own."),
    ("h2_rapid_reset_limit", "How many such resets end a connection. larder has limits of its own."),
    ("h2_rapid_reset_period", "Over what time they are counted. larder has limits of its own."),
    ("h2_rx_window_increment", "By how much a client is told to send more."),
    ("h2_rx_window_low_water", "When a client is told to send more."),
    ("h2_rxbuf_storage", "The storage for bodies that come by HTTP/2."),
    ("h2_window_timeout", "How long a client may take nothing. Here idle_send_timeout holds for it."),
    ("http1_iovs", "How many pieces are written at once."),
    (
        "http_gzip_support",
        "Ask backends for gzip, keep pages packed, and unpack them for clients that do not take it. Without it, Accept-Encoding is a header like others.",
    ),
    ("http_max_hdr", "How many lines the head of a message may have. The first line counts for five."),
    ("http_range_support", "Send a part of a page where a client asks for it by Range."),
    ("http_req_hdr_len", "How long a line of the head of a request may be."),
    (
        "http_req_overflow_status",
        "The status for a request whose head is too long. Here it is 400, or 414 for the first line.",
    ),
    ("http_req_size", "How long the head of a request may be."),
    ("http_resp_hdr_len", "How long a line of the head of an answer may be."),
    ("http_resp_size", "How long the head of an answer may be."),
    ("idle_send_timeout", "How long a client may take nothing of what is sent to it."),
    ("listen_depth", "How many connections may wait to be accepted."),
    ("lru_interval", "How long after a use of a page the next one is noted."),
    ("max_esi_depth", "How many includes of ESI may be inside each other."),
    ("max_restarts", "How often a VCL may begin a request anew."),
    ("max_retries", "How often a VCL may ask a backend again."),
    ("max_vcl", "From how many VCLs on there is a warning, or no more."),
    ("max_vcl_handling", "Whether max_vcl warns or refuses."),
    ("nuke_limit", "How many pages may leave to make room for one."),
    ("panic_buffer", "How much is kept of what a process says when it dies."),
    (
        "pcre2_depth_limit",
        "How deep a regular expression may nest while it is matched. For compiled expressions it means nothing in Varnish either.",
    ),
    ("pcre2_jit_compilation", "Compile regular expressions. larder always does."),
    ("pcre2_match_limit", "How many steps the match of a regular expression may take before the request fails."),
    ("pcre_match_limit", "The name of pcre2_match_limit before Varnish 7."),
    ("pcre_match_limit_recursion", "The name of pcre2_depth_limit before Varnish 7."),
    ("ping_interval", "How often the process that serves is asked whether it is there. larder is one process."),
    ("pipe_sess_max", "How many requests may be piped at once; 0 for any number."),
    ("pipe_task_deadline", "How long a pipe may last in all."),
    ("pipe_timeout", "How long a pipe may be silent. A pipe of larder is a pass."),
    ("pool_req", "How many structures for requests are kept."),
    ("pool_sess", "How many structures for connections are kept."),
    ("pool_vbo", "How many structures for fetches are kept."),
    ("prefer_ipv6", "Of two addresses of a backend, take that of IPv6 first."),
    ("rush_exponent", "How many requests that have waited for a page begin with each that is done."),
    ("send_timeout", "How long a response may take in all. Here idle_send_timeout holds alone."),
    (
        "shortlived",
        "Which pages are kept in the storage Transient: those with less time than this. There is one cache.",
    ),
    ("sigsegv_handler", "Tell about a segmentation fault before the process dies."),
    ("startup_timeout", "How long the process that serves may take to begin. larder is one process."),
    ("syslog_cli_traffic", "Write commands of the CLI to syslog."),
    ("tcp_fastopen", "Take a request with the first packet of a connection."),
    ("tcp_keepalive_intvl", "How long the kernel waits between two probes of a silent connection."),
    ("tcp_keepalive_probes", "After how many probes a silent connection is gone."),
    ("tcp_keepalive_time", "After how long a silent connection is probed."),
    ("thread_pool_add_delay", "How long to wait before another thread begins. larder has one worker for each core."),
    ("thread_pool_destroy_delay", "How long to wait before another thread ends. larder has one worker for each core."),
    ("thread_pool_fail_delay", "How long to wait after no thread could begin. larder has one worker for each core."),
    (
        "thread_pool_max",
        "The most threads of a pool. larder has one worker for each core, which answers any number of requests.",
    ),
    (
        "thread_pool_min",
        "The least threads of a pool. larder has one worker for each core, which answers any number of requests.",
    ),
    ("thread_pool_reserve", "How many threads are kept for what is vital. larder has one worker for each core."),
    ("thread_pool_stack", "How large the stack of a thread is. A request of larder has none of its own."),
    ("thread_pool_timeout", "After how long an idle thread ends. larder has one worker for each core."),
    ("thread_pool_watchdog", "After how long a queue that does not move ends the process."),
    ("thread_pools", "How many pools of threads there are. larder has one worker for each core."),
    (
        "thread_queue_limit",
        "How many requests may wait for a thread. larder has one worker for each core, which answers any number of requests.",
    ),
    ("thread_stats_rate", "After how many requests a thread adds up what it has counted."),
    ("timeout_idle", "How long a client may be silent between two requests, and while it sends one."),
    ("timeout_linger", "How long a thread waits for the next request before it does something else."),
    ("transit_buffer", "How much of a body that is passed may be ahead of its client."),
    ("uncacheable_ttl", "For how long it is remembered that a page is not kept, where the builtin VCL says so."),
    ("vary_notice", "From how many variants of a page on that is logged."),
    ("vcc_allow_inline_c", "The flag allow_inline_c of vcc_feature, before Varnish 7. C in a VCL is an error here."),
    ("vcc_err_unref", "The flag err_unref of vcc_feature, before Varnish 7."),
    (
        "vcc_feature",
        "Flags of the compiler, each with + or -: without err_unref, what a VCL does not use is no error. The others mean nothing here.",
    ),
    ("vcc_unsafe_path", "The flag unsafe_path of vcc_feature, before Varnish 7."),
    ("vcl_cooldown", "For how long a VCL that is of no use is kept ready: its probes run until then."),
    ("vcl_path", "The folders in which VCLs and what they include are looked for, with : between them."),
    ("vmod_path", "The folders in which modules are looked for. larder has its own."),
    ("vsl_buffer", "How much of the log a thread gathers. There is no shared log."),
    ("vsl_mask", "Which tags the transaction log has: all, none or default, then +TAG and -TAG."),
    ("vsl_reclen", "How many bytes of a record the transaction log has. Not set: 4096."),
    (
        "vsl_space",
        "How much of the transaction log is kept for varnishlog -d. Unless it is set, and with 0, nothing is kept, and nothing is recorded that nobody listens to.",
    ),
    ("vsm_free_cooldown", "How long shared memory stays that is not used. There is none."),
    ("workspace_backend", "How much text the VCL may make for a request to a backend."),
    ("workspace_client", "How much text the VCL may make for a request of a client."),
    ("workspace_session", "How much memory a connection has."),
    ("workspace_thread", "How much memory a thread has besides."),
];

#[cfg(test)]
mod tests {
    use larder_vcl::parameters::table::TABLE;

    use super::*;

    #[test]
    fn each_parameter_has_a_text() {
        let (told, known): (Vec<_>, Vec<_>) =
            (TEXTS.map(|(name, _)| name).to_vec(), TABLE.map(|row| row.name).to_vec());
        assert_eq!(told, known);
        assert!(TEXTS.iter().all(|(_, text)| text.ends_with('.')));
        assert_eq!(text("nothing"), "");
    }
}
