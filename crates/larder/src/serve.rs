//! `larder serve DIR`: detects what is in a folder, finds or starts php-fpm, and serves the site with a cache.
//!
//! It is one foreground process, with a configuration that it writes itself; `--print-config` prints it.

mod detect;
pub mod fpm;
mod memory;
mod nginx_conf;
mod own_fpm;

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use larder_conf::MemoryLoader;
use larder_conf::model::LogLevel;
use tokio::runtime::Builder;

use crate::ask_socket;
use crate::cli::Serve;
use crate::configuration::{Configuration, Surroundings};
use crate::generation::{self, Generation, StartError};
use crate::hostname::hostname;
use crate::limits;
use crate::log::{Console, Log};
use crate::oserror::{CallFailed, Reason};
use crate::paths::DefaultLog;
use crate::serving::{Server, ServingOptions};
use crate::signals::{Received, Signals};
use crate::sockets;

use crate::scratch::Scratch;
use detect::{Application, Site};
use own_fpm::OwnFpm;

/// Why a folder cannot be served.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error("{0}")]
    Folder(#[from] detect::DetectError),
    #[error(transparent)]
    Php(#[from] own_fpm::FpmError),
    #[error("{} cannot be written into a configuration, as its name is not UTF-8", .0.display())]
    NotText(PathBuf),
    #[error("cannot listen at {address} {}; name another address by --listen", Reason(&.failure.source))]
    Listen { address: SocketAddr, failure: CallFailed },
    #[error(transparent)]
    Call(#[from] CallFailed),
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Serves `serve.folder` until ^C.
pub fn run(serve: &Serve) -> ExitCode {
    match prepare(serve).and_then(|prepared| prepared.serve(serve)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(ServeError::Start(failure)) => {
            eprint!("{}", failure.rendered());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("larder: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Everything that is needed to serve: the site, PHP, the configuration.
struct Prepared {
    site: Site,
    php: Php,
    text: String,
    /// The folder for the socket and temporary files; dropped last.
    scratch: Scratch,
}

/// Where PHP runs.
enum Php {
    /// The site needs none.
    None,
    /// A running php-fpm.
    Found(fpm::Address),
    /// A php-fpm that larder starts.
    Own(own_fpm::Plan),
}

fn prepare(serve: &Serve) -> Result<Prepared, ServeError> {
    let site = detect::site(&serve.folder)?;
    let scratch = Scratch::create()?;
    let php = match site.application {
        Application::Files => Php::None,
        Application::Php(_) => match fpm::find(&site.root) {
            Some(address) => Php::Found(address),
            None => Php::Own(own_fpm::plan(&site.root, scratch.path())?),
        },
    };
    let pass = match &php {
        Php::None => None,
        Php::Found(address) => Some(address.clone()),
        Php::Own(plan) => Some(fpm::Address::Unix(plan.socket.clone())),
    };
    let text = nginx_conf::write(&nginx_conf::Facts {
        listen: serve.listen,
        root: text(&site.root)?,
        scratch: text(scratch.path())?,
        application: site.application.clone(),
        pass: pass.map(|address| address.to_string()),
        children: match &php {
            Php::Own(plan) => Some(plan.children),
            Php::None | Php::Found(_) => None,
        },
    });
    Ok(Prepared { site, php, text, scratch })
}

fn text(path: &Path) -> Result<&str, ServeError> {
    path.to_str().ok_or_else(|| ServeError::NotText(path.to_owned()))
}

impl Prepared {
    fn serve(self, serve: &Serve) -> Result<(), ServeError> {
        if serve.print_config {
            print!("{}", self.text);
            return Ok(());
        }
        let configuration = load(&self.text).map_err(StartError::from)?;
        for plan in sockets::plan(&configuration.config) {
            sockets::try_bind(&plan).map_err(|failure| ServeError::Listen { address: serve.listen, failure })?;
        }
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| CallFailed::new("epoll_create", error))?;
        runtime.block_on(self.run(serve, configuration))
    }

    async fn run(self, serve: &Serve, configuration: Configuration) -> Result<(), ServeError> {
        let mut signals = Signals::new().map_err(|error| CallFailed::new("sigaction", error))?;
        let log = Log::new(Vec::new(), Console::Told);
        if let Err(error) = limits::raise_open_files(None) {
            log.write(LogLevel::Warn, &CallFailed::new("setrlimit", error).to_string());
        }
        let workers = generation::worker_count(&configuration);
        let generation = Generation::open(configuration, workers, &[], &log).await?;
        let mut own_fpm = match &self.php {
            Php::Own(plan) => Some(OwnFpm::start(plan).await?),
            Php::None | Php::Found(_) => None,
        };
        let descriptors = generation.descriptors().map_err(|error| CallFailed::new("dup", error))?;
        let (ask_socket, asked) = ask_socket::listen_for_serve(serve.listen, &log).unzip();
        let options = ServingOptions {
            workers,
            respawned: 0,
            reloads: 0,
            log: Arc::default(),
            desk: ask_socket::serve(asked.map(OwnedFd::from)),
        };
        let configuration = &generation.configuration;
        let mut server = Server::start(configuration.config.clone(), &configuration.material, descriptors, options)
            .map_err(|diagnostics| StartError::from(configuration.reject(&diagnostics)))?;
        self.greet(serve, ask_socket.is_some());
        loop {
            tokio::select! {
                biased;
                received = signals.next() => match received {
                    Received::Terminate | Received::Interrupt => server.stop(),
                    Received::Quit => server.quit(),
                    Received::Child => if let Some(fpm) = &mut own_fpm {
                        fpm.keep_running().await?;
                    },
                    Received::Reload | Received::Reopen | Received::Upgrade | Received::Leave => {}
                },
                () = server.ended() => break,
            }
        }
        drop(ask_socket);
        // PHP ends after the last request, and its folder is removed after PHP has ended.
        drop(own_fpm);
        drop(self.scratch);
        Ok(())
    }

    /// Prints what was found and where it is served.
    fn greet(&self, serve: &Serve, is_asked: bool) {
        println!("{} in {}", self.site.application, self.site.root.display());
        match &self.php {
            Php::None => {}
            Php::Found(address) => println!("PHP by the php-fpm at {address}"),
            Php::Own(plan) => println!("PHP by a php-fpm of our own, {}", plan.program.display()),
        }
        if is_asked {
            println!("larder why --listen {} says why pages are not cached", serve.listen);
        }
        println!("http://{}/ (^C ends it)", reachable(serve.listen));
    }
}

/// The address to type into a browser: 127.0.0.1 for `0.0.0.0`, for instance.
fn reachable(listen: SocketAddr) -> SocketAddr {
    match (listen.ip().is_unspecified(), listen.is_ipv6()) {
        (true, false) => (std::net::Ipv4Addr::LOCALHOST, listen.port()).into(),
        (true, true) => (std::net::Ipv6Addr::LOCALHOST, listen.port()).into(),
        (false, _) => listen,
    }
}

/// Parses the configuration that we wrote.
fn load(text: &str) -> Result<Configuration, crate::configuration::Rejected> {
    let surroundings = Surroundings {
        conf_file: CONF_FILE.into(),
        conf_prefix: PathBuf::new(),
        prefix: "/".into(),
        globals: None,
        is_root: nix::unistd::geteuid().is_root(),
        hostname: hostname(),
        error_log: DefaultLog::Stderr,
    };
    let mut files = MemoryLoader::new();
    files.add(CONF_FILE, text);
    Configuration::from_memory(surroundings, files)
}

/// The file name in messages; `larder serve DIR --print-config` shows the content.
const CONF_FILE: &str = "larder-serve.conf";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_configuration_that_we_write_can_be_read() {
        for application in [Application::Files, Application::Php(vec!["php"]), Application::Php(vec!["wordpress"])] {
            for pass in [None, Some("unix:/run/php/a.sock"), Some("127.0.0.1:9000")] {
                for root in ["/srv/www", "/srv/a b;{}\"'\\#$x/ü"] {
                    let text = nginx_conf::write(&nginx_conf::Facts {
                        listen: "127.0.0.1:8080".parse().unwrap(),
                        root,
                        scratch: "/tmp/larder-x",
                        application: application.clone(),
                        pass: pass.map(str::to_owned),
                        children: Some(5),
                    });
                    let loaded = load(&text).map_err(|rejected| format!("{rejected}\n{text}"));
                    let configuration = loaded.unwrap_or_else(|error| panic!("{error}"));
                    assert_eq!(configuration.render(&configuration.notices), "", "{text}");
                }
            }
        }
    }
}
