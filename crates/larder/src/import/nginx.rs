//! nginx: its configuration is larder's, so what is left to say is what larder refuses, and what it does in another way.

use std::path::{Path, PathBuf};

use larder_conf::model::{Config, Handler, each_location};
use larder_conf::{Diagnostic, Severity, Span, Standing, Survey, Written};

use super::report::Report;
use super::service::{self, Command};
use super::{place, shown, to_write, words};
use crate::configuration::{Configuration, Surroundings};
use crate::hostname::hostname;
use crate::machine::Machine;
use crate::paths::{self, DefaultLog};
use crate::remark::Remark;
use crate::unit::Unit;

/// What of nginx's configuration works with the larder `program`. `Err` says why there is none.
pub fn report(
    machine: &Machine,
    program: &Path,
    conf_file: Option<&Path>,
    written: Option<&Path>,
) -> Result<Report, String> {
    let unit = Unit::read(machine, "nginx.service").map_err(|error| error.to_string())?;
    let command = unit.as_ref().and_then(|unit| service::command(machine, unit, "ExecStart"));
    let asked = Asked::of(command.as_ref(), conf_file);
    if !machine.has(&asked.conf_file) {
        return Err(format!(
            "there is no {}: is nginx's configuration elsewhere? Name it by -c",
            asked.conf_file.display()
        ));
    }
    let mut report = Report::default();
    let names_pid = look(machine, &asked, &mut report);
    plan(machine, unit.as_ref(), program, &asked, names_pid, written, &mut report);
    Ok(report)
}

/// How nginx is started.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    conf_file: PathBuf,
    /// Whether it is another than that of the unit.
    is_other: bool,
    prefix: PathBuf,
}

impl Asked {
    /// By the options of its unit, or as packages build it.
    fn of(command: Option<&Command>, conf_file: Option<&Path>) -> Asked {
        let words = command.map(|command| command.words.as_slice()).unwrap_or_default();
        let value = |option: &str| {
            let at = words.iter().position(|word| word.starts_with(option))?;
            let joined = words.get(at)?.strip_prefix(option)?;
            if joined.is_empty() { words.get(at + 1).map(String::as_str) } else { Some(joined) }
        };
        // Without -p, larder's own: relative names then begin from another folder than with nginx.
        let prefix = PathBuf::from(value("-p").unwrap_or(paths::PREFIX));
        let own = value("-c").map_or_else(|| CONF_FILE.into(), |file| prefix.join(file));
        let is_other = conf_file.is_some_and(|file| file != own);
        Asked { conf_file: conf_file.map_or(own, Path::to_owned), is_other, prefix }
    }
}

