//! A larder with a configuration of its own, and what a scenario asks of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use larder_testkit::{
    Client, Folder, HandConnection, HandOrigin, PATIENCE, PhpFpm, PhpFpmOptions, Response, ServerUnderTest, Signal,
    free_port, is_running, signal_to,
};

/// What a PHP location has to pass on.
pub const PHP_PARAMS: &str = "
    fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;
    fastcgi_param SCRIPT_NAME $fastcgi_script_name;
    fastcgi_param QUERY_STRING $query_string;
    fastcgi_param REQUEST_METHOD $request_method;
    fastcgi_param CONTENT_TYPE $content_type;
    fastcgi_param CONTENT_LENGTH $content_length;
    fastcgi_param REQUEST_URI $request_uri;
    fastcgi_param SERVER_PROTOCOL $server_protocol;
";

/// The larder that was built with this test, unless `LARDER_TEST_BINARY` names another server: nginx, to compare.
pub fn binary() -> PathBuf {
    std::env::var_os("LARDER_TEST_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_larder").into()).into()
}

/// A folder for a configuration, its placeholders, and then a running larder.
pub struct Setup {
    folder: Folder,
    ports: [u16; 2],
    names: Vec<(String, String)>,
    main: String,
    root: &'static str,
}

/// A running larder. It goes before its folder.
pub struct Site {
    server: ServerUnderTest,
    setup: Setup,
}

impl Setup {
    /// An empty folder and two free ports.
    pub fn new() -> Setup {
        let folder = Folder::new().expect("a temporary folder");
        let names =
            vec![("DIR".to_owned(), folder.path().display().to_string()), ("PARAMS".to_owned(), PHP_PARAMS.to_owned())];
        let mut setup = Setup {
            folder,
            ports: [free_port(), free_port()],
            names,
            main: "daemon off; worker_processes 2;".to_owned(),
            root: "root {DIR}/www;",
        };
        let [port, other] = setup.ports;
        setup.names.push(("PORT".to_owned(), port.to_string()));
        setup.names.push(("PORT2".to_owned(), other.to_string()));
        setup
    }

    /// `{NAME}` in configurations stands for `value`.
    pub fn name(mut self, name: &str, value: impl ToString) -> Setup {
        self.names.push((name.to_owned(), value.to_string()));
        self
    }

    /// Main-level directives in place of `daemon off; worker_processes 2;`.
    pub fn main(mut self, main: &str) -> Setup {
        self.main = main.to_owned();
        self
    }

    /// No folder for files outside the servers, so that a VCL with a backend has no files behind it.
    pub fn without_root(mut self) -> Setup {
        self.root = "";
        self
    }

    /// One worker thread, for who counts the requests of an origin to the last one.
    ///
    /// What is not right today: with several, a lookup at the very moment in which a page becomes whole may be sent
    /// out for that page once more.
    pub fn one_worker(self) -> Setup {
        self.main("daemon off; worker_processes 1;")
    }

