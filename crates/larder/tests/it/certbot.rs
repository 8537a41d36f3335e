//! certbot, as Debian has it, with larder in nginx's place: it proves a name, edits the configuration, tests it,
//! reloads, and renews.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use larder_testkit::{Certificates, Client, Signal, Tls, children_of, text_of};

use crate::acme::Authority;
use crate::site::{Ends, Setup, binary, eventually, get_on, text};

/// A larder that runs as a daemon, a CA that comes to it, and folders for certbot.
struct Host {
    authority: Authority,
    setup: Setup,
    supervisor: u32,
}

impl Drop for Host {
    /// A supervisor that is killed leaves a process behind that serves on.
    fn drop(&mut self) {
        let _then: Vec<Ends> = children_of(self.supervisor).into_iter().map(Ends).collect();
        drop(Ends(self.supervisor));
    }
}

impl Host {
    fn start(http: &str) -> Host {
        let setup = Setup::new();
        let folder = setup.path("").display().to_string();
        let folder = folder.trim_end_matches('/');
        fs::create_dir_all(setup.path("www/.well-known/acme-challenge")).unwrap();
        // certbot says where the configuration is and nothing else.
        let program = format!("#!/bin/sh\nexec {} -p {folder}/ -e {folder}/error.log \"$@\"\n", binary().display());
        fs::write(setup.path("nginx"), program).unwrap();
        fs::set_permissions(setup.path("nginx"), fs::Permissions::from_mode(0o755)).unwrap();
        setup.write_raw(&format!(
            "worker_processes 2;\npid {{DIR}}/nginx.pid;\nerror_log {{DIR}}/error.log info;\n\nevents {{\n}}\n\nhttp {{\n    \
             access_log {{DIR}}/access.log;\n    client_body_temp_path {{DIR}}/body;\n    proxy_temp_path {{DIR}}/proxy;\n    \
             fastcgi_temp_path {{DIR}}/fastcgi;\n{http}\n}}\n"
        ));
        let started = Command::new(setup.path("nginx"))
            .args(["-c", &format!("{folder}/nginx.conf")])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(started.status.success(), "{started:?}");
        let pid = fs::read_to_string(setup.path("nginx.pid")).unwrap().trim().parse().unwrap();
        let mut authority = Authority::new();
        authority.run(&setup);
        Host { authority, setup, supervisor: pid }
    }

    /// Runs certbot to its end.
    fn certbot(&self, words: &[&str]) -> Output {
        let path = |name: &str| self.setup.path(name).display().to_string();
        let output = Command::new("certbot")
            .args(words)
            .args(["--non-interactive", "--agree-tos", "--email", "admin@site.test", "--no-eff-email"])
            .args(["--server", &self.authority.directory()])
            .args(["--config-dir", &path("letsencrypt"), "--work-dir", &path("work"), "--logs-dir", &path("logs")])
            .args(["--http-01-port", &self.setup.address().port().to_string()])
            .args(["--https-port", &self.setup.other_address().port().to_string()])
            .env("REQUESTS_CA_BUNDLE", self.authority.trusted())
            .stdin(Stdio::null())
            .output()
            .expect("certbot is installed by `scripts/setup test`");
        let log = fs::read_to_string(self.setup.path("logs/letsencrypt.log")).unwrap_or_default();
        let errors = fs::read_to_string(self.setup.path("error.log")).unwrap_or_default();
        assert!(output.status.success(), "{words:?}: {output:?}\n{log}\n{errors}\n{}", self.configuration());
        output
    }

    fn with_nginx(&self, words: &[&str]) -> Output {
        let (program, root) =
            (self.setup.path("nginx").display().to_string(), self.setup.path("").display().to_string());
        let plugin = ["--nginx-ctl", &program, "--nginx-server-root", root.trim_end_matches('/')];
        self.certbot(&[words, &plugin].concat())
    }

    fn configuration(&self) -> String {
        fs::read_to_string(self.setup.path("nginx.conf")).unwrap()
    }