/// What works and what does not. Returns whether the configuration names a pid file.
fn look(machine: &Machine, asked: &Asked, report: &mut Report) -> bool {
    let surroundings = Surroundings {
        conf_file: asked.conf_file.clone(),
        conf_prefix: asked.conf_file.parent().map(Path::to_owned).unwrap_or_default(),
        prefix: asked.prefix.clone(),
        globals: None,
        is_root: true,
        hostname: hostname(),
        error_log: DefaultLog::File(paths::ERROR_LOG.into()),
    };
    let mut loader = machine.clone();
    let Survey { directives, sources, notices } = Configuration::survey(&surroundings, &mut loader);
    let readable = Configuration::parsed(&surroundings, &mut loader);
    let mut remarks = Remark::of(&notices, &sources);
    let servers = match Configuration::by_loader(surroundings, &mut loader) {
        Ok(configuration) => {
            let lint = larder_conf::lint(&configuration.config);
            report.likely = Remark::of(&lint, &configuration.sources);
            let more = Remark::of(&configuration.notices, &configuration.sources);
            remarks.extend(more.into_iter().filter(|one| !notices.iter().any(|known| is_of(one, known))));
            Some(configuration.config.http.servers.len())
        }
        Err(rejected) => {
            report.refuse(rejected.remarks.into_iter().filter(|remark| remark.severity == Severity::Error));
            if readable.is_none() {
                let message = "certificates, VCLs and likely mistakes are looked at when the rest can be read";
                report.unknown.push(Remark::notice(message));
            }
            None
        }
    };
    let files = sources.files().count();
    let others = files.saturating_sub(1);
    report.read = match others {
        0 => format!("nginx: {}", asked.conf_file.display()),
        _ => format!("nginx: {} and {} that it includes", asked.conf_file.display(), counted(others, "file")),
    };
    // What has no effect and is not needed is counted below. nginx warns of the same, and does the same.
    for remark in remarks {
        match remark.severity {
            Severity::NoEffect => report.without_effect.push(remark),
            Severity::Warning => report.likely.push(remark),
            Severity::Notice | Severity::Error => report.differs.push(remark),
        }
    }
    for difference in DIFFERENCES {
        for written in directives.iter().filter(|written| difference.is_in(written, readable.as_ref())) {
            let position = sources.position(written.span);
            report.differs.push(Remark {
                span: Some(written.span),
                place: position.map(|position| (position.path, position.line)),
                help: Some(difference.help.to_owned()).filter(|help| !help.is_empty()),
                ..Remark::notice(&format!("\"{}\" {}", written.name, difference.message))
            });
        }
    }
    report.differs.sort_by(|a, b| a.place.cmp(&b.place));
    report.likely.sort_by(|a, b| a.place.cmp(&b.place));
    count(&directives, servers, report);
    directives.iter().any(|written| written.name == "pid")
}

fn is_of(remark: &Remark, diagnostic: &Diagnostic) -> bool {
    remark.span == diagnostic.span && remark.message == diagnostic.message
}

/// Counts each directive once: refused, different, without effect, or as in nginx.
fn count(directives: &[Written], servers: Option<usize>, report: &mut Report) {
    let (mut refused, mut different, mut without, mut same) = (0, 0, 0, 0);
    for written in directives {
        let is_in = |remark: &Remark| remark.span.is_some_and(|span| lies_in(span, written.whole));
        let is_off = written.args.len() == 1 && written.args[0].eq_ignore_ascii_case("off");
        *match written.standing {
            _ if report.refused.iter().any(is_in) => &mut refused,
            _ if report.differs.iter().any(is_in) => &mut different,
            Some(Standing::Harmless) => &mut without,
            // What larder does not have is off.
            Some(Standing::Refused) if is_off => &mut without,
            Some(Standing::Refused) | None => &mut refused,
            Some(Standing::Built) => &mut same,
        } += 1;
    }
    report.works.push(format!("{same} of {} do what they do in nginx", counted(directives.len(), "directive")));
    if different > 0 {
        report.works.push(format!("{} in another way or not at all: see \"Differs\"", counted(different, "directive")));
    }
    if without > 0 {
        report
            .works
            .push(format!("{} without effect: larder needs none, or does it by itself", counted(without, "directive")));
    }
    if refused > 0 {
        report.works.push(format!("{} refused: see \"Does not work\"", counted(refused, "directive")));
    }
    report.works.extend(servers.map(|servers| format!("{} in all", counted(servers, "server"))));
}

fn lies_in(span: Span, whole: Span) -> bool {
    span.file == whole.file && (whole.start..=whole.end).contains(&span.start)
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// What larder does in another way, and a site may notice: docs/differences-from-nginx.md has all.
struct Difference {
    names: &'static [&'static str],
    /// Which of the directives with these names; the configuration is there if it can be read.
    holds: fn(&Written, Option<&Config>) -> bool,
    message: &'static str,
    help: &'static str,
}

impl Difference {
    fn is_in(&self, written: &Written, config: Option<&Config>) -> bool {
        self.names.contains(&written.name.as_str()) && (self.holds)(written, config)
    }
}

