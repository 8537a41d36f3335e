//! A configuration with the sockets and logs that the supervisor has opened for it.

use std::io;

use larder_conf::Diagnostic;

use crate::account::{self, Account};
use crate::configuration::{Configuration, Rejected};
use crate::folders;
use crate::limits;
use crate::log::{Log, Sink};
use crate::logs::{self, Links, OpenLog};
use crate::oserror::CallFailed;
use crate::serving::Descriptors;
use crate::sockets::{self, Listener, OpenError};

/// A configuration, the sockets it listens at, and its log files.
#[derive(Debug)]
pub struct Generation {
    /// The configuration.
    pub configuration: Configuration,
    /// The account of the serving process.
    pub account: Option<Account>,
    /// Its listening sockets.
    pub listeners: Vec<Listener>,
    /// Its log files.
    pub logs: Vec<OpenLog>,
}

/// Why a configuration cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It is wrong, and the text says where.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The system refused something.
    #[error(transparent)]
    Call(#[from] CallFailed),
    /// Addresses are in use.
    #[error(transparent)]
    Sockets(#[from] OpenError),
}

impl StartError {
    /// The reason as text, in nginx's format.
    pub fn rendered(&self) -> String {
        match self {
            StartError::Rejected(rejected) => rejected.rendered.clone(),
            StartError::Call(failure) => format!("larder: [emerg] {failure}\n"),
            StartError::Sockets(failure) => format!("larder: [emerg] {failure}\n"),
        }
    }
}

impl Generation {
    /// Opens what `configuration` needs, in nginx's order: folders, logs, sockets. Sockets in `held` are reused.
    pub async fn open(
        configuration: Configuration,
        workers: usize,
        held: &[Listener],
        log: &Log,
    ) -> Result<Generation, StartError> {
        Generation::open_by(Links::All, configuration, workers, held, log).await
    }

    /// The same; logs are found by these links.
    pub async fn open_by(
        links: Links,
        configuration: Configuration,
        workers: usize,
        held: &[Listener],
        log: &Log,
    ) -> Result<Generation, StartError> {
        let account = find_account(&configuration)?;
        folders::make_all(&configuration.config, account.as_ref())?;
        let logs = logs::open_all(&logs::files(&configuration.config), links)?;
        let plans = sockets::plan(&configuration.config);
        let listeners = sockets::open_all(&plans, workers, held, log).await?;
        Ok(Generation { configuration, account, listeners, logs })
    }

    /// The logs for the supervisor's own messages.
    pub fn sinks(&self) -> Vec<Sink> {
        logs::sinks(&self.configuration.config.main.error_log, &self.logs)
    }

    /// Copies of all descriptors, for a server in this process.
    pub fn descriptors(&self) -> io::Result<Descriptors> {
        let listeners = self.listeners.iter().map(|listener| listener.descriptors());
        Ok(Descriptors { listeners: listeners.collect::<io::Result<_>>()?, logs: self.log_descriptors()? })
    }

    /// Copies of the descriptors of logs.
    pub fn log_descriptors(&self) -> io::Result<Vec<OpenLog>> {
        let copy = |(path, descriptor): &OpenLog| Ok((path.clone(), descriptor.try_clone()?));
        self.logs.iter().map(copy).collect()
    }
}

/// How many workers `configuration` asks for.
pub fn worker_count(configuration: &Configuration) -> usize {
    limits::worker_count(configuration.config.main.worker_processes)
}

/// The account `configuration` names; when there is none, an error at the directive.
pub fn find_account(configuration: &Configuration) -> Result<Option<Account>, Rejected> {
    account::of(&configuration.config.main).map_err(|error| {
        let diagnostic = Diagnostic::error(error.to_string());
        let diagnostic = match &configuration.config.main.user {
            Some(user) => diagnostic.at(user.span),
            None => diagnostic,
        };
        configuration.reject(&[*diagnostic])
    })
}