    /// Writes a file of the site.
    pub fn file(self, name: &str, content: impl AsRef<[u8]>) -> Setup {
        self.folder.write(name, content).expect("the folder takes files");
        self
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes `nginx.conf` around this `http` content.
    pub fn configure(&self, http: &str) {
        let access_log = if http.contains("access_log") { "" } else { "access_log off;" };
        let text = format!(
            "{main}\npid nginx.pid;\nerror_log error.log info;\nevents {{}}\nhttp {{\n{access_log}\n\
             client_body_temp_path {{DIR}}/temp-body; proxy_temp_path {{DIR}}/temp-proxy;\n\
             fastcgi_temp_path {{DIR}}/temp-fastcgi;\n{root}\n{http}\n}}\n",
            main = self.main,
            root = self.root,
        );
        self.write_raw(&text);
    }

    /// Writes `nginx.conf` as it is, but for placeholders.
    pub fn write_raw(&self, text: &str) {
        self.folder.write("nginx.conf", self.fill(text)).expect("the folder takes files");
    }

    /// Text with its placeholders replaced.
    pub fn fill(&self, text: &str) -> String {
        self.names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    /// Writes the configuration and starts larder.
    pub fn start(self, http: &str) -> Site {
        self.configure(http);
        self.start_as_written()
    }

    /// Starts larder with the `nginx.conf` that is there.
    pub fn start_as_written(self) -> Site {
        let server = ServerUnderTest::start(&binary(), self.folder.path()).unwrap_or_else(|error| panic!("{error}"));
        Site { server, setup: self }
    }

    /// Runs larder with this folder's `-p`, `-c` and `-e`, and `arguments`, to its end.
    pub fn larder(&self, arguments: &[&str]) -> Output {
        let prefix = format!("{}/", self.folder.path().display());
        let own = ["-p", &prefix, "-c", "nginx.conf", "-e", "error.log"];
        run(own.iter().chain(arguments))
    }

    /// Runs a command of larder with this folder's `-p` and `-c`, to its end.
    pub fn larder_words(&self, words: &[&str]) -> Output {
        let prefix = format!("{}/", self.folder.path().display());
        run(words.iter().chain(&["-p", &prefix, "-c", "nginx.conf"]))
    }

    /// Where the site listens.
    pub fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports[0]).into()
    }

    /// `{PORT2}` on this machine.
    pub fn other_address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.ports[1]).into()
    }
}

/// Runs larder with these arguments to its end.
pub fn run<'a>(arguments: impl IntoIterator<Item = &'a &'a str>) -> Output {
    Command::new(binary())
        .args(arguments.into_iter().copied())
        .stdin(Stdio::null())
        .output()
        .expect("larder can be run")
}

impl Site {
    /// A site with this `http` content.
    pub fn start(http: &str) -> Site {
        Setup::new().start(http)
    }

    /// The process that was started.
    pub fn server(&self) -> &ServerUnderTest {
        &self.server
    }

    /// The same, to wait for its end.
    pub fn server_mut(&mut self) -> &mut ServerUnderTest {
        &mut self.server
    }

    /// The folder and the placeholders.
    pub fn setup(&self) -> &Setup {
        &self.setup
    }

    /// The process that serves.
    pub fn serving_process(&self) -> u32 {
        match self.server.children()[..] {
            [process] => process,
            ref other => panic!("one serving process, not {other:?}"),
        }
    }

    /// A new connection.
    pub fn client(&self) -> Client {
        Client::connect(self.setup.address()).expect("larder listens")
    }

    /// Sends bytes on a connection of their own, and reads one response to `method`.
    pub fn exchange(&self, method: &str, bytes: impl AsRef<[u8]>) -> Response {
        let mut client = self.client();
        client.send(bytes.as_ref()).expect("larder takes requests");
        client.read_response(method).unwrap_or_else(|error| panic!("{error}; error log:\n{}", self.server.error_log()))
    }

    /// GET on a connection of its own.
    pub fn get(&self, target: &str) -> Response {
        self.ask("GET", target, "")
    }

    /// A request with more fields, each ended by `\r\n`.
    pub fn ask(&self, method: &str, target: &str, fields: &str) -> Response {
        self.exchange(
            method,
            format!("{method} {target} HTTP/1.1\r\nHost: site.test\r\n{fields}Connection: close\r\n\r\n"),
        )
    }

    /// Gets until the response is as wanted.
    pub fn get_until(&self, target: &str, what: &str, mut is_wanted: impl FnMut(&Response) -> bool) -> Response {
        let mut last = None;
        eventually(what, || {
            let response = self.get(target);
            let done = is_wanted(&response);
            last = Some(response);
            done
        });
        last.expect("it was asked for")
    }

    /// Waits until the error log has `text`.
    pub fn wait_for_log(&self, text: &str) {
        let server = &self.server;
        eventually_or(
            || server.error_log().contains(text),
            || format!("{text:?} in the error log:\n{}", server.error_log()),
        );
    }

