//! `larder why`, `larder explain`, `larder purge` and `larder cluster`: asks a running server about itself, or to purge, at its socket.

pub mod help;
pub mod options;

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use larder_conf::{PlainJson, PlainLines};

use crate::ask_socket::EXTENSION;
use crate::cli::Options;
use crate::configuration::{Configuration, Rejected, Surroundings};
use crate::oserror::Reason;
use crate::paths::Paths;
use crate::pidfile::beside;
use crate::serve_socket;
use crate::varnishd::workdir;

use options::{Ask, ConfigurationPlace, Place, What};

/// How long a server may take. It gives up earlier.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long one may take who has all nodes of a cluster told, for each of which it may wait for a minute.
const PATIENCE_FOR_NODES: Duration = Duration::from_secs(80);
/// How long an answer may be: far longer than any of ours.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The configuration that says where the pid file is cannot be used.
    #[error("{}", .0.rendered.trim_end())]
    Rejected(#[from] Rejected),
    /// Nobody listens there.
    #[error("no server answers at {}: start one, or name it with -c, --pid, -n or --listen", .0.display())]
    NoServer(PathBuf),
    /// This account has started no `larder serve`.
    #[error("no \"larder serve\" of this account listens at {0}: start one, or be the account that has")]
    NoServe(SocketAddr),
    /// The folder of the sockets is another account's.
    #[error("the \"larder serve\" at {address} cannot be asked {}", Reason(source))]
    Unsafe {
        /// Where it is to listen.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The socket belongs to others.
    #[error("{} may not be opened by this account: be root, or the account that has started the server", .0.display())]
    Forbidden(PathBuf),
    /// The system refused something.
    #[error("{} cannot be read {}", path.display(), Reason(source))]
    Failed {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The server has closed the connection without a word.
    #[error("the server at {} has closed the connection without an answer: it may be ending, or be out of threads", .0.display())]
    Silent(PathBuf),
    /// It takes too long.
    #[error("the server at {} has not answered in {} s", .0.display(), .1.as_secs())]
    Late(PathBuf, Duration),
    /// The server does not answer this.
    #[error("{0}")]
    Refused(String),
    /// It is done, and something of it is missing.
    #[error("{but}")]
    Partly {
        /// What the server answers.
        told: String,
        /// What is missing.
        but: String,
        /// The exit code that says so.
        code: u8,
    },
}

/// Asks, and prints the answer.
pub fn run(asked: &Ask) -> ExitCode {
    let (text, code) = match answer(asked) {
        Ok(text) => (text, ExitCode::SUCCESS),
        Err(AskError::Partly { told, but, code }) => {
            eprintln!("larder: {but}");
            (told, ExitCode::from(code))
        }
        Err(error) => return failure(error),
    };
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => code,
        // Whoever reads may have left.
        Err(_) => ExitCode::FAILURE,
    }
}

/// How long the next try waits while the server has no place.
const ASK_AGAIN_FIRST: Duration = Duration::from_millis(20);
const ASK_AGAIN_MOST: Duration = Duration::from_millis(500);
/// How the first line of an answer begins of which something is missing, and the exit code.
const MISSING: [(&str, u8); 2] = [("but ", 2), ("away ", 3)];

/// Says why there is no answer.
pub fn failure(error: AskError) -> ExitCode {
    match error {
        // It says who tells it, for each of its lines.
        AskError::Rejected(Rejected { rendered, .. }) => eprint!("{rendered}"),
        error => eprintln!("larder: {error}"),
    }
    ExitCode::FAILURE
}

/// The answer.
pub fn answer(asked: &Ask) -> Result<String, AskError> {
    let form = if asked.json { "json" } else { "text" };
    let question = match &asked.what {
        What::Why => format!("larder 1 why {form}\n"),
        // What is shown of these is ours.
        What::Now => "larder 1 now json\n".to_owned(),
        What::Cluster => "larder 1 cluster json\n".to_owned(),
        // The last line says that it is whole.
        What::Forget { node } => format!("larder 1 forget {form}\n{node}\n"),
        What::Purge { lines } => format!("larder 1 purge {form}\n{}\nend\n", lines.join("\n")),
        What::Explain { url, method, from, fields } => {
            format!("larder 1 explain {form}\n{method} {url}\n{from}\n{}\n", fields.join("\n"))
        }
    };
    let path = socket(&asked.place)?;
    let patience = match asked.what {
        What::Purge { .. } => PATIENCE_FOR_NODES,
        What::Why | What::Explain { .. } | What::Now | What::Cluster | What::Forget { .. } => PATIENCE,
    };
    let told = told(&path, question.as_bytes(), patience).map_err(|error| failed(&path, error, patience))?;
    let form = |text: &str| if asked.json { PlainJson(text).to_string() } else { PlainLines(text).to_string() };
    match told.split_once('\n') {
        // Whoever listens there may be no larder.
        Some(("ok", text)) if matches!(asked.what, What::Now | What::Cluster) => Ok(PlainJson(text).to_string()),
        Some(("ok", text)) => Ok(form(text)),
        Some(("no" | "busy", why)) => Err(AskError::Refused(PlainLines(why.trim_end()).to_string())),
        Some((first, text)) => {
            let missing = MISSING.iter().find_map(|(word, code)| Some((first.strip_prefix(word)?, *code)));
            let (but, code) = missing.ok_or(AskError::Silent(path))?;
            Err(AskError::Partly { told: form(text), but: PlainLines(but).to_string(), code })
        }
        None => Err(AskError::Silent(path)),
    }
}

/// What the server says; while it has no place for one more who asks, it is asked again.
fn told(path: &Path, question: &[u8], patience: Duration) -> io::Result<String> {
    let (began, mut pause) = (Instant::now(), ASK_AGAIN_FIRST);
    loop {
        let told = exchange(path, question, patience)?;
        if !told.starts_with("busy\n") || began.elapsed() >= PATIENCE {
            return Ok(told);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(ASK_AGAIN_MOST);
    }
}

/// The socket of the server that is asked.
fn socket(place: &Place) -> Result<PathBuf, AskError> {
    Ok(match place {
        Place::Configuration(place) => beside(&Configuration::pid_file(&surroundings(place))?, EXTENSION),
        Place::PidFile(path) => beside(path, EXTENSION),
        Place::Serve(address) => match serve_socket::path(*address) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(AskError::NoServe(*address)),
            Err(error) => return Err(AskError::Unsafe { address: *address, source: error }),
        },
        Place::Folder(path) => workdir::place(Some(path)).join(workdir::ASK_SOCKET),
    })
}

/// What a configuration is read with.
pub fn surroundings(place: &ConfigurationPlace) -> Surroundings {
    let (conf_file, prefix, globals) = (place.conf_file.clone(), place.prefix.clone(), place.globals.clone());
    let options = &Options { conf_file, prefix, globals, ..Options::default() };
    Surroundings::new(&Paths::of_running(options), options.globals.clone())
}

fn exchange(path: &Path, question: &[u8], patience: Duration) -> io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(patience))?;
    // A server that does not take the question says why before it closes.
    let sent = stream.write_all(question).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut told = Vec::new();
    let heard = stream.take(ANSWER_BYTES_MAX).read_to_end(&mut told);
    match told.is_empty() {
        true => sent.and(heard).map(|_| String::new()),
        false => Ok(String::from_utf8_lossy(&told).into_owned()),
    }
}

fn failed(path: &Path, error: io::Error, patience: Duration) -> AskError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::ConnectionRefused => {
            AskError::NoServer(path)
        }
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => AskError::Silent(path),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => AskError::Late(path, patience),
        io::ErrorKind::PermissionDenied => AskError::Forbidden(path),
        _ => AskError::Failed { path, source: error },
    }
}
