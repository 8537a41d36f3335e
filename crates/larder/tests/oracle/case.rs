//! The text format of a case.
//!
//! ```text
//! What holds, in one sentence.
//! --- config                  text inside http {}; `root` and the temporary folders are given by the frame
//! server { listen {PORT}; location / { proxy_pass http://{ORIGIN}; } }
//! --- main                    more lines for the main context
//! --- vcl                     in the place of config, for varnishd; the frame has what is not there of
//! sub vcl_recv { }            `vcl 4.1;`, `import std;` and the backend `default`, which is {ORIGIN}
//! --- options                 more words for the command line of varnishd
//! --- published               files of the folder that ORACLE_VCLS names, put into {DIR}; the first one is the VCL
//! > main.vcl from=folder/default.vcl
//! .host = "web"; => .host = "127.0.0.1"; .port = "{ORIGIN_PORT}";     what is replaced in it
//! --- files                   under the document root {ROOT}; `/name` is beside nginx.conf, in {DIR}
//! > index.html mode=0644 mtime=1577836800
//! the content
//! > big.bin size=100000       a pattern of this many bytes
//! > film.mp4 film=12,late    a film of 12 seconds, see `frame.rs`
//! > folder/                   an empty folder
//! > link -> index.html        a symbolic link
//! --- origin                  what the HTTP origins {ORIGIN} {ORIGIN2} {ORIGIN3} answer, by path or `*`, in order
//! > /path on=2 when=If-None-Match close
//! HTTP/1.1 200 OK
//! Content-Length: *
//! Date: {DATE-60}             a minute ago; {DATE} is when the case began
//!
//! the body
//! --- fastcgi                 what the FastCGI origins {FCGI} and unix:{FCGI_SOCK} answer, by SCRIPT_NAME or `*`
//! > /index.php stderr=oops split=7 die
//! Content-Type: text/html
//!
//! the body
//! --- requests                one a line, on one connection as long as the server keeps it
//! GET /path
//! @2 POST /path HTTP/1.0 | Host: other | X-A: b || the body
//! @2s GET /                   over TLS, on a connection of its own; {CERT} and {KEY} are a certificate and its key
//! > wait 1100ms               also: hold, release, start, finish, seen, until, reconnect, signal
//! --- connection GET,HEAD     raw bytes on a connection of its own, responses are read until the server closes
//! GET / HTTP/1.1\r\nHost: a   a line ends in CRLF; a `\` at its end prevents that; \r \n \t \0 \\ \xHH are bytes
//!
//! > read                      reads one response before the rest is sent
//! --- compare                 see `Rules`
//! log access.log
//! --- nginx says              or varnishd: the statuses, written by ORACLE_UPDATE=1
//! 200
//! ```

use std::time::Duration;

/// One case, read.
#[derive(Debug, Default)]
pub struct Case {
    /// The sentence on top.
    pub about: String,
    /// Lines of the main context, or words of the command line.
    pub main: String,
    /// Whether it is for varnishd.
    pub is_vcl: bool,
    /// Lines of the http context, or the VCL.
    pub config: String,
    /// Files that were published elsewhere, and what is replaced in them.
    pub published: Vec<Entry>,
    /// Files to make.
    pub files: Vec<Entry>,
    /// HTTP answers.
    pub origin: Vec<Entry>,
    /// FastCGI replies.
    pub fastcgi: Vec<Entry>,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// What is compared.
    pub rules: Rules,
    /// The answers of nginx or varnishd in short.
    pub says: String,
}

/// A line `> name options` and the text below it.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// The first word.
    pub name: String,
    /// The other words.
    pub options: Vec<String>,
    /// The lines below, joined by newlines, without the last one's.
    pub text: String,
}

impl Entry {
    /// The value of the option `name=value`.
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options.iter().find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
    }

    /// Whether the option `name` is there.
    pub fn has(&self, name: &str) -> bool {
        self.options.iter().any(|option| option == name)
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Send a request and read its response.
    Request(Request),
    /// The same, again and again until the response's head contains the text.
    Until(String, Request),
    /// Send a request on a connection of its own and go on.
    Start(Request),
    /// Read the responses of all that were started.
    Finish,
    /// Raw bytes on a connection of their own.
    Connection {
        /// Which port.
        port: usize,
        /// The methods of the requests, in order; GET where there are more responses.
        methods: Vec<String>,
        /// What is sent, and where it pauses.
        parts: Vec<Part>,
    },
    /// Let time pass.
    Wait(Duration),
    /// Origins keep requests of this path waiting.
    Hold(String),
    /// And no longer.
    Release(String),
    /// Wait until the origins have seen this many requests.
    Seen(usize),
    /// The next request goes on a new connection.
    Reconnect,
    /// Send `HUP` or `USR1` to the server.
    Signal(String),
}

