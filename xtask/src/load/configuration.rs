//! The configurations of the servers under measurement: what they have in common, and what they answer from.

use super::certificate::Certificate;
use super::generator::tls::Group;
use super::kind::{Kind, Programs};
use super::origin::Page;
use super::php;
use super::scenario::Front;
use super::shop::{self, Extra};
use super::{LoadError, cannot};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the servers answer from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source<'a> {
    /// Their caches; the origin makes each page once.
    Cache,
    /// The origin, every time, over kept connections.
    Origin,
    /// A php-fpm, every time.
    Php {
        /// Whether connections to it are kept.
        keeps: bool,
    },
    /// A php-fpm with few children, in larder behind a gate, and their caches.
    Gate,
    /// Files of these sizes.
    Files(&'a [usize]),
}

/// What all servers of a measurement have in common.
pub struct Setup<'a> {
    /// Where the programs are.
    pub programs: Programs,
    /// What they answer from.
    pub source: Source<'a>,
    /// Where the servers run.
    pub server_cpu: usize,
    /// Connections they have to bear at a time.
    pub connections: usize,
    /// Where the origin listens.
    pub origin_port: u16,
    /// How visitors reach them.
    pub front: Front,
    /// Whether they compress.
    pub compresses: bool,
    /// The VCL that is run, with its marks, if not Varnish's own.
    pub vcl: Option<&'a str>,
    /// Further settings of the location, in nginx's words.
    pub location: &'a str,
    /// What they prove to be, where there is TLS.
    pub certificate: &'a Certificate,
    /// What is offered in the handshakes.
    pub group: Group,
    /// Whether the generator's clients resume.
    pub resumes: bool,
}

impl Setup<'_> {
    /// Whether `kind` can take part: Varnish has no TLS, and neither asks PHP nor reads files.
    pub fn suits(&self, kind: Kind) -> bool {
        let varnish_can = match self.source {
            Source::Cache | Source::Origin => !self.front.is_tls(),
            Source::Php { .. } | Source::Gate | Source::Files(_) => false,
        };
        match kind.vcl_extra() {
            None => true,
            Some(_) if kind == Kind::Varnish => varnish_can,
            Some(_) => self.vcl.is_some(),
        }
    }
}

/// What a configuration has to name.
pub struct Site<'a> {
    /// For configuration, logs and caches.
    pub folder: &'a Path,
    /// Where the server listens.
    pub port: u16,
    /// Where its php-fpm listens, if it has one.
    pub php_port: u16,
    /// Where its Redis listens, if it has one.
    pub redis_port: u16,
    /// What all servers have in common.
    pub setup: &'a Setup<'a>,
}

/// The folder of the site's files below `folder`, made here.
pub fn root(folder: &Path) -> Result<PathBuf, LoadError> {
    let root = folder.join("www");
    fs::create_dir_all(root.join("page")).map_err(cannot("make a folder for files"))?;
    Ok(root)
}

/// Writes the pages of these sizes as files.
pub fn write_pages(root: &Path, sizes: &[usize]) -> Result<(), LoadError> {
    for page in sizes.iter().map(|bytes| Page::Plain(*bytes)) {
        let path = page.path();
        fs::write(root.join(path.trim_start_matches('/')), page.body()).map_err(cannot("write a file"))?;
    }
    Ok(())
}

/// The same configuration, but that its server and its locations have a `status_zone`.
fn with_zones(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        out.push_str(line);
        out.push('\n');
        let line = line.trim();
        if line.starts_with("server_name ") || line.starts_with("location ") && line.ends_with('{') {
            out.push_str("        status_zone load;\n");
        }
    }
    out
}

