//! The project's own tools, run as `cargo xtask NAME`.

mod clock;
mod cluster;
mod dist;
mod fuzz;
mod load;
mod replay;
mod shelves;
mod squeeze;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask tidy              check the rules of the repository that no compiler checks
cargo xtask load [OPTION...]  measure larder beside nginx and Varnish (`cargo xtask load --help`)
cargo xtask ramp [OPTION...]  one to a thousand people on an https site, as a graph (`cargo xtask ramp --help`)
cargo xtask replay TRACE...   the memory shelf's misses beside other policies' (`cargo xtask replay --help`)
cargo xtask place [OPTION...] fill caches on one disk and on two, beside nginx (`cargo xtask place --help`)
cargo xtask restart [OPTION...]
                              a million pages, and a restart, beside nginx (`cargo xtask restart --help`)
cargo xtask squeeze [OPTION...]
                              larder in a control group of little memory, under load (`cargo xtask squeeze --help`)
cargo xtask cluster [OPTION...]
                              what a cluster of many nodes costs (`cargo xtask cluster --help`)
cargo xtask dist [OPTION...] [KIND...]
                              make packages: deb, rpm, tarball, oci (`cargo xtask dist --help`)
cargo xtask fuzz [OPTION...]  run the fuzz targets of `fuzz/` (`cargo xtask fuzz --help`)
";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().unwrap_or_default();
    match name.to_str() {
        Some("tidy") => tidy::main(&root()),
        Some("cluster" | "load" | "ramp" | "place" | "restart" | "squeeze") if cfg!(debug_assertions) => optimised(),
        Some("dist") => dist::main(&root(), arguments),
        Some("fuzz") => fuzz::main(&root(), arguments),
        Some("cluster") => cluster::main(arguments),
        Some("load") => load::main(&root(), arguments),
        Some("ramp") => load::ramp::main(&root(), arguments),
        Some("replay") => replay::main(arguments),
        Some("place") => shelves::place(&root(), arguments),
        Some("restart") => shelves::restart(&root(), arguments),
        Some("squeeze") => squeeze::main(&root(), arguments),
        Some("help" | "--help" | "-h") => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        _ => {
            eprint!("{HELP}");
            ExitCode::from(2)
        }
    }
}

/// Runs this command again, compiled as what it measures is: a generator has to cost less than the servers it asks.
fn optimised() -> ExitCode {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let run = ["run", "--quiet", "--release", "--package", "xtask", "--"];
    match Command::new(cargo).args(run).args(std::env::args_os().skip(1)).status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("cannot run cargo: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the repository: the folder that holds this crate's folder, as cargo says when it runs us.
fn root() -> PathBuf {
    let own =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    own.parent().map_or_else(|| own.clone(), Path::to_path_buf)
}
