//! The exporter of NGINX Plus for Prometheus, as Debian has it: it reads `larder_status` without knowing that it is larder's.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use larder_testkit::{Client, Folder, PATIENCE, ServerUnderTest, free_port};

use crate::server::{binary, is_nginx, program};

/// Ends when dropped.
struct Exporter(Child);

impl Drop for Exporter {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn the_exporter_of_nginx_plus_reads_larder() {
    if is_nginx() {
        println!("nginx without Plus has no API");
        return;
    }
    let folder = Folder::new().expect("/tmp takes a folder");
    let (port, exporter_port) = (free_port(), free_port());
    let configuration = format!(
        "daemon off; worker_processes 1; pid nginx.pid; error_log error.log info; events {{}}
         http {{
            access_log off;
            proxy_cache_path {folder}/pages keys_zone=pages:1m;
            limit_req_zone $binary_remote_addr zone=slow:1m rate=100r/s;
            upstream app {{ server 127.0.0.1:{port}; server 127.0.0.1:1 backup; }}
            server {{
                listen 127.0.0.1:{port};
                status_zone shop;
                location / {{ status_zone pages; limit_req zone=slow burst=9; proxy_pass http://app/made; proxy_cache pages; }}
                location /made {{ status_zone made; return 200 page; }}
                location /api {{ api; }}
            }}
         }}",
        folder = folder.path().display()
    );
    folder.write("nginx.conf", &configuration).expect("the folder is ours");
    let _server = ServerUnderTest::start(&binary(), folder.path()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(get(port, "/page").as_deref(), Some("page"));
    let arguments = [
        "--nginx.plus".to_owned(),
        format!("--nginx.scrape-uri=http://127.0.0.1:{port}/api"),
        format!("--web.listen-address=127.0.0.1:{exporter_port}"),
    ];
    let exporter = Command::new(program("prometheus-nginx-exporter"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _exporter = Exporter(exporter.unwrap_or_else(|error| panic!("the exporter: {error}")));
    let began = Instant::now();
    let metrics = loop {
        match get(exporter_port, "/metrics") {
            Some(metrics) => break metrics,
            None if began.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(20)),
            None => panic!("the exporter does not answer"),
        }
    };
    for line in [
        "nginxplus_up 1",
        "nginxplus_location_zone_requests{location_zone=\"pages\"} 1",
        "nginxplus_location_zone_responses{code=\"2xx\",location_zone=\"made\"} 1",
        "nginxplus_server_zone_discarded{server_zone=\"shop\"} 0",
        "nginxplus_limit_request_passed{zone=\"slow\"} 1",
        &format!("nginxplus_upstream_server_requests{{server=\"127.0.0.1:{port}\",upstream=\"app\"}} 1"),
        &format!("nginxplus_upstream_server_state{{server=\"127.0.0.1:{port}\",upstream=\"app\"}} 1"),
        "nginxplus_ssl_handshakes 0",
    ] {
        assert!(metrics.lines().any(|told| told == line), "{line} in\n{metrics}");
    }
}

/// The body at a path; `None` while nobody listens.
fn get(port: u16, path: &str) -> Option<String> {
    let mut client = Client::connect(([127, 0, 0, 1], port).into()).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    client.send(request.as_bytes()).ok()?;
    let response = client.read_response("GET").ok()?;
    Some(larder_testkit::text_of(&response.body))
}
