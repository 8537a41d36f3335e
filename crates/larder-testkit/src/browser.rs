//! A real browser: headless Chromium with a profile of its own, driven through chromedriver.

use crate::json::Json;
use crate::{Client, Folder, PATIENCE, text_of};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The member that holds the name of an element, by the WebDriver standard.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A running browser. Dropping it ends it and its driver.
pub struct Browser {
    _driver: Driver,
    address: SocketAddr,
    session: String,
    _profile: Folder,
}

impl Browser {
    /// Starts one with an empty profile, for which every `.test` name is this machine.
    pub fn start() -> Browser {
        let profile = Folder::new().expect("/tmp takes a folder");
        let (driver, address) = Driver::start(&profile);
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-sync",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-features=HttpsUpgrades,HttpsFirstBalancedMode",
            "--host-resolver-rules=MAP *.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--window-size=1280,1700",
            &format!("--user-data-dir={}", profile.path().display()),
        ]
        .map(Json::quote)
        .join(",");
        let wanted = format!(
            "{{\"capabilities\":{{\"alwaysMatch\":{{\"browserName\":\"chrome\",\"acceptInsecureCerts\":true,\"goog:loggingPrefs\":{{\"browser\":\"ALL\"}},\
             \"goog:chromeOptions\":{{\"binary\":\"/usr/bin/chromium\",\"args\":[{arguments}]}}}}}}}}"
        );
        let mut browser = Browser { _driver: driver, address, session: String::new(), _profile: profile };
        let answer = browser.command("POST", "/session", &wanted).unwrap_or_else(|error| panic!("no browser: {error}"));
        let session = answer.get("sessionId").and_then(Json::text).expect("a new session has a name");
        browser.session = session.to_string();
        browser
    }

    /// Opens a page and waits until it has loaded.
    pub fn open(&self, url: &str) {
        self.must("POST", "/url", &format!("{{\"url\":{}}}", Json::quote(url)));
    }

    /// Types into the field that `selector` finds.
    pub fn fill(&self, selector: &str, text: &str) {
        let element = self.find(selector).unwrap_or_else(|| panic!("no {selector} on {}", self.url()));
        self.must("POST", &format!("/element/{element}/value"), &format!("{{\"text\":{}}}", Json::quote(text)));
    }

    /// Clicks on what `selector` finds.
    pub fn click(&self, selector: &str) {
        let element = self.find(selector).unwrap_or_else(|| panic!("no {selector} on {}", self.url()));
        self.must("POST", &format!("/element/{element}/click"), "{}");
    }

    /// Whether the page has what `selector` finds.
    pub fn has(&self, selector: &str) -> bool {
        self.find(selector).is_some()
    }

    /// Waits until the page, or the one after it, has what `selector` finds.
    pub fn wait_for(&self, selector: &str) {
        let started = Instant::now();
        while !self.has(selector) {
            assert!(started.elapsed() < PATIENCE, "no {selector} on {}: {}", self.url(), self.words());
            sleep(Duration::from_millis(50));
        }
    }

    /// What a script says, which has to be a text.
    pub fn says(&self, script: &str) -> String {
        let body = format!("{{\"script\":{},\"args\":[]}}", Json::quote(&format!("return String({script})")));
        self.must("POST", "/execute/sync", &body).text().unwrap_or_default().to_string()
    }

    /// Presses a key, as a keyboard does: whatever has the focus by then gets it. Of WebDriver's code points, such as `\u{e004}` for
    /// Tab.
    pub fn press(&self, key: &str) {
        let key = Json::quote(key);
        let down_and_up = format!("{{\"type\":\"keyDown\",\"value\":{key}}},{{\"type\":\"keyUp\",\"value\":{key}}}");
        let actions = format!("{{\"actions\":[{{\"type\":\"key\",\"id\":\"keys\",\"actions\":[{down_and_up}]}}]}}");
        self.must("POST", "/actions", &actions);
    }

    /// What the page has written to the console since the last time, errors of the browser among it.
    pub fn console(&self) -> Vec<String> {
        let Json::List(lines) = self.must("POST", "/se/log", "{\"type\":\"browser\"}") else { return Vec::new() };
        lines.iter().filter_map(|line| Some(line.get("message")?.text()?.to_owned())).collect()
    }

    /// Makes the window so wide and high, pixels.
    pub fn resize(&self, width: u32, height: u32) {
        self.must("POST", "/window/rect", &format!("{{\"width\":{width},\"height\":{height}}}"));
    }

    /// A picture of what the window shows: a PNG, in base64.
    pub fn picture(&self) -> String {
        self.must("GET", "/screenshot", "").text().unwrap_or_default().to_string()
    }

    /// The document as it stands.
    pub fn source(&self) -> String {
        self.must("GET", "/source", "").text().unwrap_or_default().to_string()
    }

    /// The words that the browser shows, for messages.
    pub fn words(&self) -> String {
        let body = self.find("body").unwrap_or_default();
        let words = self.session_command("GET", &format!("/element/{body}/text"), "");
        words.ok().and_then(|words| words.text().map(ToOwned::to_owned)).unwrap_or_default()
    }

    /// Where the browser is.
    pub fn url(&self) -> String {
        self.must("GET", "/url", "").text().unwrap_or_default().to_string()
    }

    fn find(&self, selector: &str) -> Option<String> {
        let body = format!("{{\"using\":\"css selector\",\"value\":{}}}", Json::quote(selector));
        let found = self.session_command("POST", "/element", &body).ok()?;
        Some(found.get(ELEMENT)?.text()?.to_string())
    }

    fn must(&self, method: &str, path: &str, body: &str) -> Json {
        self.session_command(method, path, body)
            .unwrap_or_else(|error| panic!("the browser refused {method} {path}: {error}"))
    }

    fn session_command(&self, method: &str, path: &str, body: &str) -> Result<Json, String> {
        self.command(method, &format!("/session/{}{path}", self.session), body)
    }

    /// One command of the protocol: its `value`, or what the driver says against it.
    fn command(&self, method: &str, path: &str, body: &str) -> Result<Json, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let mut client = Client::connect(self.address).map_err(|error| text(&error))?;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        );
        client.send(request.as_bytes()).map_err(|error| text(&error))?;
        let response = client.read_response(method).map_err(|error| text(&error))?;
        let body = text_of(&response.body);
        let value = Json::parse(&body).and_then(|json| json.get("value").cloned());
        match (response.status, value) {
            (200, Some(value)) => Ok(value),
            _ => Err(body),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The driver would leave the browser running.
        if !self.session.is_empty() {
            let _ = self.session_command("DELETE", "", "");
        }
    }
}

/// A running chromedriver. Dropping it ends it.
struct Driver {
    child: Child,
}

impl Driver {
    /// Starts one on a port that it chooses, and says which.
    fn start(folder: &Folder) -> (Driver, SocketAddr) {
        const SAYS: &str = "ChromeDriver was started successfully on port ";
        let log = folder.join("driver.log");
        let child = Command::new("/usr/bin/chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(File::create(&log).expect("the folder is ours"))
            .stderr(Stdio::null())
            .spawn()
            .expect("chromedriver is installed");
        let driver = Driver { child };
        let started = Instant::now();
        loop {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let line = said.lines().find_map(|line| line.strip_prefix(SAYS)?.strip_suffix('.'));
            if let Some(port) = line.and_then(|port| port.parse::<u16>().ok()) {
                return (driver, ([127, 0, 0, 1], port).into());
            }
            assert!(started.elapsed() < PATIENCE, "chromedriver does not start: {said}");
            sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_secs(5) && matches!(self.child.try_wait(), Ok(None)) {
            sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