    /// Waits until a file of the folder holds `text`.
    pub fn wait_for_text(&self, name: &str, text: &str) {
        let server = &self.server;
        eventually_or(|| server.text(name).contains(text), || format!("{text:?} in {name}:\n{}", server.text(name)));
    }

    /// Sends a signal to the process that was started.
    pub fn signal(&self, signal: Signal) {
        self.server.signal(signal).expect("larder runs");
    }

    /// Reloads, and waits until the new configuration holds.
    pub fn reload(&self) {
        let before = self.count_in_log(RELOADED);
        self.signal(Signal::Hup);
        let server = &self.server;
        eventually_or(|| self.count_in_log(RELOADED) > before, || format!("a reload:\n{}", server.error_log()));
    }

    /// Ends it by QUIT, and starts it again in the same folder.
    pub fn restart(self) -> Site {
        self.stop().start_as_written()
    }

    /// Ends it by QUIT, and leaves its folder.
    pub fn stop(self) -> Setup {
        self.server.stop();
        self.setup
    }

    /// Kills all its processes at once, and starts it again in the same folder.
    pub fn crash(mut self) -> Site {
        let serving = self.serving_process();
        // The supervisor first, which would start another.
        for process in [self.server.pid(), serving] {
            signal_to(process, Signal::Kill).expect("it runs");
        }
        self.server.wait();
        eventually("the serving process to end", || !is_running(serving));
        self.setup.start_as_written()
    }

    /// How often `text` is in the error log.
    pub fn count_in_log(&self, text: &str) -> usize {
        self.server.error_log().matches(text).count()
    }

    /// Writes this `http` content and reloads.
    pub fn change_to(&self, http: &str) {
        self.setup.configure(http);
        self.reload();
    }
}

/// What the supervisor says when a reload is done.
const RELOADED: &str = "the new configuration holds";

/// GET on a connection that stays open.
pub fn get_on(client: &mut Client, target: &str) -> Response {
    client.send(get(target).as_bytes()).expect("the connection is open");
    client.read_response("GET").unwrap_or_else(|error| panic!("{target}: {error}"))
}

/// A client that has asked for `target`, and the fetch of it, which the origin has still to answer.
pub fn asked(site: &Site, origin: &mut HandOrigin, target: &str) -> (Client, HandConnection) {
    let mut client = site.client();
    client.send(get(target).as_bytes()).expect("the connection is open");
    let mut fetch = origin.accept().expect("larder asks the origin");
    fetch.request().expect("it asks in HTTP").expect("it asks");
    (client, fetch)
}

/// The bytes of a GET that leaves the connection open.
pub fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: site.test\r\n\r\n")
}

/// The body of a response as text.
pub fn text(response: &Response) -> String {
    larder_testkit::text_of(&response.body)
}

/// `X-Cache` of a response, which the scenarios' configurations set to `$upstream_cache_status`.
pub fn cached(response: &Response) -> &str {
    response.field("X-Cache").unwrap_or("-")
}

/// Waits until a claim holds.
pub fn eventually(what: &str, is_so: impl FnMut() -> bool) {
    eventually_or(is_so, || what.to_owned());
}

fn eventually_or(mut is_so: impl FnMut() -> bool, what: impl Fn() -> String) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain for {}", what());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A php-fpm for scripts in the folder `www` of a setup.
pub fn php(setup: &Setup, children: usize) -> PhpFpm {
    let mut options = PhpFpmOptions::new(setup.path("www"));
    options.children = children;
    options.pool_lines = "php_admin_value[memory_limit] = 256M\nphp_admin_value[post_max_size] = 64M\n".to_owned();
    PhpFpm::start(&options).expect("php-fpm is installed by `scripts/setup test`")
}

/// Ends a process when a test is over, however it ends.
pub struct Ends(pub u32);

impl Drop for Ends {
    fn drop(&mut self) {
        if is_running(self.0) {
            drop(signal_to(self.0, Signal::Kill));
        }
    }
}