const DIFFERENCES: &[Difference] = &[
    Difference {
        names: &["proxy_cache_path", "fastcgi_cache_path"],
        holds: always,
        message: "begins with an empty cache: pages that nginx has stored are left alone, and not taken over",
        help: "delete them when nginx is not to come back",
    },
    Difference {
        names: &["worker_connections"],
        holds: always,
        message: "is no limit: larder accepts as many as it may have files open and has memory for",
        help: "",
    },
    Difference {
        names: &["proxy_cache_lock", "fastcgi_cache_lock"],
        holds: is_on,
        message: "gives those who wait the page while it arrives, not when it is complete",
        help: "",
    },
    Difference {
        names: &["proxy_ignore_headers", "fastcgi_ignore_headers"],
        holds: stores_without_cookies,
        message: "has Set-Cookie: an answer that is stored by it is stored without its Set-Cookie, which nginx gives to all",
        help: "what nginx does is *_pass_header Set-Cookie",
    },
    Difference {
        names: &["merge_slashes"],
        holds: always,
        message: "is that of the server that answers, not that of the default server",
        help: "",
    },
    Difference {
        names: &["open_file_cache"],
        holds: is_on,
        message: "lets a small file that is written in place be sent as it was for five seconds more",
        help: "",
    },
    Difference {
        names: &["ssl_session_ticket_key"],
        holds: always,
        message: "makes tickets that nginx cannot open, nor larder nginx's: an nginx beside it begins new sessions",
        help: "",
    },
];

fn always(_: &Written, _: Option<&Config>) -> bool {
    true
}

fn is_on(written: &Written, _: Option<&Config>) -> bool {
    written.args.first().is_some_and(|word| word != "off")
}

/// Whether some location stores what its origin sent with cookies, and neither passes nor hides them on purpose.
fn stores_without_cookies(written: &Written, config: Option<&Config>) -> bool {
    let is_cookie = |name: &String| name.eq_ignore_ascii_case("Set-Cookie");
    if !written.args.iter().any(is_cookie) {
        return false;
    }
    let Some(config) = config else { return true };
    let mut found = false;
    for server in &config.http.servers {
        each_location(server, &mut |location| {
            let origin = match &location.handler {
                Handler::Proxy(_) if written.name.starts_with("proxy_") => &location.settings.proxy.origin,
                Handler::FastCgi(_) if written.name.starts_with("fastcgi_") => &location.settings.fastcgi.origin,
                _ => return,
            };
            let mut told = origin.response.pass_headers.iter().chain(&origin.response.hide_headers);
            found |= origin.cache.zone.is_some() && origin.ignore_headers.set_cookie && !told.any(is_cookie);
        });
    }
    found
}

fn plan(
    machine: &Machine,
    unit: Option<&Unit>,
    program: &Path,
    asked: &Asked,
    names_pid: bool,
    written: Option<&Path>,
    report: &mut Report,
) {
    let unit = unit.filter(|unit| unit.last("ExecStart").is_some());
    let (larder, conf) = (shown(program), shown(&asked.conf_file));
    let test = format!("{larder} -t -q -c {conf}");
    let unusable = service::unusable(machine, unit, "nginx.service", program);
    let Some(unit) = unit else {
        report.switch_over = match unusable {
            Some(why) => vec![why],
            None => vec![format!("{test} && nginx -s quit"), format!("{larder} -c {conf}")],
        };
        report.way_back = vec![format!("{larder} -c {conf} -s quit"), "nginx".to_owned()];
        return;
    };
    if unit.last("ExecStart").is_some_and(|setting| setting.value.contains("larder")) {
        report.works.push("larder has nginx's place already".to_owned());
        let file = unit.last("ExecStart").map(|setting| setting.file.display().to_string()).unwrap_or_default();
        report.way_back = vec![format!("rm {file} && systemctl daemon-reload"), "systemctl restart nginx".to_owned()];
        return;
    }
    if let Some(why) = unusable {
        report.switch_over.push(why);
        return;
    }
    if asked.is_other {
        let file = asked.conf_file.display();
        report
            .switch_over
            .push(format!("# {file} is not what the unit runs: it would go on with its own configuration"));
    }
    let Some(drop_in) = drop_in(unit, program) else {
        let setting = unit.last("ExecStart");
        let place = setting.map_or_else(String::new, |own| format!("{}:{}", own.file.display(), own.line));
        report.switch_over = vec![format!("# {place} runs no nginx itself: put {larder} where it does")];
        return;
    };
    let name = service::drop_in_name(unit, "larder.conf");
    // The package has the drop-in for a unit that is as Debian's.
    let packaged = Path::new(PACKAGED);
    let is_packaged = settings_of(&drop_in) == settings_of(PACKAGED_TEXT) && machine.has(packaged);
    let from = if is_packaged { packaged.to_owned() } else { place(written, "nginx.service.d/larder.conf") };
    let (there, back) = service::switch("nginx", &test, &from, name);
    report.switch_over.extend(service::own_service(machine));
    report.switch_over.extend(name_pid_file(unit, names_pid, asked));
    report.switch_over.extend(to_write(program, written, "nginx").filter(|_| !is_packaged));
    report.switch_over.extend(there);
    report.way_back = back;
    report.files.push(("nginx.service.d/larder.conf".into(), drop_in));
}

