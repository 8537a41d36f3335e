//! VCL played before varnishd: the same VCL, the same origins, the same requests, once to varnishd and once to larder.
//!
//! The cases are in `conformance/varnish/played/AREA/`, in the format of [`crate::case`]; [`crate::vcl_compare`] lists
//! what is not compared. Those in `conformance/varnish/published/` play VCLs that others have published and that are
//! not kept here: they are in the folder that `ORACLE_VCLS` names, and without it they are left out.

use std::env;
use std::path::{Path, PathBuf};

use crate::judge::Contest;
use crate::program::Program;
use crate::vcl_frame;

#[test]
fn larder_answers_by_a_vcl_as_varnishd_does() {
    play("played", "played.list");
}

#[test]
fn larder_answers_by_published_vcls_as_varnishd_does() {
    if vcl_frame::published_folder().is_none() {
        println!("ORACLE_VCLS names no folder, so no published VCLs are played");
        return;
    }
    play("published", "published.list");
}

fn play(cases: &str, list: &str) {
    let Some(varnishd) = varnishd() else { return };
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/varnish");
    let subject = match env::var_os("ORACLE_VARNISH_SUBJECT") {
        Some(path) => Program::Varnishd(path.into()),
        None => Program::LarderVarnishd(env!("CARGO_BIN_EXE_larder").into()),
    };
    let contest = Contest {
        measure: "varnishd",
        reference: Program::Varnishd(varnishd),
        subject,
        cases: corpus.join(cases),
        differences: corpus.join(list),
    };
    contest.run();
}

/// The varnishd to compare with, if there is one here.
pub fn varnishd() -> Option<PathBuf> {
    let varnishd = PathBuf::from(env::var("ORACLE_VARNISHD").unwrap_or_else(|_| "/usr/sbin/varnishd".to_owned()));
    if varnishd.exists() {
        return Some(varnishd);
    }
    assert!(env::var("ORACLE_VARNISHD").is_err(), "{} does not exist", varnishd.display());
    println!("there is no varnishd here, so there is nothing to compare with");
    None
}
