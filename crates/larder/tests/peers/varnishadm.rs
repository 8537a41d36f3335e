//! varnishadm, as Varnish has it, with larder and with varnishd: each command leads to the same status, and what is JSON
//! to the same shape.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use larder_testkit::{Folder, PATIENCE, Signal, end_of, signal_to};
use serde_json::Value;

use crate::server::{binary, is_nginx, program, run};

const VCL: &str = "vcl 4.1;
backend plain { .host = \"127.0.0.1\"; .port = \"1\"; }
backend probed { .host = \"127.0.0.1\"; .port = \"1\"; .probe = { .interval = 1h; } }
sub vcl_recv { set req.backend_hint = plain; if (req.url == \"/\") { set req.backend_hint = probed; } }
";

/// In this order; `SITE` is the path of a VCL.
const COMMANDS: [&str; 74] = [
    "ping",
    "ping -j",
    "status",
    "status -j",
    "banner",
    "pid",
    "pid -j",
    "help",
    "help -a",
    "help -d",
    "help -j",
    "help ban",
    "help nonsense",
    "nonsense",
    "vcl.load one SITE",
    "vcl.load one SITE",
    "vcl.load two SITE cold",
    "vcl.load three SITE tepid",
    "vcl.load three /nowhere.vcl",
    "vcl.label shop one",
    "vcl.label one two",
    "vcl.label shop two",
    "vcl.list",
    "vcl.list -j",
    "vcl.list -x",
    "vcl.deps",
    "vcl.deps -j",
    "vcl.symtab",
    "vcl.show one",
    "vcl.show -v one",
    "vcl.show four",
    "vcl.use two",
    "vcl.use one",
    "vcl.use -j",
    "vcl.use",
    "vcl.use one two",
    "vcl.state one cold",
    "vcl.state two auto",
    "vcl.discard one",
    "vcl.discard two",
    "vcl.discard four",
    "backend.list",
    "backend.list -j",
    "backend.list -j -p",
    "backend.list one.p*",
    "backend.list -x",
    "backend.set_health plain sick",
    "backend.set_health plain ill",
    "backend.set_health none sick",
    "storage.list",
    "storage.list -j",
    "ban req.url == /x",
    "ban req.url == /x && obj.http.x ~ y",
    "ban req.url",
    "ban req.method == GET",
    "ban req.url ~ (",
    "ban.list",
    "ban.list -j",
    "ban.list -x",
    "panic.show",
    "panic.show -j",
    "panic.clear",
    "panic.clear -z",
    "param.set default_ttl 30",
    "param.set -j default_ttl 31",
    "param.set default_ttl soon",
    "param.set nothing 1",
    "param.set max_retries 1",
    "param.show",
    "param.show -l",
    "param.show -j default_ttl",
    "param.show -j changed",
    "param.show nothing",
    "param.reset default_ttl",
];

#[test]
fn varnishadm_gets_from_larder_what_it_gets_from_varnishd() {
    if is_nginx() {
        println!("nginx has no CLI");
        return;
    }
    let larder = Running::start(Command::new(binary()).arg("varnishd"));
    let varnishd = Running::start(&mut Command::new("/usr/sbin/varnishd"));
    for command in COMMANDS {
        let (ours, theirs) = (larder.ask(command), varnishd.ask(command));
        assert_eq!(outcome(&ours), outcome(&theirs), "{command}\n{}\n{}", ours.0, theirs.0);
        let (shape, expected) = (shape_of(&ours.0), shape_of(&theirs.0));
        assert_eq!(shape, expected, "{command}\n{}\n{}", ours.0, theirs.0);
        assert_eq!(expected.is_some(), theirs.1 && command.contains(" -j"), "{command}");
    }
    assert!(larder.ask("stop").1 && larder.ask("start").1 && larder.ask("ping").1);
}

/// A server that varnishadm finds by its folder.
struct Running {
    child: Child,
    folder: Folder,
}

impl Running {
    fn start(command: &mut Command) -> Running {
        let folder = Folder::new().expect("/tmp takes a folder");
        folder.write("site.vcl", VCL).expect("the folder is ours");
        let child = command
            .args(["-F", "-j", "none", "-a", "127.0.0.1:0", "-T", "127.0.0.1:0", "-r", "max_retries", "-n"])
            .arg(folder.join("run"))
            .arg("-f")
            .arg(folder.join("site.vcl"))
            .stdin(Stdio::null())
            .spawn()
            .expect("it is installed");
        let running = Running { child, folder };
        let began = Instant::now();
        while !running.ask("status").0.contains("running") {
            assert!(began.elapsed() < PATIENCE, "it does not begin");
            std::thread::sleep(Duration::from_millis(50));
        }
        running
    }

    /// What varnishadm says, and whether it is content.
    fn ask(&self, command: &str) -> (String, bool) {
        let (run_folder, site) = (self.folder.join("run"), self.folder.join("site.vcl"));
        let mut words = vec!["-n".to_owned(), run_folder.display().to_string()];
        words.extend(command.split(' ').map(|word| word.replace("SITE", &site.display().to_string())));
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        run(&program("varnishadm"), &words, Path::new("/"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // varnishd ends its own child then.
        let _ = signal_to(self.child.id(), Signal::Term);
        let _ = end_of(&mut self.child);
    }
}

/// Whether it was done, and otherwise the status.
fn outcome((said, is_done): &(String, bool)) -> (bool, Option<&str>) {
    (*is_done, said.lines().find_map(|line| line.strip_prefix("Command failed with error code ")))
}

/// The keys and types of an answer in JSON, behind its version, its words and its time: each once, as which there are
/// differs.
fn shape_of(said: &str) -> Option<(Value, BTreeSet<String>)> {
    let Ok(Value::Array(parts)) = serde_json::from_str::<Value>(said) else { return None };
    let [version, words, time, about @ ..] = parts.as_slice() else { return None };
    assert!(words.is_array() && time.is_number(), "{said}");
    Some((version.clone(), about.iter().map(|part| kinds(part).to_string()).collect()))
}

fn kinds(value: &Value) -> Value {
    match value {
        Value::Object(parts) => parts.iter().map(|(key, part)| (key.clone(), kinds(part))).collect(),
        Value::Array(parts) => parts.first().map(kinds).into_iter().collect(),
        Value::Null => Value::Null,
        Value::Bool(_) => "a claim".into(),
        Value::Number(_) => "a number".into(),
        Value::String(_) => "a text".into(),
    }
}
