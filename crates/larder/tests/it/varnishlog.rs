//! `larder varnishlog` and `larder varnishncsa`, before a server of the test that tells a log.
//!
//! The texts in `varnishlog/` are those of varnishd, varnishlog and varnishncsa 7.1: `raw.txt` is what a varnishd told, by
//! `varnishlog -d -g raw`, of a handful of requests with includes, a restart, a retry, a pipe and what is no request. The
//! others are what its programs made of that. The tests tell it again, as frames.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};

use larder_testkit::{Folder, PATIENCE, text_of};
use larder_vsl::{Asked, Frame, GREETING, Kind, Tag, Transaction, Writer};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::site::{binary, eventually};

const RAW: &str = include_str!("varnishlog/raw.txt");

/// The transactions of `raw.txt`, in the order in which they ended.
fn recorded() -> Vec<Transaction> {
    let mut begun: HashMap<u64, Writer> = HashMap::new();
    let mut ended = Vec::new();
    for line in RAW.split_terminator('\n') {
        let (vxid, rest) = line.split_at(10);
        let (tag, rest) = rest[1..].split_at(14);
        let (vxid, tag) = (vxid.trim().parse().unwrap(), Tag::of_name(tag.trim()).unwrap());
        let text = &rest[" c ".len()..];
        let writer = begun.entry(vxid).or_insert_with(|| {
            let kind = match text.split(' ').next().unwrap() {
                "sess" => Kind::Session,
                "req" => Kind::Request,
                "bereq" => Kind::BeReq,
                other => panic!("{other}"),
            };
            Writer::new(kind, vxid)
        });
        // Printed in quotes.
        let text = if matches!(tag, Tag::Hash | Tag::HttpGarbage) {
            text.trim_matches('"').replace("%00", "\0")
        } else {
            text.to_owned()
        };
        writer.record(tag, usize::MAX, |out| out.extend_from_slice(text.as_bytes()));
        if tag == Tag::End {
            ended.push(begun.remove(&vxid).unwrap().finish());
        }
    }
    assert!(begun.is_empty() && ended.len() > 30);
    ended
}

fn transaction(kind: Kind, vxid: u64, records: &[(Tag, &str)]) -> Transaction {
    let mut writer = Writer::new(kind, vxid);
    for (tag, text) in records {
        writer.record(*tag, usize::MAX, |out| out.extend_from_slice(text.as_bytes()));
    }
    writer.finish()
}

fn request(vxid: u64, url: &str) -> Transaction {
    let begun = (Tag::Begin, "req 1 rxreq");
    transaction(Kind::Request, vxid, &[begun, (Tag::ReqUrl, url), (Tag::Timestamp, "Start: 1.5 0 0"), (Tag::End, "")])
}

fn frames(transactions: &[Transaction]) -> Vec<u8> {
    let mut out = Vec::new();
    for transaction in transactions {
        Frame::append_transaction(transaction, &mut out);
    }
    out
}

/// A server that tells a log.
struct Server {
    listener: UnixListener,
    folder: Folder,
}

impl Server {
    fn start() -> Server {
        let folder = Folder::new().unwrap();
        Server { listener: UnixListener::bind(folder.join("_.log")).unwrap(), folder }
    }

    /// A reader that runs.
    fn reader(&self, program: &str, options: &[&str]) -> Reader {
        Reader::start(program, &[&["-n", self.folder.path().to_str().unwrap()], options].concat())
    }

    /// The connection of a reader, who is greeted, and what it asks for.
    fn accept(&self) -> (UnixStream, Option<Asked>) {
        self.listener.set_nonblocking(true).unwrap();
        let mut accepted = None;
        eventually("a reader that connects", || {
            accepted = self.listener.accept().ok();
            accepted.is_some()
        });
        let (mut stream, _) = accepted.unwrap();
        stream.set_nonblocking(false).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        stream.write_all(GREETING).unwrap();
        (stream, Asked::of_byte(byte[0]))
    }

    /// What a reader with `-d` writes of these bytes.
    fn told(&self, program: &str, options: &[&str], bytes: &[u8]) -> Output {
        let mut whole = bytes.to_vec();
        Frame::append_end(&mut whole);
        self.cut(program, options, &whole)
    }

    /// The same of a log that may break off.
    fn cut(&self, program: &str, options: &[&str], bytes: &[u8]) -> Output {
        let reader = self.reader(program, &[&["-d"], options].concat());
        let (mut stream, asked) = self.accept();
        assert_eq!(asked, Some(Asked::Kept));
        stream.write_all(bytes).unwrap();
        drop(stream);
        reader.wait()
    }
}

