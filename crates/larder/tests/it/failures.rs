//! What goes on being served when something else breaks.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use larder_testkit::{Answer, Client, Folder, Framing, Origin, PhpFpm, Signal, is_running, signal_to};

use crate::site::{Ends, Setup, Site, cached, eventually, get, get_on, php, text};

const STATIC: &str = "server { listen 127.0.0.1:{PORT}; return 200 here; }";

#[test]
fn a_killed_serving_process_is_replaced() {
    let site = Site::start(STATIC);
    let process = site.serving_process();
    signal_to(process, Signal::Kill).unwrap();
    site.wait_for_log(&format!("worker process {process} exited on signal 9"));
    assert_eq!(text(&site.get("/")), "here");
    assert_ne!(site.serving_process(), process);
}

#[test]
fn a_connection_made_while_nobody_serves_is_answered_later() {
    let site = Site::start(STATIC);
    // A supervisor that stands still starts nothing: this is the moment between death and restart, held open.
    site.signal(Signal::Stop);
    let process = site.serving_process();
    signal_to(process, Signal::Kill).unwrap();
    eventually("the serving process to end", || !is_running(process));
    let mut clients: Vec<Client> = (0..20).map(|_| site.client()).collect();
    for client in &mut clients {
        client.send(get("/").as_bytes()).unwrap();
    }
    site.signal(Signal::Continue);
    for client in &mut clients {
        assert_eq!(client.read_response("GET").unwrap().body, b"here");
    }
}

#[test]
fn a_serving_process_that_dies_again_and_again_is_started_again_and_again() {
    let site = Site::start(STATIC);
    for _ in 0..3 {
        let mut process = 0;
        eventually("a serving process", || match site.server().children()[..] {
            [child] => {
                process = child;
                true
            }
            _ => false,
        });
        signal_to(process, Signal::Kill).unwrap();
        site.wait_for_log(&format!("worker process {process} exited on signal 9"));
    }
    assert_eq!(text(&site.get("/")), "here");
}

#[test]
fn the_serving_process_outlives_its_supervisor() {
    let mut site = Site::start(STATIC);
    let mut client = site.client();
    get_on(&mut client, "/");
    let process = site.serving_process();
    let _ends = Ends(process);
    site.signal(Signal::Kill);
    site.server_mut().wait();
    site.wait_for_log("the supervisor is gone");
    assert_eq!(text(&get_on(&mut client, "/")), "here");
    assert_eq!(text(&site.get("/")), "here");
    signal_to(process, Signal::Term).unwrap();
    eventually("the serving process to end", || !is_running(process));
}

/// PHP, cached under `/cached/` for a second and a half at most, and not under anything else.
const PHP_SITE: &str = "
    fastcgi_cache_path {DIR}/pages keys_zone=pages:1m;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        location ~ \\.php$ {
            fastcgi_pass {PHP};
            {PARAMS}
            {MORE}
            fastcgi_cache pages;
            fastcgi_cache_key $request_uri;
            fastcgi_cache_valid 200 1s;
            fastcgi_cache_use_stale error timeout;
            fastcgi_cache_bypass $arg_uncached;
            fastcgi_no_cache $arg_uncached;
        }
    }";

fn php_site(setup: Setup, php: &PhpFpm, more: &str) -> Site {
    setup.name("PHP", format!("unix:{}", php.socket().display())).name("MORE", more).start(PHP_SITE)
}

#[test]
fn without_php_there_is_the_stale_page_or_else_a_502() {
    let setup = Setup::new().file("www/p.php", "<?php echo 'page';");
    let php = php(&setup, 2);
    let site = php_site(setup, &php, "");
    assert_eq!(cached(&site.get("/p.php")), "MISS");
    php.kill();
    let stale = site.get_until("/p.php", "the page to expire", |response| cached(response) != "HIT");
    assert_eq!((stale.status, cached(&stale), text(&stale)), (200, "STALE", "page".to_owned()));
    let without = site.get("/p.php?uncached=1");
    assert_eq!(without.status, 502);
    site.wait_for_log("connect() to unix:");
}