/// A request in the short form, made longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// 1 for {PORT}, 2 for {PORT2}.
    pub port: usize,
    /// Whether it is sent over TLS, asking for the server that its Host names.
    pub is_tls: bool,
    /// The method.
    pub method: String,
    /// The line as written, for the reader.
    pub label: String,
    /// The bytes to send.
    pub bytes: Vec<u8>,
}

/// A part of a raw connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes to send.
    Bytes(Vec<u8>),
    /// A response to read.
    Read,
    /// A pause.
    Wait(Duration),
}

/// What is compared beyond, or less than, the usual.
#[derive(Debug, Default)]
pub struct Rules {
    /// Whether it is varnishd that answers.
    pub is_vcl: bool,
    /// `log NAME`: files of the server's folder that must be equal.
    pub logs: Vec<String>,
    /// `ignore field NAME`, in responses.
    pub ignored_fields: Vec<String>,
    /// `ignore origin NAME`: fields or params that origins see.
    pub ignored_at_origin: Vec<String>,
    /// `ignore requests PATH`: what origins are asked for on their own account, such as probes.
    pub ignored_requests: Vec<String>,
    /// `mask START ... END`: what stands between the two, anywhere.
    pub masks: Vec<(String, String)>,
    /// `error-log TEXT`: whether the error log has it.
    pub error_log: Vec<String>,
    /// `measured`: that ours tells the length of a body which theirs sends in chunks does not count.
    pub is_measured: bool,
    /// `unordered origin`: the order in which origins were asked does not count.
    pub is_origin_unordered: bool,
    /// `unordered log`: the order of lines does not count.
    pub is_log_unordered: bool,
}

impl Case {
    /// Whether the text is in the configuration, in the main context's lines or in a file.
    pub fn mentions(&self, text: &str) -> bool {
        let files = self.files.iter().chain(&self.published).map(|file| &file.text);
        [&self.config, &self.main].into_iter().chain(files).any(|part| part.contains(text))
    }

    /// Whether HTTP origins are asked.
    pub fn needs_origins(&self) -> bool {
        self.is_vcl || self.mentions("{ORIGIN")
    }

    /// Reads a case.
    pub fn parse(text: &str) -> Result<Case, String> {
        let mut case = Case::default();
        let mut sections = text.split("\n--- ");
        case.about = sections.next().unwrap_or_default().trim().to_owned();
        for section in sections {
            let (title, body) = section.split_once('\n').unwrap_or((section, ""));
            // The separator took the last line's end with it, which counts where that line is empty.
            let body = &format!("{body}\n");
            let (title, rest) = title.trim().split_once(' ').unwrap_or((title.trim(), ""));
            match title {
                "config" => case.config.clone_from(body),
                "vcl" => (case.config, case.is_vcl) = (body.clone(), true),
                "main" | "options" => case.main.clone_from(body),
                "published" => (case.published, case.is_vcl) = (entries(body)?, true),
                "files" => case.files = entries(body)?,
                "origin" => case.origin = entries(body)?,
                "fastcgi" => case.fastcgi = entries(body)?,
                "requests" => case.steps.extend(requests(body)?),
                "connection" => case.steps.push(connection(rest, body)?),
                "compare" => case.rules = Rules::parse(body)?,
                "nginx" | "varnishd" => case.says = with_newline(body.trim()),
                _ => return Err(format!("no section is called {title:?}")),
            }
        }
        if case.about.is_empty() || (case.config.is_empty() && case.published.is_empty()) {
            return Err("a case needs a sentence on top and a config or a vcl".to_owned());
        }
        case.rules.is_vcl = case.is_vcl;
        Ok(case)
    }
}

/// The text of a case with the answers of `who` in their section.
pub fn with_answers(text: &str, who: &str, says: &str) -> String {
    let title = format!("\n--- {who} says\n");
    let kept = match text.split_once(&title) {
        Some((kept, _)) => kept,
        None => text.strip_suffix('\n').unwrap_or(text),
    };
    format!("{kept}{title}{says}")
}

fn with_newline(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("{text}\n") }
}

fn entries(body: &str) -> Result<Vec<Entry>, String> {
    let mut entries: Vec<(Vec<String>, Vec<&str>)> = Vec::new();
    for line in body.trim_end_matches('\n').lines() {
        match (line.strip_prefix("> "), entries.last_mut()) {
            (Some(head), _) => entries.push((head.split_whitespace().map(str::to_owned).collect(), Vec::new())),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) if line.trim().is_empty() => {}
            (None, None) => return Err(format!("{line:?} stands before the first `> name`")),
        }
    }
    let entries = entries.into_iter().map(|(mut words, lines)| {
        if words.is_empty() {
            return Err("`>` needs a name".to_owned());
        }
        let name = words.remove(0);
        Ok(Entry { name, options: words, text: lines.join("\n") })
    });
    entries.collect()
}

