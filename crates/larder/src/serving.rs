//! The one place where this crate meets the server: the workers of this process.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use larder_conf::Diagnostic;
use larder_conf::model::{Config, LogLevel};
use larder_server::bans::{BanFault, Listed};
use larder_server::{Counted, LogFiles, Serving, Vcl};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::logs::OpenLog;
use crate::transaction_log;

pub use larder_server::{Descriptors, FpmPool, Material, NGINX_VERSION, ServingOptions, check};

/// How long busy workers are waited for.
const SETTLING: Duration = Duration::from_secs(1);

/// The workers of this process.
///
/// ```text
/// Running --quit--> Leaving --workers ended--> Gone
///     `------------ stop ---------------------> Gone
/// ```
pub enum Server {
    /// The workers serve.
    Running(Box<Serving>),
    /// The workers finish their requests.
    Leaving(oneshot::Receiver<()>, LogFiles),
    /// The workers have ended, or end with the process.
    Gone,
}

impl Server {
    /// Starts the workers.
    pub fn start(
        config: Config,
        material: &Material,
        descriptors: Descriptors,
        options: ServingOptions,
    ) -> Result<Server, Vec<Diagnostic>> {
        Serving::start(config, material, descriptors, options).map(|serving| Server::Running(Box::new(serving)))
    }

    /// Serves another configuration from now on.
    pub fn reload(&self, config: Config, material: &Material, descriptors: Descriptors) -> Result<(), Vec<Diagnostic>> {
        match self {
            Server::Running(serving) => serving.reload(config, material, descriptors),
            Server::Leaving(..) | Server::Gone => Ok(()),
        }
    }

    /// Keeps the transaction log as `config` says from now on.
    pub fn keep_log(&self, config: &Config) {
        if let Server::Running(serving) = self {
            serving.keep_log(transaction_log::settings(config));
        }
    }

    /// The VCLs that requests are answered by, with their paths in the configuration.
    pub fn vcls(&self) -> Vec<(PathBuf, Arc<Vcl>)> {
        match self {
            Server::Running(serving) => serving.vcls(),
            Server::Leaving(..) | Server::Gone => Vec::new(),
        }
    }

    /// Bans what the words of the command `ban` say.
    pub async fn ban(&self, words: &[String]) -> Result<(), BanFault> {
        match self {
            Server::Running(serving) => serving.ban(words).await,
            Server::Leaving(..) | Server::Gone => Ok(()),
        }
    }

    /// The bans, newest first.
    pub fn bans(&self) -> Vec<Listed> {
        match self {
            Server::Running(serving) => serving.bans(),
            Server::Leaving(..) | Server::Gone => Vec::new(),
        }
    }

    /// What was counted since the workers were started.
    pub fn counted(&self) -> Option<Counted> {
        match self {
            Server::Running(serving) => Some(serving.counted()),
            Server::Leaving(..) | Server::Gone => None,
        }
    }

    /// Returns when new requests are answered by the last configuration that was given. A worker that is busy is not waited
    /// for.
    pub async fn settled(&self) {
        if let Server::Running(serving) = self {
            let _ = timeout(SETTLING, serving.settled()).await;
        }
    }

    /// Writes to other files from now on.
    pub fn reopen(&self, logs: Vec<OpenLog>) {
        match self {
            Server::Running(serving) => serving.reopen(logs),
            Server::Leaving(_, files) => {
                files.adopt(logs.into_iter().map(|(path, descriptor)| (path, File::from(descriptor))));
            }
            Server::Gone => {}
        }
    }

    /// Writes to the error log.
    pub fn log(&self, level: LogLevel, message: &str) {
        if let Server::Running(serving) = self {
            serving.log(level, message);
        }
    }

    /// Accepts nothing new, and ends when the running requests are done.
    pub fn quit(&mut self) {
        if let Server::Running(serving) = std::mem::replace(self, Server::Gone) {
            serving.quit();
            *self = Server::leaving(*serving);
        }
    }

    /// Ends now.
    pub fn stop(&mut self) {
        match std::mem::replace(self, Server::Gone) {
            Server::Running(serving) => {
                serving.stop();
                *self = Server::leaving(*serving);
            }
            // After a quit, a stop gives no more time: the process ends.
            Server::Leaving(..) | Server::Gone => {}
        }
    }

    fn leaving(serving: Serving) -> Server {
        let files = serving.log_files();
        Server::Leaving(join(serving), files)
    }

    /// Returns when the workers have ended. The future may be dropped while it waits.
    pub async fn ended(&mut self) {
        match self {
            Server::Running(_) => std::future::pending().await,
            Server::Leaving(workers, _) => {
                let _ = workers.await;
                *self = Server::Gone;
            }
            Server::Gone => {}
        }
    }
}

/// Waits for the workers on a separate thread, because that blocks.
fn join(serving: Serving) -> oneshot::Receiver<()> {
    let (done, workers) = oneshot::channel();
    thread::spawn(move || {
        serving.join();
        let _ = done.send(());
    });
    workers
}
