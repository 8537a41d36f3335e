//! h2spec, the conformance suite of HTTP/2 and HPACK, whole and strict.

use crate::server::{Server, is_nginx, program, run};

#[test]
fn h2spec_passes_in_the_clear() {
    let server = Server::start();
    // The port speaks HTTP/1 too: what does not begin as HTTP/2 is answered with a 400 of HTTP/1, as in nginx since 1.25.
    passes(&server, server.port, &[], &["Sends invalid connection preface"]);
}

#[test]
fn h2spec_passes_over_tls() {
    let server = Server::start();
    passes(&server, server.tls_port, &["--tls", "--insecure"], &[]);
}

/// Runs every case and expects its last line to tell of no failure.
///
/// Strict cases are those that RFC 7540 says SHOULD of. Nothing may be skipped: a case skips itself where the server
/// does not give it what it needs, such as a body of some length. `known` are the failures that are meant to be.
fn passes(server: &Server, port: u16, more: &[&str], known: &[&str]) {
    let port = port.to_string();
    let mut arguments = vec!["--host", "127.0.0.1", "--port", &port, "--strict", "--timeout", "5"];
    arguments.extend(more);
    let (said, _) = run(&program("h2spec"), &arguments, server.folder.path());
    let last = said.lines().last().unwrap_or_default();
    println!("{last}");
    let [tests, passed, skipped, failed] = counts(last).unwrap_or_else(|| panic!("h2spec did not end:\n{said}"));
    assert!(tests >= 145, "the whole suite has run: {last}");
    if is_nginx() {
        println!("nginx: not judged");
        return;
    }
    let failures: Vec<&str> = said.lines().skip_while(|line| !line.starts_with("Failures:")).collect();
    let unknown = failures
        .iter()
        .filter(|line| line.contains('×'))
        .filter(|line| !known.iter().any(|known| line.contains(known)));
    assert_eq!((unknown.count(), skipped), (0, 0), "{last}\n{}", failures.join("\n"));
    assert!(usize::try_from(failed).is_ok_and(|failed| failed <= known.len()) && passed + failed == tests, "{last}");
}

/// The numbers of `146 tests, 146 passed, 0 skipped, 0 failed`.
fn counts(line: &str) -> Option<[u32; 4]> {
    let mut numbers = line.split(", ").map(|part| part.split(' ').next()?.parse().ok());
    let mut next = || numbers.next().flatten();
    Some([next()?, next()?, next()?, next()?])
}

#[test]
fn the_last_line_is_understood() {
    assert_eq!(counts("146 tests, 145 passed, 1 skipped, 0 failed"), Some([146, 145, 1, 0]));
    assert_eq!(counts("Error: connection refused"), None);
}
