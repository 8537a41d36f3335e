//! What `-v`, `-V` and `-h` print.

use crate::ask::help as ask_help;
use crate::cli::Show;
use crate::doctor::options as doctor;
use crate::import::options as import;
use crate::paths;
use crate::serving::NGINX_VERSION;
use crate::shadow::options as shadow;

/// The text for `show`, with its last line end.
pub fn text(show: Show) -> String {
    let version = format!("larder version: larder/{}\n", env!("CARGO_PKG_VERSION"));
    match show {
        Show::Version => version,
        Show::Build => version + &build(),
        Show::Help => version + &help(),
        Show::AskHelp(verb) => ask_help::text(verb),
        Show::DoctorHelp => doctor::HELP.to_owned(),
        Show::ImportHelp => import::HELP.to_owned(),
        Show::ShadowHelp => shadow::HELP.to_owned(),
    }
}

fn build() -> String {
    format!(
        "nginx version: nginx/{NGINX_VERSION} (configuration compatible)\n\
         built for {} {}, {}, with rustls and aws-lc-rs\n\
         TLS SNI support enabled\n\
         configure arguments: --prefix={} --conf-path={} --error-log-path={} --pid-path={} {}\n",
        std::env::consts::ARCH,
        std::env::consts::OS,
        if cfg!(debug_assertions) { "unoptimised" } else { "optimised" },
        paths::PREFIX,
        paths::default_conf_file().display(),
        paths::ERROR_LOG,
        paths::PID_FILE,
        MODULES.join(" "),
    )
}

fn help() -> String {
    format!(
        "Usage: larder [-?hvVtTq] [--notices] [-s signal] [-p prefix] [-e filename] [-c filename] [-g directives]\n\
         \x20      larder serve DIR [--listen ADDRESS] [--print-config]\n\
         \x20      larder check [options as above]\n\
         \x20      larder cache ls|stat|bans|verify|clear ... [-p prefix] [-c filename]\n\
         \x20      larder why [--json] [-p prefix] [-c filename] [--pid filename] [-n folder] [--listen address]\n\
         \x20      larder explain URL [-X METHOD] [-H FIELD] [--from ADDRESS] [options as above]\n\
         \x20      larder purge URL...|--tag T|--prefix P|--match REGEX|--host H|--ban BAN|--all [--soft] [--zone Z]\n\
         \x20                   [--everywhere] [options of larder why]\n\
         \x20      larder top [options of larder why]\n\
         \x20      larder cluster status|forget NODE [options of larder why]\n\
         \x20      larder log [--host H] [--url PREFIX] [--status S] [--cache WORD] [--slow TIME] [--json] [options]\n\
         \x20      larder doctor [--json] [--no-disk-test] [--root DIR] [-p prefix] [-c filename]\n\
         \x20      larder import nginx|varnish [--json] [--root DIR] [--write DIR] [-c filename]\n\
         \x20      larder profile [NAME|FILE|DIR]\n\
         \x20      larder shadow --old URL --log FILE|--listen ADDRESS [--rate N] [--for TIME] [--json] [options]\n\
         \x20      larder varnishd [-C] -f FILE [options of varnishd]\n\
         \x20      larder varnishstat [-1|-j|-x|-l] [options of varnishstat]\n\
         \x20      larder varnishlog [-g GROUPING] [-q QUERY] [options of varnishlog]\n\
         \x20      larder varnishncsa [-F FORMAT] [options of varnishncsa]\n\
         \n\
         Options:\n\
         \x20 -?,-h         : this help\n\
         \x20 -v            : show version and exit\n\
         \x20 -V            : show version and what is built in, then exit\n\
         \x20 -t            : test configuration and exit\n\
         \x20 -T            : test configuration, dump it and exit\n\
         \x20 --notices     : test configuration, and name each directive that has no effect\n\
         \x20 -q            : suppress non-error messages during configuration testing\n\
         \x20 -s signal     : send signal to the running larder: stop, quit, reopen, reload\n\
         \x20 -p prefix     : set prefix path (default: {}/)\n\
         \x20 -e filename   : set error log file (default: {})\n\
         \x20 -c filename   : set configuration file (default: {};\n\
         \x20                 all but a start: that of the larder that runs)\n\
         \x20 -g directives : set global directives out of configuration file\n\
         \n\
         Commands:\n\
         \x20 serve DIR     : serve a folder, PHP included, without a configuration\n\
         \x20                 --listen ADDRESS (default: 127.0.0.1:8080), --print-config\n\
         \x20 check         : the same as -t\n\
         \x20 cache         : ls [ZONE|FOLDER], stat URL|KEY [ZONE|FOLDER], bans [ZONE|FOLDER], verify [ZONE|FOLDER],\n\
         \x20                 clear ZONE|FOLDER: what is on disk; a name with a slash is a folder\n\
         \x20 why           : why requests of the last minutes were no hits; \"larder why -h\" shows more\n\
         \x20 explain       : what the running server would do with a request; \"larder explain -h\" shows more\n\
         \x20 purge         : has the running server purge pages; \"larder purge -h\" shows more\n\
         \x20 top           : what a running server does, each second; \"larder top -h\" shows more\n\
         \x20 cluster       : status, forget NODE: the nodes of a running server's cluster; \"larder cluster -h\" shows more\n\
         \x20 log           : follows the requests of a running server; \"larder log -h\" shows more\n\
         \x20 doctor        : looks at this machine and says what will hurt; \"larder doctor -h\" shows more\n\
         \x20 import        : what of this machine's nginx or Varnish works; \"larder import -h\" shows more\n\
         \x20 profile       : what larder knows of applications: all of them, the text of one, what is wrong with a file,\n\
         \x20                 or which application is in a folder\n\
         \x20 shadow        : larder beside the server that runs, and what differs; \"larder shadow -h\" shows more\n\
         \x20 varnishd      : runs a VCL, by varnishd's options; -C checks it, \"larder varnishd -?\" shows more\n\
         \x20 varnishstat   : the counters of a running \"larder varnishd\"; \"larder varnishstat -h\" shows more\n\
         \x20 varnishlog    : the log of a running server, by transactions; \"larder varnishlog -h\" shows more\n\
         \x20 varnishncsa   : the same as a line a request; \"larder varnishncsa -h\" shows more\n\
         \x20 help          : this help\n",
        paths::PREFIX,
        paths::ERROR_LOG,
        paths::default_conf_file().display(),
    )
}

/// The differences from an nginx that is built without options: `--with-` for modules that only larder has,
/// `--without-` for modules that larder lacks.
const MODULES: &[&str] = &[
    "--with-http_addition_module",
    "--with-http_auth_request_module",
    "--with-http_flv_module",
    "--with-http_gunzip_module",
    "--with-http_gzip_static_module",
    "--with-http_mp4_module",
    "--with-http_random_index_module",
    "--with-http_realip_module",
    "--with-http_secure_link_module",
    "--with-http_slice_module",
    "--with-http_ssl_module",
    "--with-http_stub_status_module",
    "--with-http_sub_module",
    "--with-http_v2_module",
    "--without-http_grpc_module",
    "--without-http_memcached_module",
    "--without-http_scgi_module",
    "--without-http_upstream_sticky_module",
    "--without-http_uwsgi_module",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_names_the_nginx_that_is_the_measure_at_the_start_of_a_line() {
        let text = text(Show::Build);
        assert!(text.lines().any(|line| line.starts_with("nginx version: nginx/1.31.5")));
        assert!(text.lines().any(|line| line.starts_with("configure arguments: ")));
        assert!(text.contains("--with-http_ssl_module"));
    }
}