/// Whether a reader has gone: it may have left the greeting unread.
fn has_gone(stream: &mut UnixStream) -> bool {
    match stream.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

/// A `larder varnishlog` or `varnishncsa`.
struct Reader(Child);

impl Reader {
    fn start(program: &str, options: &[&str]) -> Reader {
        let mut command = Command::new(binary());
        command.arg(program).args(options).env("TZ", "UTC");
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        Reader(child.expect("larder can be run"))
    }

    fn lines(&mut self) -> BufReader<ChildStdout> {
        BufReader::new(self.0.stdout.take().unwrap())
    }

    fn errors(&mut self) -> BufReader<ChildStderr> {
        BufReader::new(self.0.stderr.take().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().try_into().unwrap()), signal).unwrap();
    }

    /// What it has written when it ends by itself.
    fn wait(mut self) -> Output {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        if let Some(mut pipe) = self.0.stdout.take() {
            pipe.read_to_end(&mut stdout).unwrap();
        }
        if let Some(mut pipe) = self.0.stderr.take() {
            pipe.read_to_end(&mut stderr).unwrap();
        }
        Output { status: self.0.wait().unwrap(), stdout, stderr }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn line(from: &mut impl BufRead) -> String {
    let mut line = String::new();
    from.read_line(&mut line).unwrap();
    line
}

/// What a program writes that ends by itself.
fn run(program: &str, options: &[&str], stdin: &[u8]) -> Output {
    let mut command = Command::new(binary());
    command.arg(program).args(options).env("TZ", "UTC");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("larder can be run");
    // Who refuses its options does not read.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}

#[track_caller]
fn is_text(output: &Output, expected: &str, what: &str) {
    assert!(output.status.success(), "{what}: {}", text_of(&output.stderr));
    let found = text_of(&output.stdout);
    let differs = found.lines().zip(expected.lines()).enumerate().find(|(_, (found, expected))| found != expected);
    assert_eq!(differs, None, "{what}");
    assert_eq!(found.len(), expected.len(), "{what}");
    assert_eq!(text_of(&output.stderr), "", "{what}");
}

/// All that has a name in a format.
const FIELDS: &str = "%h|%l|%u|%t|%r|%s|%b|%{Referer}i|%{X-Gone}i|%{cookie}i|%{X-Tail}o|%D|%T|%{ms}T|%{us}T|%{sec}t|\
    %{msec}t|%{usec}t|%{msec_frac}t|%{usec_frac}t|%{%Y-%m-%dT%H:%M:%S}t|%H|%I|%O|%m|%q|%U|%{VCL_Log:note}x|\
    %{VCL_Log:empty}x|%{VCL_Log:no}x|%{VSL:ReqAcct[5]}x|%{VSL:Timestamp:Start[1]}x|%{VSL:VCL_call}x|%{VSL:SessOpen}x|\
    %{Varnish:time_firstbyte}x|%{Varnish:hitmiss}x|%{Varnish:handling}x|%{Varnish:side}x|%{Varnish:vxid}x\\t\\\"";

#[test]
fn texts_are_those_of_varnish() {
    let server = Server::start();
    let bytes = frames(&recorded());
    for (program, options, expected) in [
        ("varnishlog", &["-g", "request"][..], include_str!("varnishlog/request.txt")),
        ("varnishlog", &["-g", "session"], include_str!("varnishlog/session.txt")),
        ("varnishlog", &["-c"], include_str!("varnishlog/vxid-client.txt")),
        ("varnishncsa", &[], include_str!("varnishlog/ncsa.txt")),
        ("varnishncsa", &["-g", "request"], include_str!("varnishlog/ncsa-request.txt")),
        ("varnishncsa", &["-F", FIELDS], include_str!("varnishlog/ncsa-fields.txt")),
        ("varnishncsa", &["-b", "-F", FIELDS], include_str!("varnishlog/ncsa-fields-backend.txt")),
        ("varnishncsa", &["-j", "-b", "-c", "-E", "-F", FIELDS], include_str!("varnishlog/ncsa-fields-json.txt")),
    ] {
        // Since 7.1, Varnish tells the miss of a hit-for-miss from others; so does larder.
        let expected = expected.replace("|miss|miss|c|32788", "|miss|hitmiss|c|32788");
        is_text(&server.told(program, options, &bytes), &expected, &format!("{program} {options:?}"));
    }
    // Ours come whole, so that only the order of the transactions differs.
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let raw = server.told("varnishlog", &["-g", "raw"], &bytes);
    assert_eq!(sorted(&text_of(&raw.stdout)), sorted(RAW));
}

#[test]
fn queries_choose_what_varnish_chooses() {
    let server = Server::start();
    let bytes = frames(&recorded());
    // The numbers of the groups that varnishlog 7.1 shows: grouped by request, and by vxid.
    let (page, fetches) = ("32775", "32771 6 32776");
    for (query, by_request, by_vxid) in [
        ("ReqURL eq \"/a\"", "2", "2"),
        ("RespStatus >= 400", "32773 9 32791", "32773 9 32791"),
        ("BerespStatus == 500", "9", "10 65537"),
        ("vxid == 2", "2", "2"),
        ("ReqURL ~ \"^/(esi|in)\" and {2+}Timestamp:Start[1] > 1.5", page, ""),
        ("{3}ReqURL", page, ""),
        ("ReqAcct[5] == 63", page, page),
        ("ReqHeader:Cookie[1] eq q", "2", "2"),
        ("Timestamp:Resp[2] > 0.001 and Begin[3] eq rxreq", "2 32770 5 7 32775 9 32788", "2 32770 32775 9 32788"),
        ("ReqURL !~ a and not VCL_call ~ MISS", "32772 32773 12", "32772 32773 12"),
        ("ReqURL ~ '/A'", "", ""),
        ("BereqURL ~ \"^/(hit|restart|esi)\" # three\nvxid == 1", "32770 5 7 32775", &format!("1 {fetches}")),
    ] {
        for (grouping, expected) in [("request", by_request), ("vxid", by_vxid)] {
            let output = server.told("varnishlog", &["-g", grouping, "-q", query], &bytes);
            let heads = |line: &str| line.strip_prefix("*   << ").map(|rest| rest[12..].trim().to_owned());
            let mut found: Vec<_> = text_of(&output.stdout).lines().filter_map(heads).collect();
            let mut expected: Vec<_> = expected.split_whitespace().collect();
            found.sort();
            expected.sort();
            assert_eq!(found, expected, "{query} by {grouping}: {}", text_of(&output.stderr));
        }
    }
    let file = server.folder.write("query", "# errors\nRespStatus == 404\n\nRespStatus == 500\n").unwrap();
    let file = file.display().to_string();
    let both = ["-Q", &file, "-q", "ReqURL ~ '/A'", "-C", "-F", "%s %U"];
    let output = server.told("varnishncsa", &both, &bytes);
    assert_eq!(text_of(&output.stdout), "200 /a\n404 /synth\n500 /err\n", "{}", text_of(&output.stderr));
}

#[test]
fn a_reader_sees_lines_at_once_and_ends_when_it_has_enough() {
    let server = Server::start();
    let mut reader = server.reader("varnishncsa", &["-k", "3", "-F", "%U"]);
    let (mut stream, asked) = server.accept();
    assert_eq!(asked, Some(Asked::Coming));
    let mut lines = reader.lines();
    let bytes = frames(&[request(2, "/a"), request(3, "/b")]);
    // The second one comes in two pieces.
    let (first, second) = bytes.split_at(frames(&[request(2, "/a")]).len() + 7);
    stream.write_all(first).unwrap();
    assert_eq!(line(&mut lines), "/a\n");
    stream.write_all(second).unwrap();
    assert_eq!(line(&mut lines), "/b\n");
    stream.write_all(&frames(&[request(4, "/c"), request(5, "/d")])).unwrap();
    assert_eq!(line(&mut lines), "/c\n");
    assert!(reader.wait().status.success());
    assert_eq!(line(&mut lines), "");
}

#[test]
fn what_is_written_can_be_read_again() {
    let server = Server::start();
    let bytes = frames(&recorded());
    let path = |name: &str| server.folder.join(name).display().to_string();
    let (frames_file, text_file) = (path("frames"), path("text"));
    for (options, again, expected) in [
        (&["-g", "request"][..], &["-g", "request"][..], include_str!("varnishlog/request.txt")),
        (&["-g", "session"], &["-g", "session"], include_str!("varnishlog/session.txt")),
        // Records alone become transactions again.
        (&["-g", "raw"], &["-c"], include_str!("varnishlog/vxid-client.txt")),
    ] {
        let output = server.told("varnishlog", &[options, &["-w", &frames_file]].concat(), &bytes);
        is_text(&output, "", "what is written to a file");
        let read = run("varnishlog", &[&["-r", &frames_file], again].concat(), b"");
        is_text(&read, expected, &format!("written with {options:?}"));
    }
    let written = fs::read(&frames_file).unwrap();
    is_text(&run("varnishncsa", &["-r", "-"], &written), include_str!("varnishlog/ncsa.txt"), "from standard input");
    // To standard output, with a filter: what ties transactions together stays.
    let output = server.told("varnishlog", &["-g", "request", "-w", "-", "-i", "ReqURL"], &bytes);
    let read = run("varnishlog", &["-r", "-", "-g", "request", "-q", "vxid == 2"], &output.stdout);
    let expected = "*   << Request  >> 2         \n-   Begin          req 1 rxreq\n-   ReqURL         /a\n\
                    -   Link           bereq 3 pass\n-   End            \n**  << BeReq    >> 3         \n\
                    --  Begin          bereq 2 pass\n--  End            \n\n";
    is_text(&read, expected, "filtered");
    for (append, times) in [("-u", 1), ("-a", 2)] {
        server.told("varnishlog", &["-A", "-g", "session", append, "-w", &text_file], &bytes);
        let expected = include_str!("varnishlog/session.txt").repeat(times);
        assert!(fs::read_to_string(&text_file).unwrap() == expected, "{append}");
    }
    let size = fs::metadata(&frames_file).unwrap().len();
    server.told("varnishlog", &["-a", "-g", "raw", "-w", &frames_file], &bytes);
    assert_eq!(fs::metadata(&frames_file).unwrap().len(), 2 * size - GREETING.len() as u64);
}

#[test]
fn what_is_no_log_or_breaks_off_is_told() {
    let server = Server::start();
    let whole = [GREETING, &frames(&[request(2, "/a"), request(3, "/b")])[..]].concat();
    let cut = &whole[..whole.len() - 3];
    let shown = "/a\n";
    for (bytes, stdout, stderr) in [
        (&b""[..], "", "the log breaks off: what was in front of that is shown"),
        (b"VSL2....", "", "this is no log of a larder of this version"),
        (cut, shown, "the log breaks off: what was in front of that is shown"),
        (&[&whole[..8], &[255; 8]].concat(), "", "a frame of the log has 4294967295 bytes"),
        (&[&whole[..8], &[1, 0, 0, 0, b'?']].concat(), "", "a frame of the log is of the unknown kind 63"),
    ] {
        let output = run("varnishncsa", &["-F", "%U", "-r", "-"], bytes);
        assert_eq!((text_of(&output.stdout).as_str(), output.status.code()), (stdout, Some(1)));
        assert_eq!(text_of(&output.stderr), format!("larder varnishncsa: {stderr}\n"));
    }
    let missing = server.folder.join("missing").display().to_string();
    for (options, expected) in [
        (&["-r", &missing][..], "missing cannot be read (2: No such file or directory)"),
        (&["-w", &format!("{missing}/a"), "-r", "-"], "missing/a cannot be written (2: No such file or directory)"),
        (&["-Q", &missing], "missing: it cannot be read (2: No such file or directory)"),
        (&["-n", &missing, "-t", "0"], "no server tells its log at "),
        (&["-i", "Bogus"], "-i: no tag is called \"Bogus\""),
        (&["-I", "ReqURL:("], "-I: the regular expression \"(\" cannot be used: missing closing parenthesis"),
        (&["-q", "ReqURL ~ ("], "(position 10)\nReqURL ~ (\n---------^\n"),
        (&["-z"], "larder: varnishlog has no option \"-z\"\nlarder: \"larder varnishlog -h\" shows"),
        (&["-D"], "-D needs -w FILE"),
    ] {
        let output = run("varnishlog", options, b"");
        let said = text_of(&output.stderr);
        assert!(said.contains(expected) && output.status.code() == Some(1), "{options:?}: {said}");
    }
    let output = run("varnishncsa", &["-F", "%{Bogus}x"], b"");
    assert!(text_of(&output.stderr).starts_with("larder varnishncsa: -F: %{Bogus}x has no meaning"));
    let help = run("varnishlog", &["-h"], b"");
    assert!(help.status.success() && text_of(&help.stdout).starts_with("Usage: larder varnishlog"));
    assert!(text_of(&run("varnishncsa", &["-V"], b"").stderr).starts_with("varnishncsa (in the form of varnish-7.1"));
}

#[test]
fn a_server_is_waited_for_and_found_again() {
    let folder = Folder::new().unwrap();
    // The socket itself, as a server with an nginx.conf has one.
    let socket = folder.join("larder-log");
    let mut reader = Reader::start("varnishncsa", &["-n", socket.to_str().unwrap(), "-t", "off", "-F", "%U"]);
    let (mut lines, mut errors) = (reader.lines(), reader.errors());
    let listener = UnixListener::bind(&socket).unwrap();
    let server = Server { listener, folder };
    let (mut stream, _) = server.accept();
    stream.write_all(&frames(&[request(2, "/a")])).unwrap();
    assert_eq!(line(&mut lines), "/a\n");
    let mut lost = Vec::new();
    Frame::append_lost(1, &mut lost);
    Frame::append_lost(7, &mut lost);
    stream.write_all(&lost).unwrap();
    let because = "as this reader is too slow";
    assert_eq!(line(&mut errors), format!("larder varnishncsa: 1 transaction was lost, {because}\n"));
    assert_eq!(line(&mut errors), format!("larder varnishncsa: 7 transactions were lost, {because}\n"));
    // It ends inside of a frame, as one that is killed.
    stream.write_all(&frames(&[request(3, "/b")])[..9]).unwrap();
    drop(stream);
    assert!(line(&mut errors).starts_with("larder varnishncsa: Log abandoned"));
    let (mut stream, asked) = server.accept();
    assert_eq!(asked, Some(Asked::Coming));
    assert_eq!(line(&mut errors), "larder varnishncsa: Log reacquired\n");
    stream.write_all(&frames(&[request(2, "/c")])).unwrap();
    assert_eq!(line(&mut lines), "/c\n");
    reader.signal(Signal::SIGINT);
    assert!(reader.wait().status.success());
}

#[test]
fn what_is_not_complete_is_forced_out() {
    let server = Server::start();
    let waits = transaction(Kind::Request, 2, &[(Tag::Begin, "req 1 rxreq"), (Tag::Link, "bereq 3 fetch")]);
    let forced = |why: &str| {
        format!(
            "*   << Request  >> 2         \n-   Begin          req 1 rxreq\n-   Link           bereq 3 fetch\n\
             **  << BeReq    >> 3         \n--  Begin          bereq 0 synth\n--  VSL            {why}\n\
             --  End            synth\n\n"
        )
    };
    let output = server.told("varnishlog", &["-g", "request"], &frames(std::slice::from_ref(&waits)));
    is_text(&output, &forced("flush"), "the end");
    for (what, options, order) in [
        ("timeout", &["-T", "0.01"][..], None),
        ("store overflow", &["-L", "1"], None),
        ("flush", &[], Some(Signal::SIGUSR1)),
    ] {
        let mut reader = server.reader("varnishlog", &[&["-g", "request"], options].concat());
        let (mut stream, _) = server.accept();
        let mut lines = reader.lines();
        // What it shows at once says that it has read what came in front.
        stream.write_all(&frames(&[waits.clone(), request(9, "/now")])).unwrap();
        let mut found = String::new();
        let now = "*   << Request  >> 9         \n";
        while !found.contains("/now") {
            found += &line(&mut lines);
        }
        if let Some(signal) = order {
            reader.signal(signal);
        }
        while !found.contains(&forced(what)) {
            let next = line(&mut lines);
            assert!(!next.is_empty(), "{what}: {found}");
            found += &next;
        }
        assert!(found.contains(now), "{what}");
        reader.signal(Signal::SIGTERM);
        assert!(reader.wait().status.success(), "{what}");
    }
}

#[test]
fn a_file_is_opened_again_and_a_closed_pipe_ends_it() {
    let server = Server::start();
    let (file, old) = (server.folder.join("log"), server.folder.join("log.1"));
    let has = |path: &Path, text: &str| {
        eventually(text, || fs::read_to_string(path).is_ok_and(|found| found == text));
    };
    let reader = server.reader("varnishncsa", &["-F", "%U", "-w", file.to_str().unwrap()]);
    let (mut stream, _) = server.accept();
    stream.write_all(&frames(&[request(2, "/a")])).unwrap();
    has(&file, "/a\n");
    fs::rename(&file, &old).unwrap();
    reader.signal(Signal::SIGHUP);
    eventually("the new file", || file.exists());
    stream.write_all(&frames(&[request(3, "/b")])).unwrap();
    has(&file, "/b\n");
    has(&old, "/a\n");
    reader.signal(Signal::SIGTERM);
    assert!(reader.wait().status.success());
    // A terminal that is closed ends it.
    let reader = server.reader("varnishncsa", &[]);
    let (_stream, _) = server.accept();
    reader.signal(Signal::SIGHUP);
    assert!(reader.wait().status.success());
    // So does who reads it, even if nothing comes.
    let mut reader = server.reader("varnishncsa", &[]);
    let (mut stream, _) = server.accept();
    drop(reader.lines());
    let output = reader.wait();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text_of(&output.stderr));
    assert!(has_gone(&mut stream));
}

#[test]
fn a_daemon_writes_a_file_until_it_is_told_to_end() {
    let server = Server::start();
    let path = |name: &str| server.folder.join(name).display().to_string();
    let (file, pid_file) = (path("log"), PathBuf::from(path("pid")));
    let options = ["-D", "-F", "%U", "-w", &file, "-P", pid_file.to_str().unwrap()];
    let front = server.reader("varnishncsa", &options);
    let (mut stream, _) = server.accept();
    // The one that was called ends as soon as the daemon reads, and keeps no pipe open.
    let output = front.wait();
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text_of(&output.stderr));
    let pid: i32 = fs::read_to_string(&pid_file).unwrap().trim().parse().unwrap();
    let written = frames(&[request(2, "/a")]);
    stream.write_all(&written).unwrap();
    eventually("its line", || fs::read_to_string(&file).is_ok_and(|found| found == "/a\n"));
    // A second one with its pid file would tell each request twice.
    let second = server.reader("varnishncsa", &options);
    let output = second.wait();
    let said = text_of(&output.stderr);
    assert!(!output.status.success() && said.contains("another process runs with this pid file"), "{said}");
    assert_eq!(fs::read_to_string(&pid_file).unwrap().trim().parse(), Ok(pid));
    assert_eq!(fs::read_to_string(&file).unwrap(), "/a\n");
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    eventually("its end", || !pid_file.exists());
    assert!(has_gone(&mut stream));
    let options = ["-D", "-n", &path("nowhere"), "-t", "0", "-w", &file];
    let output = run("varnishlog", &options, b"");
    assert!(!output.status.success() && text_of(&output.stderr).contains("no server tells its log"));
}

#[test]
fn an_expression_that_takes_too_much_work_matches_nothing_and_is_reported_once() {
    let bad = transaction(
        Kind::Request,
        2,
        &[(Tag::Begin, "req 1 rxreq"), (Tag::ReqUrl, &("a".repeat(60) + "!")), (Tag::End, "")],
    );
    let bytes = [GREETING, &frames(&[bad.clone(), bad.clone(), request(3, "/b")])[..]].concat();
    for (query, expected) in [("ReqURL ~ '^(a+)+$'", ""), ("ReqURL !~ '^(a+)+$'", "3")] {
        let output = run("varnishlog", &["-r", "-", "-q", query, "-i", "End"], &bytes);
        let found = text_of(&output.stdout);
        let numbers = found.lines().filter_map(|line| line.strip_prefix("*   << Request  >> ")).map(str::trim);
        assert_eq!(numbers.collect::<Vec<_>>(), expected.split_whitespace().collect::<Vec<_>>(), "{query}");
        let said = text_of(&output.stderr);
        assert!(said.contains("counted as no match") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn what_is_kept_is_whole_or_an_error_and_obeys_no_client() {
    let server = Server::start();
    let url = "/\n*   << Request  >> 666\x1b[2J\u{9b}2J\tx";
    let told = transaction(Kind::Request, 7, &[(Tag::Begin, "req 6 rxreq"), (Tag::ReqUrl, url), (Tag::End, "")]);
    let bytes = frames(&[told]);
    let whole = server.told("varnishlog", &["-i", "ReqURL"], &bytes);
    assert_eq!(
        text_of(&whole.stdout),
        "*   << Request  >> 7         \n\
         -   ReqURL         /\\n*   << Request  >> 666\\x1b[2J\u{c2}\\x9b2J\tx\n\n"
            .replace('\u{c2}', &text_of(b"\xc2")),
    );
    let cut = server.cut("varnishlog", &["-i", "ReqURL"], &bytes);
    assert!(!cut.status.success() && text_of(&cut.stderr).contains("the log breaks off"), "{}", text_of(&cut.stderr));
}
