//! The programs that play a case, each with the command line and the files that it begins with.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use larder_testkit::{Folder, ServerUnderTest, StartError};

use crate::case::Case;
use crate::{frame, vcl_frame};

/// gcc without its optimiser: half the time, and the VCL of a case runs a few times only.
const QUICK_COMPILER: &str = "cc_command=exec gcc -O0 -fpic -shared -Wl,-x -o %o %s";

/// A program, by the path of its binary.
#[derive(Clone)]
pub enum Program {
    /// nginx, or larder, which has its command line.
    Nginx(PathBuf),
    /// varnishd.
    Varnishd(PathBuf),
    /// `larder varnishd`.
    LarderVarnishd(PathBuf),
}

impl Program {
    /// Fills an empty folder with what the case needs; `fill` replaces placeholders.
    pub fn build(&self, case: &Case, folder: &Folder, fill: &dyn Fn(&str) -> String) -> io::Result<()> {
        match self {
            Program::Nginx(_) => frame::build(case, folder, fill),
            Program::Varnishd(_) | Program::LarderVarnishd(_) => vcl_frame::build(case, folder, fill),
        }
    }

    /// Starts it in a folder that is built. `options` are more words for a varnishd.
    pub fn start(&self, folder: &Path, address: SocketAddr, options: &str) -> Result<ServerUnderTest, StartError> {
        let mut command = match self {
            Program::Nginx(binary) => return ServerUnderTest::start(binary, folder),
            Program::Varnishd(binary) => {
                let mut command = Command::new(binary);
                command.args(["-p", QUICK_COMPILER, "-p", "vsl_space=1m"]);
                command
            }
            Program::LarderVarnishd(binary) => {
                let mut command = Command::new(binary);
                command.arg("varnishd");
                command
            }
        };
        command
            .args(["-F", "-j", "none", "-T", "none", "-i", "oracle", "-s", "malloc,64m", "-n"])
            .arg(folder.join("varnish"))
            .args(["-a", &address.to_string(), "-f"])
            .arg(folder.join(vcl_frame::MAIN))
            .args(["-p", &format!("vcl_path={}", folder.display())])
            .args(options.split_whitespace());
        ServerUnderTest::start_varnishd(&mut command, folder, address)
    }
}
