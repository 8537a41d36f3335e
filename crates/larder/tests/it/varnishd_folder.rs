//! The folder of a `larder varnishd` that root starts, where it belongs to the account that serves.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::process::{Command, Stdio};

use larder_testkit::{Folder, Signal, end_of, free_port, signal_to};

use crate::running_varnishd::GOOD;
use crate::site::{binary, eventually};

#[test]
fn what_the_account_that_serves_has_linked_stays_with_root() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for (name, is_folder) in [
        ("bodies", true),
        ("s0", true),
        ("_.vsm_mgt", true),
        ("_.pid", false),
        ("_.secret", false),
        ("error.log", false),
    ] {
        let folder = Folder::new().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        folder.write("run/empty", "").unwrap();
        folder.write("good.vcl", GOOD).unwrap();
        folder.write("ours/file", "ours").unwrap();
        let (run, link) = (folder.join("run"), folder.join("run").join(name));
        symlink(folder.join(if is_folder { "ours" } else { "ours/file" }), &link).unwrap();
        for path in [&run, &link] {
            lchown(path, Some(NOBODY), None).unwrap();
        }
        // In the foreground there is no error.log.
        let place = if name == "error.log" { &["-P", "pid"][..] } else { &["-F"] };
        let listen = format!("127.0.0.1:{}", free_port());
        let mut child = Command::new(binary())
            .args(["varnishd", "-j", "unix,user=nobody", "-T", "127.0.0.1:0", "-f", "good.vcl", "-a", &listen])
            .args(place)
            .arg("-n")
            .arg(&run)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        if name == "_.secret" {
            // It is replaced, whoever has made it.
            eventually("it serves", || TcpStream::connect(&listen).is_ok());
            signal_to(child.id(), Signal::Term).unwrap();
            assert_eq!(end_of(&mut child).expect("it ends").code(), Some(0), "{name}");
        } else {
            assert_eq!(end_of(&mut child).expect("it ends").code(), Some(1), "{name}");
        }
        assert_eq!(fs::read_to_string(folder.join("ours/file")).unwrap(), "ours", "{name}");
        for path in ["ours", "ours/file"] {
            assert_eq!(fs::metadata(folder.join(path)).unwrap().uid(), 0, "{name} {path}");
        }
    }
}

/// The number of `nobody`.
const NOBODY: u32 = 65534;