#[test]
fn a_kept_connection_does_not_pin_the_child_that_another_request_waits_for() {
    let slow = "<?php touch($_SERVER['DOCUMENT_ROOT'] . '/running');
        for ($i = 0; $i < 3000 && !file_exists($_SERVER['DOCUMENT_ROOT'] . '/go'); $i++) { usleep(10000); clearstatcache(); }
        echo 'slow';";
    let setup = Setup::new().file("www/p.php", "<?php echo 'page';").file("www/slow.php", slow);
    let php = php(&setup, 1);
    let www = setup.path("www");
    let site = setup.name("PHP", format!("unix:{}", php.socket().display())).name("WWW", www.display()).start(
        "upstream php { server {PHP}; keepalive 4; keepalive_timeout 10m; }
         server {
            listen 127.0.0.1:{PORT};
            fastcgi_param DOCUMENT_ROOT {WWW};
            {PARAMS}
            location / { fastcgi_pass php; fastcgi_keep_conn on; }
         }",
    );
    // The one child is busy, so the second request comes on a connection of its own, which waits in php-fpm's queue.
    let mut first = site.client();
    first.send(get("/slow.php").as_bytes()).unwrap();
    eventually("the slow script to run", || www.join("running").exists());
    let mut second = site.client();
    second.send(get("/p.php").as_bytes()).unwrap();
    std::fs::write(www.join("go"), "").unwrap();
    assert_eq!(text(&first.read_response("GET").unwrap()), "slow");
    // The first connection is kept now, and the child with it, until larder sees that somebody waits.
    assert_eq!(text(&second.read_response("GET").unwrap()), "page");
}

#[test]
fn a_php_that_has_no_child_left_costs_those_who_need_it_and_nobody_else() {
    let slow = "<?php touch($_SERVER['DOCUMENT_ROOT'] . '/running');
        for ($i = 0; $i < 3000 && !file_exists($_SERVER['DOCUMENT_ROOT'] . '/go'); $i++) { usleep(10000); clearstatcache(); }
        echo 'slow';";
    let setup = Setup::new().file("www/p.php", "<?php echo 'page';").file("www/slow.php", slow);
    let php = php(&setup, 1);
    let www = setup.path("www");
    // Only /slow.php may take longer than a moment.
    let site = setup.name("PHP", format!("unix:{}", php.socket().display())).name("WWW", www.display()).start(
        "fastcgi_cache_path {DIR}/pages keys_zone=pages:1m;
         server {
            listen 127.0.0.1:{PORT};
            add_header X-Cache $upstream_cache_status;
            fastcgi_param DOCUMENT_ROOT {WWW};
            {PARAMS}
            location /slow.php { fastcgi_pass {PHP}; }
            location /p.php {
                fastcgi_pass {PHP};
                fastcgi_read_timeout 300ms;
                fastcgi_cache pages;
                fastcgi_cache_key $request_uri;
                fastcgi_cache_valid 200 1s;
                fastcgi_cache_use_stale error timeout;
            }
            location /here { return 200 here; }
         }",
    );
    assert_eq!(text(&site.get("/p.php")), "page");
    let mut holding = site.client();
    holding.send(get("/slow.php").as_bytes()).unwrap();
    eventually("the slow script to run", || www.join("running").exists());

    let stale = site.get_until("/p.php", "the page to expire", |response| cached(response) != "HIT");
    assert_eq!((stale.status, cached(&stale), text(&stale)), (200, "STALE", "page".to_owned()));
    let mut waiting: Vec<Client> = (0..10).map(|_| site.client()).collect();
    for (number, client) in waiting.iter_mut().enumerate() {
        client.send(get(&format!("/p.php?{number}")).as_bytes()).unwrap();
    }
    assert_eq!(text(&site.get("/here")), "here");
    for client in &mut waiting {
        assert_eq!(client.read_response("GET").unwrap().status, 504);
    }
    fs::write(www.join("go"), "").unwrap();
    assert_eq!(holding.read_response("GET").unwrap().body, b"slow");
    let after = site.get_until("/p.php?after", "php to be well", |response| response.status == 200);
    assert_eq!(text(&after), "page");
}

/// A file system with little room, on a folder of its own; unmounted when dropped.
pub struct TinyDisk {
    pub folder: Folder,
}

impl TinyDisk {
    /// Mounts one of a size such as `64k`, where the test may.
    pub fn mount(size: &str) -> Option<TinyDisk> {
        let folder = Folder::new().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size},mode=1777"), "tmpfs"])
            .arg(folder.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(TinyDisk { folder })
    }

    /// Takes all the room there is.
    pub fn fill(&self) {
        let mut file = fs::File::create(self.folder.join("ballast")).unwrap();
        while file.write_all(&[0; 1024]).is_ok() {}
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(self.folder.path()).output());
    }
}

