//! Bodies without their coding, by programs that are not ours.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::thread;

/// A body as the coding's own program unpacks it: `gzip`, `br` and `zstd`; a body of another coding stays as it is.
///
/// What is cut off is unpacked as far as it goes, and what is broken up to there.
///
/// # Panics
/// When the program is not installed, which `scripts/setup test` does.
pub fn unpacked(coding: &str, body: &[u8]) -> Vec<u8> {
    match program(coding) {
        Some(program) => run(program, body).map(|output| output.stdout).unwrap_or_default(),
        None => body.to_vec(),
    }
}

/// The same, but `None` for what the program finds wrong: an end that is missing, a sum, a length, or bytes behind it.
///
/// # Panics
/// When the program is not installed.
pub fn unpacked_whole(coding: &str, body: &[u8]) -> Option<Vec<u8>> {
    let Some(program) = program(coding) else { return Some(body.to_vec()) };
    run(program, body).filter(|output| output.status.success()).map(|output| output.stdout)
}

fn program(coding: &str) -> Option<&'static str> {
    match coding {
        "gzip" => Some("gzip"),
        "br" => Some("brotli"),
        "zstd" => Some("zstd"),
        _ => None,
    }
}

/// What a program makes of `body`. `None` if it cannot be waited for.
fn run(program: &str, body: &[u8]) -> Option<Output> {
    let mut child = Command::new(program)
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}, which `scripts/setup test` installs: {error}"));
    let input = child.stdin.take();
    thread::scope(|scope| {
        // Both pipes are served at once: either may fill while the other waits. The program may stop reading early.
        scope.spawn(move || drop(input.map(|mut input| input.write_all(body))));
        child.wait_with_output().ok()
    })
}

/// A text packed by gzip's own program.
///
/// # Panics
/// When it is not installed.
pub fn gzipped(text: &[u8]) -> Vec<u8> {
    let mut child = Command::new("gzip")
        .arg("-nc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("gzip: {error}"));
    let input = child.stdin.take();
    thread::scope(|scope| {
        scope.spawn(move || drop(input.map(|mut input| input.write_all(text))));
        child.wait_with_output().map(|output| output.stdout).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_is_unpacked_and_what_is_cut_as_far_as_it_goes() {
        let text: Vec<u8> = (0..200_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 20) as u8).collect();
        let packed = gzipped(&text);
        assert!(unpacked("gzip", &packed) == text);
        let half = unpacked("gzip", &packed[..packed.len() / 2]);
        assert!(!half.is_empty() && text.starts_with(&half), "{}", half.len());
        assert_eq!(unpacked("identity", b"as it is"), b"as it is");
        assert!(unpacked_whole("gzip", &packed).as_deref() == Some(&text[..]));
        assert!(unpacked_whole("gzip", &packed[..packed.len() - 1]).is_none(), "its end is missing");
        let mut wrong = packed;
        let sum = wrong.len() - 8;
        wrong[sum] ^= 1;
        assert!(unpacked("gzip", &wrong) == text);
        assert!(unpacked_whole("gzip", &wrong).is_none(), "its sum is wrong");
    }
}