fn requests(body: &str) -> Result<Vec<Step>, String> {
    let lines = body.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| match line.strip_prefix("> ") {
            Some(command) => step(command),
            None => Ok(Step::Request(request(line)?)),
        })
        .collect()
}

fn step(command: &str) -> Result<Step, String> {
    let (verb, rest) = command.split_once(' ').unwrap_or((command, ""));
    Ok(match verb {
        "wait" => Step::Wait(duration(rest)?),
        "hold" => Step::Hold(rest.to_owned()),
        "release" => Step::Release(rest.to_owned()),
        "start" => Step::Start(request(rest)?),
        "finish" => Step::Finish,
        "seen" => Step::Seen(rest.parse().map_err(|_| format!("{rest:?} is no number"))?),
        "until" => {
            let (text, line) = rest.split_once(" : ").ok_or("it is `until TEXT : REQUEST`")?;
            Step::Until(text.to_owned(), request(line)?)
        }
        "reconnect" => Step::Reconnect,
        "signal" => Step::Signal(rest.to_owned()),
        _ => return Err(format!("there is no step {verb:?}")),
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix("ms").ok_or("a wait is told in ms")?;
    Ok(Duration::from_millis(number.parse().map_err(|_| format!("{number:?} is no number"))?))
}

/// `[@PORT] METHOD TARGET [VERSION] [| FIELD]... [|| BODY]`; `| -Host` leaves the Host out.
fn request(line: &str) -> Result<Request, String> {
    let label = line.trim().to_owned();
    let (port, rest) = match label.strip_prefix('@').and_then(|rest| rest.split_once(' ')) {
        Some((port, rest)) => (port, rest.to_owned()),
        None => ("1", label.clone()),
    };
    let (port, is_tls) = port.strip_suffix('s').map_or((port, false), |port| (port, true));
    let port = port.parse().map_err(|_| format!("{port:?} is no port"))?;
    let (head, body) = match rest.split_once(" || ") {
        Some((head, body)) => (head.to_owned(), unescape(body)?),
        None => (rest, Vec::new()),
    };
    let mut parts = head.split(" | ").map(str::trim);
    let mut words = parts.next().unwrap_or_default().split_whitespace();
    let (Some(method), Some(target)) = (words.next(), words.next()) else {
        return Err(format!("{label:?} has no method and target"));
    };
    let version = words.next().unwrap_or("HTTP/1.1");
    let fields: Vec<&str> = parts.collect();
    let has = |name: &str| fields.iter().any(|field| field.to_ascii_lowercase().starts_with(name));
    let mut bytes = unescape(&format!("{method} {target} {version}"))?;
    bytes.extend_from_slice(b"\r\n");
    if !has("host:") && !has("-host") && version == "HTTP/1.1" {
        bytes.extend_from_slice(b"Host: localhost\r\n");
    }
    for field in fields.iter().filter(|field| !field.eq_ignore_ascii_case("-host")) {
        bytes.extend_from_slice(&unescape(field)?);
        bytes.extend_from_slice(b"\r\n");
    }
    if !body.is_empty() && !has("content-length:") && !has("transfer-encoding:") {
        bytes.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(&body);
    Ok(Request { port, is_tls, method: method.to_owned(), label, bytes })
}

fn connection(title: &str, body: &str) -> Result<Step, String> {
    let (port, methods) = match title.strip_prefix('@') {
        Some(rest) => {
            let (port, methods) = rest.split_once(' ').unwrap_or((rest, ""));
            (port.parse().map_err(|_| format!("{port:?} is no port"))?, methods)
        }
        None => (1, title),
    };
    let methods = methods.split(',').filter(|method| !method.is_empty()).map(str::to_owned).collect();
    let mut parts = Vec::new();
    let mut bytes = Vec::new();
    for line in body.lines() {
        if let Some(command) = line.strip_prefix("> ") {
            parts.push(Part::Bytes(std::mem::take(&mut bytes)));
            parts.push(match command.strip_prefix("wait ") {
                Some(time) => Part::Wait(duration(time)?),
                None if command == "read" => Part::Read,
                None => return Err(format!("a connection cannot {command:?}")),
            });
        } else if let Some(line) = line.strip_suffix('\\') {
            bytes.extend_from_slice(&unescape(line)?);
        } else {
            bytes.extend_from_slice(&unescape(line)?);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    parts.push(Part::Bytes(bytes));
    Ok(Step::Connection { port, methods, parts })
}

/// `\r \n \t \0 \\ \xHH`, and `\(xN)` for a run: `\(a100)` is a hundred times `a`.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        let mut characters = escape.chars();
        match characters.next() {
            Some('r') => bytes.push(b'\r'),
            Some('n') => bytes.push(b'\n'),
            Some('t') => bytes.push(b'\t'),
            Some('0') => bytes.push(0),
            Some('\\') => bytes.push(b'\\'),
            Some('x') => {
                let digits: String = characters.by_ref().take(2).collect();
                bytes.push(u8::from_str_radix(&digits, 16).map_err(|_| format!("\\x{digits} is no byte"))?);
            }
            Some('(') => {
                let (run, after) = characters.as_str().split_once(')').ok_or("a run needs its `)`")?;
                let mut run = run.chars();
                let unit = run.next().ok_or("a run needs a character")?;
                let count: usize = run.as_str().parse().map_err(|_| format!("{:?} is no count", run.as_str()))?;
                bytes.extend_from_slice(unit.to_string().repeat(count).as_bytes());
                characters = after.chars();
            }
            other => return Err(format!("there is no escape \\{other:?} in {text:?}")),
        }
        rest = characters.as_str();
    }
    bytes.extend_from_slice(rest.as_bytes());
    Ok(bytes)
}

impl Rules {
    fn parse(body: &str) -> Result<Rules, String> {
        let mut rules = Rules::default();
        for line in body.lines().map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(name) = line.strip_prefix("log ") {
                rules.logs.push(name.to_owned());
            } else if let Some(name) = line.strip_prefix("ignore field ") {
                rules.ignored_fields.push(name.to_ascii_lowercase());
            } else if let Some(name) = line.strip_prefix("ignore origin ") {
                rules.ignored_at_origin.push(name.to_ascii_lowercase());
            } else if let Some(path) = line.strip_prefix("ignore requests ") {
                rules.ignored_requests.push(path.to_owned());
            } else if let Some(mask) = line.strip_prefix("mask ") {
                let (start, end) = mask.split_once(" ... ").ok_or("it is `mask START ... END`")?;
                rules.masks.push((start.to_owned(), end.to_owned()));
            } else if let Some(text) = line.strip_prefix("error-log ") {
                rules.error_log.push(text.to_owned());
            } else if line == "measured" {
                rules.is_measured = true;
            } else if line == "unordered origin" {
                rules.is_origin_unordered = true;
            } else if line == "unordered log" {
                rules.is_log_unordered = true;
            } else {
                return Err(format!("there is no rule {line:?}"));
            }
        }
        Ok(rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_request_is_made_whole() {
        for (line, bytes) in [
            ("GET /", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
            ("GET / HTTP/1.0", "GET / HTTP/1.0\r\n\r\n"),
            ("GET / | -Host", "GET / HTTP/1.1\r\n\r\n"),
            (
                "@2 PUT /a | Host: b | C: d || e\\n",
                "PUT /a HTTP/1.1\r\nHost: b\r\nC: d\r\nContent-Length: 2\r\n\r\ne\n",
            ),
        ] {
            assert_eq!(larder_testkit::text_of(&request(line).unwrap().bytes), bytes, "{line}");
        }
        for (line, port, is_tls) in [("GET /", 1, false), ("@2 GET /", 2, false), ("@2s GET /", 2, true)] {
            let request = request(line).unwrap();
            assert_eq!((request.port, request.is_tls), (port, is_tls), "{line}");
        }
        assert!(request("GET").is_err());
    }

    #[test]
    fn a_connection_is_bytes_and_pauses() {
        let body = "GET / HTTP/1.1\nbare\\n\\\n\n> read\nrest\\";
        let Step::Connection { methods, parts, port: 1 } = connection("HEAD,GET", body).unwrap() else { panic!() };
        assert_eq!(methods, ["HEAD", "GET"]);
        let sent = Part::Bytes(b"GET / HTTP/1.1\r\nbare\n\r\n".to_vec());
        assert_eq!(parts, [sent, Part::Read, Part::Bytes(b"rest".to_vec())]);
    }

    #[test]
    fn sections_are_found_and_unknown_ones_refused() {
        let text = "It holds.\n--- config\nserver {}\n--- files\n> a.txt mode=0600\nx\n\ny\n> b/\n--- requests\nGET /\n\
                    > wait 10ms\n--- compare\nlog a\nmask x ... y\n--- nginx says\n200\n";
        let case = Case::parse(text).unwrap();
        assert_eq!(case.about, "It holds.");
        assert_eq!((case.files[0].option("mode"), case.files[0].text.as_str()), (Some("0600"), "x\n\ny"));
        assert_eq!(case.steps.len(), 2);
        assert_eq!(case.says, "200\n");
        assert_eq!(with_answers(text, "nginx", "404\n"), text.replace("200", "404"));
        assert!(Case::parse("x\n--- config\n;\n--- nonsense\n").is_err());
        assert!(unescape("\\q").is_err());
        assert_eq!(unescape("\\x41\\(b3)\\\\").unwrap(), b"Abbb\\");
    }
}