impl Site<'_> {
    /// Writes the configuration of `kind` and adds to `command` what makes the server use it in the foreground.
    pub fn configure(&self, kind: Kind, command: &mut Command) -> Result<(), LoadError> {
        let (name, text) = match kind {
            Kind::Larder if self.setup.source == Source::Gate => {
                ("nginx.conf", self.nginx_conf(&self.stock(), &gated())?)
            }
            Kind::Nginx | Kind::Larder | Kind::LarderOld => ("nginx.conf", self.nginx_conf(&self.stock(), "")?),
            Kind::NginxTuned | Kind::LarderTuned | Kind::LarderOldTuned => {
                ("nginx.conf", self.nginx_conf(TUNED, TUNED_UPSTREAM)?)
            }
            Kind::LarderCluster => {
                let settings = format!("{TUNED}\n    larder_cluster redis://127.0.0.1:{} name=load;", self.redis_port);
                ("nginx.conf", self.nginx_conf(&settings, TUNED_UPSTREAM)?)
            }
            Kind::LarderZones => ("nginx.conf", with_zones(&self.nginx_conf(TUNED, TUNED_UPSTREAM)?)),
            _ => ("default.vcl", self.vcl(kind.vcl_extra().unwrap_or(Extra::Nothing))),
        };
        let file = self.folder.join(name);
        fs::write(&file, text).map_err(cannot("write a configuration"))?;
        if kind.vcl_extra().is_some() {
            if kind != Kind::Varnish {
                command.arg("varnishd");
            }
            command.arg("-n").arg(self.folder.join("work")).arg("-F").arg("-f").arg(&file);
            command.args(["-s", "malloc,256m", "-a", &format!("127.0.0.1:{}", self.port)]);
            if self.setup.front.is_h2() {
                command.args(["-p", "feature=+http2"]);
            }
            command.args(match kind {
                Kind::LarderVclLog => &["-l", "80M"][..],
                // The lurker would work through them.
                Kind::LarderVclBans => &["-T", "127.0.0.1:0", "-S", "none", "-p", "ban_lurker_age=100000"],
                _ => &[],
            });
        } else {
            add_nginx_arguments(command, self.folder, &file);
        }
        Ok(())
    }

    fn nginx_conf(&self, settings: &str, upstream: &str) -> Result<String, LoadError> {
        let Site { folder, port, setup, .. } = self;
        let connections = setup.connections;
        let parameters = setup.front.listen_parameters();
        let gzip = if setup.compresses { "gzip on;\n    gzip_vary on;" } else { "" };
        let tls = if setup.front.is_tls() { self.tls()? } else { String::new() };
        let folder = folder.display();
        // Connections to origins count too.
        let all = match setup.source {
            Source::Cache | Source::Files(_) => connections,
            Source::Origin | Source::Php { .. } | Source::Gate => connections * 2,
        };
        // nginx closes idle connections once fewer than a sixteenth are left to it.
        let worker_connections = all + all / 8 + 200;
        let (http, location) = self.source(upstream);
        Ok(format!(
            "worker_processes 1;
worker_rlimit_nofile {files};
pid {folder}/server.pid;
error_log {folder}/error.log;
events {{
    worker_connections {worker_connections};
}}
http {{
    client_body_temp_path {folder}/client_body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    default_type text/html;
    sendfile on;
    tcp_nopush on;
    keepalive_timeout 65;
    {settings}
    {gzip}
    {http}
    server {{
        listen 127.0.0.1:{port}{parameters};
        server_name localhost;
        {tls}
        {location}
    }}
}}
",
            files = worker_connections * 2 + 200,
        ))
    }

    /// What `http` and `server` have for what is answered from.
    fn source(&self, upstream: &str) -> (String, String) {
        let Site { folder, php_port, setup, .. } = self;
        let (folder, Setup { origin_port, connections, location, .. }) = (folder.display(), setup);
        match setup.source {
            Source::Cache => (
                format!(
                    "proxy_cache_path {folder}/cache levels=1:2 keys_zone=pages:10m max_size=1g inactive=60m use_temp_path=off;"
                ),
                format!(
                    "location / {{
            proxy_pass http://127.0.0.1:{origin_port};
            proxy_cache pages;
            proxy_cache_valid 200 60m;
            {location}
        }}"
                ),
            ),
            Source::Origin => (
                format!(
                    "upstream origin {{
        server 127.0.0.1:{origin_port};
        keepalive {connections};
        {upstream}
    }}"
                ),
                "location / {
            proxy_pass http://origin;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
        }"
                .into(),
            ),
            Source::Php { keeps } => {
                let http = format!(
                    "upstream php {{
        server 127.0.0.1:{php_port};
        keepalive {};
        {upstream}
    }}",
                    php::CHILDREN
                );
                let (http, pass) = if keeps {
                    (http, "fastcgi_pass php;\n            fastcgi_keep_conn on;".to_string())
                } else {
                    (String::new(), format!("fastcgi_pass 127.0.0.1:{php_port};"))
                };
                let location = format!(
                    "root {folder}/www;
        location ~ \\.php$ {{
            include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
            {pass}
        }}"
                );
                (http, location)
            }
            Source::Gate => {
                let socket = php::socket(self.folder);
                let php = "include /etc/nginx/fastcgi_params;
            fastcgi_param SCRIPT_FILENAME $document_root/slow.php;
            fastcgi_pass php;";
                (
                    format!(
                        "upstream php {{
        server unix:{};
        {upstream}
    }}
    fastcgi_cache_path {folder}/cache levels=1:2 keys_zone=pages:10m inactive=60m;",
                        socket.display()
                    ),
                    format!(
                        "root {folder}/www;
        location /cached/ {{
            {php}
            fastcgi_cache pages;
            fastcgi_cache_key $request_uri;
            fastcgi_cache_valid 200 60m;
        }}
        location / {{
            {php}
        }}"
                    ),
                )
            }
            Source::Files(_) => (String::new(), format!("root {folder}/www;")),
        }
    }

    /// As nginx's manual has it: the session cache in shared memory, and tickets, which are on unless told otherwise.
    fn tls(&self) -> Result<String, LoadError> {
        let (chain, key) = self.setup.certificate.write(self.folder)?;
        Ok(format!(
            "ssl_certificate {};
        ssl_certificate_key {};
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache shared:SSL:10m;
        ssl_session_timeout 10m;",
            chain.display(),
            key.display()
        ))
    }

    fn stock(&self) -> String {
        format!("access_log {}/access.log;", self.folder.display())
    }

    fn vcl(&self, extra: Extra) -> String {
        let port = self.setup.origin_port;
        if let Some(template) = self.setup.vcl {
            return shop::vcl(template, port, extra);
        }
        let mut subroutines = String::new();
        if self.setup.compresses {
            subroutines.push_str("sub vcl_backend_response { set beresp.do_gzip = true; }\n");
        }
        if self.setup.source == Source::Origin {
            subroutines.push_str("sub vcl_recv { return (pass); }\n");
        }
        format!("vcl 4.1;\nbackend default {{ .host = \"127.0.0.1\"; .port = \"{port}\"; }}\n{subroutines}")
    }
}