    /// The certificate in certbot's folder, DER.
    fn issued(&self) -> Vec<u8> {
        let pem = self.setup.path("letsencrypt/live/site.test/cert.pem");
        let der = Command::new("openssl").args(["x509", "-outform", "DER", "-in"]).arg(pem).output().unwrap();
        assert!(der.status.success(), "{der:?}");
        der.stdout
    }

    /// The certificate that is shown, and what `/` says.
    fn asks_by_tls(&self) -> Option<(Vec<u8>, String)> {
        let tls = Tls::new("site.test", &Certificates::new("nobody")).unchecked();
        let mut client = Client::connect_tls(self.setup.other_address(), &tls).ok()?;
        let shown = client.tls()?.certificate;
        Some((shown, text(&get_on(&mut client, "/"))))
    }
}

const SITE: &str = "
    server {
        listen 127.0.0.1:{PORT};
        server_name site.test;
        root {DIR}/www;

        location / {
            return 200 hello;
        }
        location /.well-known/acme-challenge/ {
        }
    }";

#[test]
fn a_certificate_comes_by_a_file_below_the_root() {
    let host = Host::start(SITE);
    let root = host.setup.path("www").display().to_string();
    host.certbot(&["certonly", "--webroot", "-w", &root, "-d", "site.test"]);
    assert!(!host.issued().is_empty());
    let log = fs::read_to_string(host.setup.path("access.log")).unwrap();
    assert!(log.contains("GET /.well-known/acme-challenge/"), "{log}");
}

#[test]
fn certbot_puts_tls_into_the_configuration_and_renews_it() {
    // What stands in the way of a challenge: certbot puts its own location before it.
    let host = Host::start(
        "
    server {
        listen 127.0.0.1:{PORT};
        server_name site.test;
        root {DIR}/www;

        location / {
            return 200 hello;
        }
    }",
    );
    assert_eq!(host.asks_by_tls(), None);
    host.with_nginx(&["--nginx", "-d", "site.test"]);
    assert!(host.configuration().contains("managed by Certbot"), "{}", host.configuration());
    eventually("the certificate to be shown", || host.asks_by_tls().is_some_and(|(shown, _)| shown == host.issued()));
    assert_eq!(host.asks_by_tls().unwrap().1, "hello");
    // certbot redirects from port 80 alone.
    assert_eq!(text(&get_on(&mut Client::connect(host.setup.address()).unwrap(), "/")), "hello");

    let first = host.issued();
    host.with_nginx(&["renew", "--force-renewal", "--no-random-sleep-on-renew"]);
    assert_ne!(host.issued(), first);
    eventually("the new one to be shown", || host.asks_by_tls().is_some_and(|(shown, _)| shown == host.issued()));
    // What certbot put in for the challenge it has taken out again.
    assert!(!host.configuration().contains("acme-challenge"), "{}", host.configuration());
}

#[test]
fn certbot_proves_a_name_through_nginx_and_leaves_the_configuration_as_it_was() {
    let host = Host::start(
        "
    server {
        listen 127.0.0.1:{PORT} default_server;
        server_name _;
        return 444;
    }
    server {
        listen 127.0.0.1:{PORT};
        server_name site.test;
        return 301 https://$host$request_uri;
    }",
    );
    let before = host.configuration();
    host.with_nginx(&["certonly", "--nginx", "-d", "site.test"]);
    assert_eq!(host.configuration(), before);
    assert!(!host.issued().is_empty());
    let pid: u32 = fs::read_to_string(host.setup.path("nginx.pid")).unwrap().trim().parse().unwrap();
    larder_testkit::signal_to(pid, Signal::Quit).unwrap();
    eventually("the end", || !larder_testkit::is_running(pid));
    let errors = text_of(&fs::read(host.setup.path("error.log")).unwrap());
    assert!(!errors.contains("[emerg]") && !errors.contains("[alert]"), "{errors}");
}
