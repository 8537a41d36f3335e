//! The project's own tools, run as `cargo xtask NAME`.

mod load;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask tidy              check the rules of the repository that no compiler checks
cargo xtask load [OPTION...]  measure larder beside nginx and Varnish (`cargo xtask load --help`)
";

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let name = arguments.next().unwrap_or_default();
    match name.to_str() {
        Some("tidy") => tidy::main(&root()),
        Some("load") => load::main(&root(), arguments),
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

/// The root of the repository: the folder that holds this crate's folder, as cargo says when it runs us.
fn root() -> PathBuf {
    let own =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    own.parent().map_or_else(|| own.clone(), Path::to_path_buf)
}