/// What makes nginx, and larder in its place, run `file` in the foreground with its logs in `folder`.
pub fn add_nginx_arguments(command: &mut Command, folder: &Path, file: &Path) {
    command.arg("-p").arg(folder).arg("-c").arg(file);
    command.arg("-e").arg(folder.join("error.log")).args(["-g", "daemon off;"]);
}

/// The gate of larder.
fn gated() -> String {
    format!("larder_gate {} queue=2000 timeout=10s;", php::FEW_CHILDREN)
}

const TUNED: &str = "access_log off;
    keepalive_requests 1000000;
    open_file_cache max=10000 inactive=60m;
    open_file_cache_valid 60m;";

/// The same for connections to origins.
const TUNED_UPSTREAM: &str = "keepalive_requests 1000000;";

#[cfg(test)]
mod tests {
    use super::with_zones;

    #[test]
    fn server_and_locations_get_a_zone() {
        let text = "server {\n    listen 1;\n    server_name a;\n    location / {\n        return 200;\n    }\n}\n";
        let zone = "        status_zone load;\n";
        let expected = format!(
            "server {{\n    listen 1;\n    server_name a;\n{zone}    location / {{\n{zone}        return 200;\n    }}\n}}\n"
        );
        assert_eq!(with_zones(text), expected);
    }
}