/// The drop-in by which the unit runs larder with the options that nginx has now; `None` if it does not run nginx.
fn drop_in(unit: &Unit, program: &Path) -> Option<String> {
    let program = words::joined(&[program.display().to_string()]);
    let mut text = "# The unit nginx.service runs larder. Remove this to have nginx back.\n[Service]\n".to_owned();
    let mut runs_larder = false;
    for key in ["ExecStartPre", "ExecStart", "ExecReload"] {
        // An empty value forgets all, so that those that stay are written again.
        let all = unit.all(key);
        let changed: Vec<_> =
            all.iter().map(|setting| service::with_program(&setting.value, "/nginx", &program)).collect();
        if changed.iter().all(Option::is_none) {
            continue;
        }
        text.push_str(&format!("{key}=\n"));
        for (setting, changed) in all.iter().zip(changed) {
            text.push_str(&format!("{key}={}\n", changed.as_ref().unwrap_or(&setting.value)));
        }
        runs_larder |= key == "ExecStart";
    }
    runs_larder.then_some(text)
}

/// The command that names the pid file in the configuration, if systemd would look for it in vain: nginx has one built in,
/// and so has larder.
fn name_pid_file(unit: &Unit, names_pid: bool, asked: &Asked) -> Option<String> {
    let wanted = &unit.last("PIDFile")?.value;
    (!names_pid && Path::new(wanted) != Path::new(paths::PID_FILE))
        .then(|| format!("sed -i '1i pid {wanted};' {} # where the unit looks, for nginx too", shown(&asked.conf_file)))
}

/// What a drop-in sets, without comments.
fn settings_of(text: &str) -> Vec<String> {
    text.lines().filter(|line| line.starts_with("Exec")).map(str::to_owned).collect()
}