#[test]
fn a_full_disk_costs_log_lines_and_speed_but_no_answer() {
    let origin = Origin::start().unwrap();
    let large: Vec<u8> = (0..20 << 20).map(|at: u32| (at >> 12) as u8).collect();
    origin.answer("/page", Answer::ok("page"));
    origin.answer("/large", Answer::ok(large.clone()));
    let setup = Setup::new().name("ORIGIN", origin.address());
    let disk = TinyDisk::mount("64k");
    let setup = match &disk {
        Some(disk) => {
            setup.name("TEMP", disk.folder.path().display()).name("LOG", disk.folder.join("access.log").display())
        }
        // Not root: no disk of our own, but a log that is always full, and a folder that takes no files.
        None => {
            let closed = setup.path("closed");
            fs::create_dir(&closed).unwrap();
            fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
            setup.name("TEMP", closed.display()).name("LOG", "/dev/full")
        }
    };
    setup.write_raw(
        "daemon off; worker_processes 2; pid nginx.pid; error_log error.log info; events {}
         http {
            access_log {LOG};
            client_body_temp_path {DIR}/temp-body; fastcgi_temp_path {DIR}/temp-fastcgi;
            proxy_temp_path {TEMP};
            proxy_cache_path {DIR}/pages keys_zone=pages:1m;
            server {
                listen 127.0.0.1:{PORT};
                add_header X-Cache $upstream_cache_status;
                location / { proxy_pass http://{ORIGIN}; }
                location /page { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 200 1h; proxy_cache_lock on; }
            }
         }",
    );
    let site = setup.start_as_written();
    site.get("/page");
    site.get_until("/page", "the page", |response| cached(response) == "HIT");
    if let Some(disk) = &disk {
        disk.fill();
    }

    let mut slow = site.client();
    slow.send(get("/large").as_bytes()).unwrap();
    let mut response = slow.read_head().unwrap();
    for _ in 0..50 {
        let page = site.get("/page");
        assert_eq!((page.status, cached(&page), text(&page)), (200, "HIT", "page".to_owned()));
    }
    slow.read_body(&mut response).unwrap();
    assert_eq!((response.framing, response.body.len()), (Framing::Length, large.len()));
    assert!(response.body == large, "every byte is in its place");
    if disk.is_some() {
        site.wait_for_log("No space left on device");
    }
    assert_eq!(text(&site.get("/page")), "page");
}

#[test]
fn a_bad_configuration_changes_nothing() {
    let origin = Origin::start().unwrap();
    origin.answer("/p", Answer::ok("page"));
    let good = "
        proxy_cache_path {DIR}/pages keys_zone=pages:1m;
        server {
            listen 127.0.0.1:{PORT};
            add_header X-Cache $upstream_cache_status;
            add_header X-Label {LABEL};
            location / { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 200 1h; proxy_cache_lock on; }
        }";
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(&good.replace("{LABEL}", "first"));
    site.get("/p");
    site.get_until("/p", "the page", |response| cached(response) == "HIT");
    let mut client = site.client();
    get_on(&mut client, "/p");

    for (broken, reason) in [
        ("server { listen 127.0.0.1:{PORT};\nlisen 80; }", "unknown directive \"lisen\" in {DIR}/nginx.conf:"),
        ("server {", "unexpected end of file, expecting \"}\" in {DIR}/nginx.conf:"),
        (
            "server { listen 127.0.0.1:{PORT}; proxy_cache none; }",
            "\"proxy_cache\" zone \"none\" is unknown in {DIR}/nginx.conf:",
        ),
        ("server { listen 127.0.0.1:{PORT}; location ~ ( {} }", "in {DIR}/nginx.conf:"),
    ] {
        let refused = site.count_in_log("the old one goes on");
        site.setup().configure(broken);
        site.signal(Signal::Hup);
        eventually("the refusal", || site.count_in_log("the old one goes on") > refused);
        assert!(site.count_in_log(&site.setup().fill(reason)) > 0, "{reason}\n{}", site.server().error_log());
        let page = get_on(&mut client, "/p");
        assert_eq!((cached(&page), page.field("X-Label")), ("HIT", Some("first")), "{broken}");
    }
    site.change_to(&good.replace("{LABEL}", "second"));
    let page = get_on(&mut client, "/p");
    assert_eq!((cached(&page), page.field("X-Label")), ("HIT", Some("second")));
    assert_eq!(origin.count(), 1);
}
