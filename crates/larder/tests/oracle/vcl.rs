//! VCL before varnishd: what one of the two accepts and the other refuses is a failure.
//!
//! A case is a VCL in `conformance/varnish/cases/`, whose first line says what it is about. Both check it with `-C`.
//! `conformance/varnish/differences.list` names the cases that are known to differ, each with its reason; one that no
//! longer differs must leave the list.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::judge::{on_threads, sorted_entries};
use crate::list::Differences;
use crate::vcl_played::varnishd;

#[test]
fn larder_accepts_the_vcl_that_varnishd_accepts() {
    let Some(varnishd) = varnishd() else { return };
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/varnish");
    let differences = Differences::read(&corpus.join("differences.list")).expect("differences.list can be read");
    let cases = sorted_entries(&corpus.join("cases")).expect("the corpus is there");
    assert!(!cases.is_empty(), "there are no cases");
    let verdicts = on_threads(&cases, |case| {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let check = |program: &mut Command| {
            let output = program.arg("-C").arg("-f").arg(case).output().expect("it starts");
            (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
        };
        let theirs = check(Command::new(&varnishd).arg("-n").arg(folder.path().join("n")));
        let ours = check(Command::new(env!("CARGO_BIN_EXE_larder")).arg("varnishd"));
        (theirs.0, ours)
    });
    let mut failures = 0;
    let word = |accepts| if accepts { "accepts" } else { "refuses" };
    for (case, (theirs, (ours, said))) in cases.iter().zip(&verdicts) {
        let name = case.file_stem().unwrap_or_default().to_string_lossy();
        match (theirs == ours, differences.reason(&name)) {
            (true, None) | (false, Some(_)) => {}
            (true, Some(reason)) => {
                failures += 1;
                println!("==== {name}: equal now; take it off the list, where it says: {reason}");
            }
            (false, None) => {
                failures += 1;
                println!("==== {name}: varnishd {} it, larder {} it\n{said}", word(*theirs), word(*ours));
            }
        }
    }
    for name in differences.names() {
        if !cases.iter().any(|case| case.file_stem().is_some_and(|stem| stem == name)) {
            failures += 1;
            println!("==== {name}: on the list, and no such case");
        }
    }
    let accepted = verdicts.iter().filter(|(theirs, _)| *theirs).count();
    println!("{} cases, {accepted} of them accepted by varnishd: {failures} failures", cases.len());
    assert_eq!(failures, 0, "see above");
}

#[test]
fn each_case_says_what_it_is_about() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/varnish/cases");
    for case in sorted_entries(&folder).expect("the corpus is there") {
        let text = fs::read_to_string(&case).expect("it is text");
        assert!(text.starts_with("# ") && text.lines().nth(1).is_some(), "{}", case.display());
    }
}
