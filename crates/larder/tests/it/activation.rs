//! Sockets that systemd holds: a parent that passes them as sd_listen_fds(3) says, and who has them when larder ends.

use std::fs;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command, Stdio};

use larder_testkit::{Client, Signal, children_of, end_of, is_running, signal_to};

use crate::site::{Ends, Setup, binary, eventually, get, text};

/// What holds the sockets while nobody serves.
struct Parent {
    tcp: TcpListener,
    unix: UnixListener,
}

impl Parent {
    fn of(setup: &Setup) -> Parent {
        Parent {
            tcp: TcpListener::bind(setup.address()).unwrap(),
            unix: UnixListener::bind(setup.path("site.sock")).unwrap(),
        }
    }

    /// Starts larder with the sockets as numbers 3 and 4, for the process of this number; `$$` is itself.
    fn starts(&self, setup: &Setup, process: &str) -> Child {
        let script = format!(
            "exec 3<&0 4<&1 </dev/null >/dev/null; \
             LISTEN_PID={process} LISTEN_FDS=2 LISTEN_FDNAMES=larder.socket:larder.socket exec \"$0\" \"$@\""
        );
        let prefix = format!("{}/", setup.path("").display());
        Command::new("sh")
            .arg("-c")
            .arg(script)
            .arg(binary())
            .args(["-p", &prefix, "-c", "nginx.conf", "-e", "error.log"])
            .stdin(OwnedFd::from(self.tcp.try_clone().unwrap()))
            .stdout(OwnedFd::from(self.unix.try_clone().unwrap()))
            .stderr(Stdio::from(fs::File::create(setup.path("stderr")).unwrap()))
            .spawn()
            .unwrap()
    }
}

const SITE: &str = "server { listen 127.0.0.1:{PORT}; listen unix:{DIR}/site.sock; return 200 $pid; }";

fn pid_of(setup: &Setup) -> Option<u32> {
    fs::read_to_string(setup.path("nginx.pid")).ok()?.strip_suffix('\n')?.parse().ok()
}

fn log_of(setup: &Setup) -> String {
    fs::read_to_string(setup.path("error.log")).unwrap_or_default()
}

/// The number of the process that answers a request, which was sent before there was one.
fn answers(waiting: &mut Client) -> u32 {
    text(&waiting.read_response("GET").unwrap()).parse().unwrap()
}

fn asks(setup: &Setup) -> Client {
    let mut client = Client::connect(setup.address()).unwrap();
    client.send(get("/").as_bytes()).unwrap();
    client
}

#[test]
fn larder_serves_at_the_sockets_that_it_is_passed_and_leaves_them() {
    for main in ["daemon off;", "daemon on;", "daemon off; master_process off;"] {
        let setup = Setup::new().main(&format!("{main} worker_processes 2;"));
        setup.configure(SITE);
        let parent = Parent::of(&setup);
        // Who comes before larder runs waits in the queue of the socket.
        let mut early = asks(&setup);
        let mut child = parent.starts(&setup, "$$");
        if main == "daemon on;" {
            let status = end_of(&mut child).unwrap();
            assert!(status.success(), "{main}: {}", log_of(&setup));
        }
        eventually("the pid file", || pid_of(&setup).is_some());
        let process = pid_of(&setup).unwrap();
        let _ends = Ends(process);
        let serving = answers(&mut early);
        assert!(process == serving || children_of(process).contains(&serving), "{main}");
        assert!(UnixStream::connect(setup.path("site.sock")).is_ok(), "{main}");
        signal_to(process, Signal::Quit).unwrap();
        end_of(&mut child);
        eventually("its end", || !is_running(process));
        // The file is systemd's, and so is the queue.
        assert!(UnixStream::connect(setup.path("site.sock")).is_ok(), "{main}: {}", log_of(&setup));
        let mut late = asks(&setup);
        drop(fs::remove_file(setup.path("nginx.pid")));
        let mut again = parent.starts(&setup, "$$");
        eventually("the pid file", || pid_of(&setup).is_some());
        let process = pid_of(&setup).unwrap();
        let _ends = Ends(process);
        answers(&mut late);
        signal_to(process, Signal::Quit).unwrap();
        end_of(&mut again);
        eventually("its end", || !is_running(process));
    }
}

#[test]
fn a_new_binary_leaves_the_file_of_a_socket_to_systemd_too() {
    let setup = Setup::new().main("daemon on; worker_processes 2;");
    setup.configure(SITE);
    let parent = Parent::of(&setup);
    assert!(end_of(&mut parent.starts(&setup, "$$")).unwrap().success(), "{}", log_of(&setup));
    let old = pid_of(&setup).unwrap();
    let _old_ends = Ends(old);
    signal_to(old, Signal::Usr2).unwrap();
    eventually("the new one", || pid_of(&setup).is_some_and(|new| new != old));
    let new = pid_of(&setup).unwrap();
    let _new_ends = Ends(new);
    for process in [old, new] {
        signal_to(process, Signal::Quit).unwrap();
        eventually("its end", || !is_running(process));
    }
    assert!(UnixStream::connect(setup.path("site.sock")).is_ok());
}

#[test]
fn a_socket_that_nothing_names_is_told_of() {
    let setup = Setup::new();
    setup.configure("server { listen 127.0.0.1:{PORT}; return 200 $pid; }");
    let parent = Parent::of(&setup);
    let mut child = parent.starts(&setup, "$$");
    let _ends = Ends(child.id());
    answers(&mut asks(&setup));
    let said = fs::read_to_string(setup.path("stderr")).unwrap() + &log_of(&setup);
    let socket = setup.path("site.sock");
    assert!(said.contains(&format!("systemd passes the socket unix:{}, which no \"listen\" names", socket.display())));
    signal_to(child.id(), Signal::Quit).unwrap();
    end_of(&mut child);
}

#[test]
fn what_is_meant_for_another_process_is_not_taken() {
    let setup = Setup::new();
    setup.configure("server { listen 127.0.0.1:{PORT}; return 200 $pid; }");
    let parent = Parent::of(&setup);
    let mut child = parent.starts(&setup, "1");
    let _ends = Ends(child.id());
    assert!(!end_of(&mut child).unwrap().success());
    assert!(log_of(&setup).contains("Address already in use"), "{}", log_of(&setup));
}
