//! `larder import`: what of another server's configuration works, and how to switch over.

use std::fs;
use std::path::Path;

use larder_testkit::text_of;

use crate::site;

const NGINX: (&str, &str) = (
    "etc/nginx/nginx.conf",
    "events {}\nhttp {\n  include sites/*;\n  proxy_cache_path /var/cache/nginx keys_zone=p:1m;\n}\n",
);
const SITE: (&str, &str) = ("etc/nginx/sites/a", "server { listen 80; location / { return 200 x; } }\n");
const VCL: (&str, &str) = ("etc/varnish/default.vcl", "vcl 4.1; backend default { .host = \"127.0.0.1\"; }\n");

/// A machine with larder and these files.
fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files.iter().chain(&[("usr/sbin/larder", "")]) {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

/// Exit status, and what it says.
fn import(root: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let root = root.display().to_string();
    let output = site::run([&["import"], words, &["--root", &root]].concat().iter());
    (output.status.code(), text_of(&output.stdout), text_of(&output.stderr))
}

/// A unit as its package has it; `scripts/setup test` installs both.
fn packaged_unit(name: &str) -> String {
    fs::read_to_string(Path::new("/usr/lib/systemd/system").join(name))
        .or_else(|_| fs::read_to_string(Path::new("/lib/systemd/system").join(name)))
        .expect("it is installed by `scripts/setup test`")
}

#[test]
fn the_exit_status_is_whether_all_of_it_works() {
    let bad = ("etc/nginx/sites/b", "server {\n  listen 80;\n  fastcgi_cach p;\n}\n");
    for (files, status, said) in [
        (&[NGINX, SITE][..], 0, "etc/nginx/nginx.conf:4: \"proxy_cache_path\" begins with an empty cache"),
        (&[NGINX, SITE, bad], 1, "/etc/nginx/sites/b:3: unknown directive \"fastcgi_cach\""),
    ] {
        let (code, out, err) = import(machine(files).path(), &["nginx"]);
        assert_eq!(code, Some(status), "{out}{err}");
        assert!(out.contains(said), "{out}");
        assert!(out.contains("nginx -s quit") && out.contains("The way back:"), "{out}");
    }
    for words in [&["nginx"][..], &["varnish"], &["apache"], &["nginx", "--all"]] {
        let (code, out, err) = import(machine(&[]).path(), words);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{words:?}: {err}");
        assert!(err.starts_with("larder: "), "{err}");
    }
}

#[test]
fn the_units_of_debian_are_understood() {
    let drop_in =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/nginx.service.d/larder.conf"))
            .unwrap();
    let (nginx, varnish) = (packaged_unit("nginx.service"), packaged_unit("varnish.service"));
    let example = "usr/share/doc/larder/examples/nginx.service.d/larder.conf";
    let root = machine(&[
        NGINX,
        SITE,
        VCL,
        ("lib/systemd/system/nginx.service", &nginx),
        ("lib/systemd/system/varnish.service", &varnish),
        (example, &drop_in),
    ]);
    let (code, out, _) = import(root.path(), &["nginx"]);
    assert_eq!(code, Some(0), "{out}");
    // That of the package does what one for this unit would.
    assert!(
        out.contains(&format!("install -D -m 644 /{example} /etc/systemd/system/nginx.service.d/larder.conf")),
        "{out}"
    );
    let (code, out, err) = import(root.path(), &["varnish", "--json"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["works"], true);
    assert!(json["configuration"].as_str().unwrap().contains("vcl \"/etc/varnish/default.vcl\";"), "{json}");
    assert_eq!(json["way_back"][1], "systemctl restart varnish");
}

#[test]
fn on_this_machine_the_program_that_runs_is_named() {
    let setup = site::Setup::new();
    setup.configure("server { listen 127.0.0.1:{PORT}; location / { return 200 x; } }");
    let conf = setup.path("nginx.conf").display().to_string();
    let output = site::run(["import", "nginx", "-c", &conf, "--json"].iter());
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let program = site::binary().display().to_string();
    let commands = json["switch_over"].as_array().unwrap();
    // Its unit may hide the folder in which this test runs, and then that is said.
    assert!(commands.iter().any(|command| command.as_str().unwrap().contains(&program)), "{json:#}");
    assert!(!json.to_string().contains("/usr/sbin/larder"), "{json:#}");
}

#[test]
fn what_is_written_can_be_served_and_is_not_written_over() {
    let setup = site::Setup::new();
    let port = setup.address().port();
    let folder = setup.path("import").display().to_string();
    let vcl = setup.path("default.vcl").display().to_string();
    fs::write(
        setup.path("default.vcl"),
        "vcl 4.1; backend default none; sub vcl_recv { return (synth(200, \"here\")); }",
    )
    .unwrap();
    let unit =
        format!("[Service]\nExecStart=/usr/sbin/varnishd -F -j none -a 127.0.0.1:{port} -f {vcl} -T none -S none\n");
    let root = machine(&[("lib/systemd/system/varnish.service", &unit), (vcl.trim_start_matches('/'), "")]);
    fs::copy(setup.path("default.vcl"), root.path().join(vcl.trim_start_matches('/'))).unwrap();
    let (code, out, err) = import(root.path(), &["varnish", "--write", &folder]);
    assert_eq!(code, Some(0), "{out}{err}");
    assert!(out.contains(&format!("install -D -m 644 {folder}/varnish.service.d/larder.conf ")), "{out}");
    let (code, _, err) = import(root.path(), &["varnish", "--write", &folder]);
    assert!(code == Some(2) && err.contains("nothing is overwritten"), "{err}");
    let drop_in = fs::read_to_string(setup.path("import/varnish.service.d/larder.conf")).unwrap();
    assert!(
        drop_in.contains(&format!("ExecStart=/usr/sbin/larder varnishd -F -j none -a 127.0.0.1:{port} -f {vcl}")),
        "{drop_in}"
    );

    // The configuration, with places that this test may write to.
    let conf = fs::read_to_string(setup.path("import/larder.conf")).unwrap();
    let here = setup.path("x").parent().unwrap().display().to_string();
    let conf = conf
        .replace("/run/larder.pid", &format!("{here}/nginx.pid"))
        .replace("/var/log/larder", &here)
        .replace("/var/cache/larder", &here);
    let conf: String = conf.lines().filter(|line| !line.starts_with("user ")).map(|line| format!("{line}\n")).collect();
    setup.write_raw(&format!("daemon off;\n{conf}"));
    assert_eq!(setup.start_as_written().get("/").status_line, "HTTP/1.1 200 here");
}
