//! The oracle: the same configuration, the same requests, once to nginx and once to larder; what differs is a failure.
//!
//! A case is a file in `conformance/nginx/cases/AREA/`; its format is described in [`case`]. Both servers run one
//! after the other in the same folder, on the same ports, before the same scripted origins, so that their answers
//! can be compared byte by byte: [`compare`] lists what is not compared. `conformance/nginx/differences.list` names
//! the cases that are known to differ, each with its reason; one that no longer differs must leave the list.
//! [`vcl`] and [`vcl_played`] do the same for VCL, before varnishd.
//!
//! Environment:
//! - `ORACLE_CASES=cache/,static/range`: only cases whose names contain one of these.
//! - `ORACLE_SHOW=1`: prints what nginx or varnishd answered.
//! - `ORACLE_UPDATE=1`: writes those answers in short into the section `nginx says` or `varnishd says` of each case.
//! - `ORACLE_SUBJECT=/path`: compares this binary instead of larder (nginx itself must differ nowhere).
//! - `ORACLE_NGINX=/path`: the nginx to compare with, `/usr/sbin/nginx` unless told; the corpus fits 1.22.
//! - `ORACLE_CORPUS=/path`: a corpus elsewhere than in `conformance/nginx`.
//! - `ORACLE_VARNISHD=/path`: the varnishd to compare with, `/usr/sbin/varnishd` unless told; the corpus fits 7.1.
//! - `ORACLE_VARNISH_SUBJECT=/path`: compares this varnishd instead of larder (it must differ nowhere).
//! - `ORACLE_VCLS=/path`: a folder of published VCLs, which are not kept here.
//! - `ORACLE_THREADS=2`: how many cases run at once.
#![forbid(unsafe_code)]

mod case;
mod compare;
mod date;
mod frame;
mod judge;
mod list;
mod play;
mod program;
mod script;
mod transcript;
mod vcl;
mod vcl_compare;
mod vcl_frame;
mod vcl_played;

use std::env;
use std::path::{Path, PathBuf};

use judge::Contest;
use program::Program;

#[test]
fn larder_answers_as_nginx_does() {
    let nginx = PathBuf::from(env::var("ORACLE_NGINX").unwrap_or_else(|_| "/usr/sbin/nginx".to_owned()));
    let subject = env::var("ORACLE_SUBJECT").ok().or(option_env!("CARGO_BIN_EXE_larder").map(str::to_owned));
    let subject = PathBuf::from(subject.expect("cargo names the binary, or ORACLE_SUBJECT does"));
    if !nginx.exists() {
        assert!(env::var("ORACLE_NGINX").is_err(), "{} does not exist", nginx.display());
        println!("there is no nginx here, so there is nothing to compare with");
        return;
    }
    let corpus = env::var_os("ORACLE_CORPUS").unwrap_or_else(|| "../../conformance/nginx".into());
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join(corpus);
    let contest = Contest {
        measure: "nginx",
        reference: Program::Nginx(nginx),
        subject: Program::Nginx(subject),
        cases: corpus.join("cases"),
        differences: corpus.join("differences.list"),
    };
    contest.run();
}