const PACKAGED: &str = "/usr/share/doc/larder/examples/nginx.service.d/larder.conf";
const PACKAGED_TEXT: &str = include_str!("../../../../packaging/nginx.service.d/larder.conf");
const CONF_FILE: &str = "/etc/nginx/nginx.conf";

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const UNIT: &str = "[Service]\nType=forking\nPIDFile=/run/nginx.pid\n\
        ExecStartPre=/usr/sbin/nginx -t -q -g 'daemon on; master_process on;'\n\
        ExecStart=/usr/sbin/nginx -g 'daemon on; master_process on;'\n\
        ExecReload=/usr/sbin/nginx -g 'daemon on; master_process on;' -s reload\n";

    const LARDER: &str = "/usr/sbin/larder";

    fn said(files: &[(&str, &str)]) -> Result<Report, String> {
        said_of(files, None)
    }

    fn said_of(files: &[(&str, &str)], conf_file: Option<&str>) -> Result<Report, String> {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files.iter().chain(&[(LARDER, "")]) {
            let path = root.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        report(&Machine::at(root.path()).unwrap(), Path::new(LARDER), conf_file.map(Path::new), None)
    }

    #[test]
    fn what_works_is_counted_and_what_does_not_has_its_place() {
        let conf = "events { worker_connections 768; }\nhttp { tcp_nopush on; include sites/*; }\n";
        let good = "server { listen 80; location / { return 200 x; } }\n";
        let report = said(&[(CONF_FILE, conf), ("/etc/nginx/sites/a", good)]).unwrap();
        assert!(report.works() && report.refused.is_empty());
        assert_eq!(report.read, "nginx: /etc/nginx/nginx.conf and 1 file that it includes");
        let works = [
            "6 of 8 directives do what they do in nginx",
            "1 directive in another way or not at all: see \"Differs\"",
            "1 directive without effect: larder needs none, or does it by itself",
            "1 server in all",
        ];
        assert_eq!(report.works, works);
        assert_eq!(report.differs[0].shown_place(), "/etc/nginx/nginx.conf:1");
        let bad = "server { listen 80;\n echo x;\n nonsense on;\n}\n";
        let report = said(&[(CONF_FILE, conf), ("/etc/nginx/sites/a", good), ("/etc/nginx/sites/b", bad)]).unwrap();
        let places: Vec<String> = report.refused.iter().map(Remark::shown_place).collect();
        assert_eq!(places, ["/etc/nginx/sites/b:2", "/etc/nginx/sites/b:3"]);
        assert!(!report.works() && report.unknown[0].message.contains("when the rest can be read"));
        let none = said(&[("/etc/other", "")]).unwrap_err();
        assert!(none.contains("there is no /etc/nginx/nginx.conf"), "{none}");
    }

    #[test]
    fn each_directive_is_counted_once() {
        let conf = "events {}\nhttp {\n  tcp_nopush on;\n  http3 on;\n  upstream u {\n    server 127.0.0.1 slow_start=5s;\n\
                    server 127.0.0.2; }\n  echo x;\n  server { listen 80; }\n}\n";
        let report = said(&[(CONF_FILE, conf)]).unwrap();
        let works = [
            "6 of 10 directives do what they do in nginx",
            "1 directive in another way or not at all: see \"Differs\"",
            "1 directive without effect: larder needs none, or does it by itself",
            "2 directives refused: see \"Does not work\"",
        ];
        assert_eq!(report.works, works);
    }

    #[test]
    fn each_place_of_a_difference_is_told_and_what_nginx_warns_of_is_none() {
        let server = "server {\nssl_protocols TLSv1 TLSv1.2;\nserver_name a.test a.test;\n}\n";
        let report = said(&[(CONF_FILE, &format!("events {{}} http {{\n{server}{server}}}\n"))]).unwrap();
        let places: Vec<String> = report.differs.iter().map(Remark::shown_place).collect();
        assert_eq!(places, ["/etc/nginx/nginx.conf:3", "/etc/nginx/nginx.conf:7"], "{:?}", report.differs);
        assert!(report.likely.iter().any(|remark| remark.message.contains("conflicting server name")), "{report:?}");
    }

    #[test]
    fn cookies_that_are_not_stored_are_told() {
        let told = |directives: &str, more: &str| {
            let conf = format!(
                "events {{}}\nhttp {{ fastcgi_cache_path /p keys_zone=p:1m; fastcgi_cache_key $request_uri; server {{ {more}\n\
                 location / {{ fastcgi_pass unix:/a;\n{directives} }} }} }}"
            );
            let report = said(&[(CONF_FILE, &conf)]).unwrap();
            let cookies = report.differs.iter().filter(|remark| remark.message.contains("without its Set-Cookie"));
            cookies.map(Remark::shown_place).collect::<Vec<_>>()
        };
        let place = ["/etc/nginx/nginx.conf:4"];
        for (directives, more, expected) in [
            ("fastcgi_ignore_headers Expires set-cookie; fastcgi_cache p;", "", &place[..]),
            ("fastcgi_ignore_headers Expires set-cookie; fastcgi_cache p;", "nonsense;", &place),
            ("fastcgi_ignore_headers Expires; fastcgi_cache p;", "", &[]),
            ("fastcgi_ignore_headers Set-Cookie;", "", &[]),
            ("proxy_ignore_headers Set-Cookie; fastcgi_cache p;", "", &[]),
            ("fastcgi_ignore_headers Set-Cookie; fastcgi_pass_header Set-Cookie; fastcgi_cache p;", "", &[]),
            ("fastcgi_ignore_headers Set-Cookie; fastcgi_hide_header Set-Cookie; fastcgi_cache p;", "", &[]),
        ] {
            assert_eq!(told(directives, more), expected, "{directives} {more}");
        }
    }

    #[test]
    fn mistakes_and_caches_are_told() {
        let conf = "events {}\nhttp {\nproxy_cache_path /var/cache/nginx keys_zone=p:1m;\nserver { location / {\n\
                    proxy_pass http://127.0.0.1; proxy_cache p;\nproxy_ignore_headers Set-Cookie; } } }";
        let report = said(&[(CONF_FILE, conf)]).unwrap();
        assert!(report.works());
        assert!(
            report
                .differs
                .iter()
                .any(|remark| remark.in_a_line().contains("nginx.conf:3: \"proxy_cache_path\" begins"))
        );
        assert!(report.likely.iter().any(|remark| remark.message.contains("Set-Cookie")), "{:?}", report.likely);
    }

    #[test]
    fn the_plan_is_the_drop_in_of_the_package_where_that_is_enough() {
        let conf = (CONF_FILE, "pid /run/nginx.pid; events {}");
        let unit = ("/lib/systemd/system/nginx.service", UNIT);
        let report = said(&[conf, unit, (PACKAGED, PACKAGED_TEXT)]).unwrap();
        assert_eq!(
            report.switch_over,
            [
                format!(
                    "/usr/sbin/larder -t -q -c /etc/nginx/nginx.conf && install -D -m 644 {PACKAGED} \
                     /etc/systemd/system/nginx.service.d/larder.conf && systemctl daemon-reload"
                ),
                "systemctl restart nginx".to_owned()
            ]
        );
        assert_eq!(
            report.way_back,
            [
                "rm /etc/systemd/system/nginx.service.d/larder.conf && systemctl daemon-reload",
                "systemctl restart nginx"
            ]
        );
        assert_eq!(said(&[conf, unit]).unwrap().switch_over.len(), 3, "without the package it is written first");
    }

    #[test]
    fn a_unit_of_ones_own_keeps_its_options() {
        let own = "[Service]\nExecStart=\nExecStart=/opt/sbin/nginx -c /srv/n.conf -g 'daemon on;'\n";
        let files = [
            ("/srv/n.conf", "pid /run/nginx.pid; events {}"),
            ("/lib/systemd/system/nginx.service", UNIT),
            ("/etc/systemd/system/nginx.service.d/override.conf", own),
            ("/etc/systemd/system/multi-user.target.wants/larder.service", ""),
            (PACKAGED, PACKAGED_TEXT),
        ];
        let report = said(&files).unwrap();
        assert_eq!(report.read, "nginx: /srv/n.conf");
        let drop_in = &report.files[0].1;
        assert!(drop_in.contains("ExecStart=/usr/sbin/larder -c /srv/n.conf -g 'daemon on;'\n"), "{drop_in}");
        assert_eq!(report.switch_over[0], "systemctl disable --now larder");
        let other = [("/srv/other.conf", "events {}")];
        let other = said_of(&[&files[..], &other].concat(), Some("/srv/other.conf")).unwrap();
        assert!(other.switch_over[0].starts_with("# /srv/other.conf is not what the unit runs"), "{other:?}");
        assert!(report.switch_over[2].contains("/nginx.service.d/zz-larder.conf"), "{:?}", report.switch_over);
    }

    #[test]
    fn what_else_a_unit_runs_stays_and_the_pid_file_is_where_it_looks() {
        let unit = "[Service]\nPIDFile=/run/nginx.pid\nExecStartPre=/usr/bin/rm -f /run/nginx.pid\n\
                    ExecStartPre=/usr/sbin/nginx -t\nExecStart=/usr/sbin/nginx\nExecReload=/usr/sbin/nginx -s reload\n";
        let unit = ("/lib/systemd/system/nginx.service", unit);
        let report = said(&[(CONF_FILE, "events {}"), unit]).unwrap();
        let drop_in = &report.files[0].1;
        let pre = "ExecStartPre=\nExecStartPre=/usr/bin/rm -f /run/nginx.pid\nExecStartPre=/usr/sbin/larder -t\n";
        assert!(drop_in.contains(pre), "{drop_in}");
        assert!(report.switch_over[0].starts_with("sed -i '1i pid /run/nginx.pid;' /etc/nginx/nginx.conf"));
        let named = said(&[(CONF_FILE, "pid /run/nginx.pid; events {}"), unit]).unwrap();
        assert!(!named.switch_over.iter().any(|command| command.contains("sed")));
        let wrong = said(&[(CONF_FILE, "pid /run/nginx.pid; events {} stream {}"), unit]).unwrap();
        assert!(!wrong.works() && !wrong.switch_over.iter().any(|command| command.contains("sed")));
        let script = ("/lib/systemd/system/nginx.service", "[Service]\nExecStart=/opt/start\n");
        let script = said(&[(CONF_FILE, "events {}"), script]).unwrap();
        assert_eq!(
            script.switch_over,
            ["# /lib/systemd/system/nginx.service:2 runs no nginx itself: put /usr/sbin/larder where it does"]
        );
    }

    #[test]
    fn nginx_is_not_stopped_for_a_program_that_its_unit_cannot_run() {
        let root = tempfile::tempdir().unwrap();
        let hiding = format!("{UNIT}ProtectHome=yes\n");
        let paths =
            [(CONF_FILE, "events {}"), ("/home/me/larder", ""), ("/opt/my larder", ""), (PACKAGED, PACKAGED_TEXT)];
        for (path, text) in paths.into_iter().chain([("/lib/systemd/system/nginx.service", hiding.as_str())]) {
            let path = root.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let machine = Machine::at(root.path()).unwrap();
        for (program, why) in [(LARDER, "there is no /usr/sbin/larder"), ("/home/me/larder", "by ProtectHome=yes")] {
            let report = report(&machine, Path::new(program), None, None).unwrap();
            assert!(report.switch_over.len() == 1 && report.switch_over[0].contains(why), "{report:?}");
            assert!(report.switch_over[0].starts_with("# ") && report.files.is_empty(), "{report:?}");
        }
        let report = report(&machine, Path::new("/opt/my larder"), None, None).unwrap();
        assert!(report.files[0].1.contains("ExecStart=\"/opt/my larder\" -g"), "{report:?}");
        let all = report.switch_over.join("\n");
        assert!(all.contains("'/opt/my larder' -t -q -c /etc/nginx/nginx.conf && install"), "{all}");
    }

    #[test]
    fn without_systemd_the_plan_is_by_signals() {
        let report = said(&[(CONF_FILE, "events {}")]).unwrap();
        let test = "/usr/sbin/larder -t -q -c /etc/nginx/nginx.conf";
        assert_eq!(
            report.switch_over,
            [&format!("{test} && nginx -s quit"), "/usr/sbin/larder -c /etc/nginx/nginx.conf"]
        );
        assert_eq!(report.way_back, ["/usr/sbin/larder -c /etc/nginx/nginx.conf -s quit", "nginx"]);
        let switched = UNIT.replace("/usr/sbin/nginx", "/usr/sbin/larder");
        let report = said(&[(CONF_FILE, "events {}"), ("/lib/systemd/system/nginx.service", &switched)]).unwrap();
        assert!(report.switch_over.is_empty() && report.works.iter().any(|line| line.contains("already")));
    }
}
