//! What is served: configuration, sockets, workers.

use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use larder_conf::model::LogLevel;
use tokio::time::timeout;

use super::listen::Found;
use super::nginx_conf;
use super::settings::Settings;
use super::storages::Storage;
use super::vcls::Vcl;
use crate::configuration::{self, Configuration};
use crate::generation::{self, Generation, StartError};
use crate::hostname::hostname;
use crate::log::{Log, Sink};
use crate::oserror::CallFailed;
use crate::paths::DefaultLog;
use crate::serving::{Server, ServingOptions};
use crate::sockets;

/// What stays as it is while the process runs.
pub struct Fixed {
    /// Where requests come in.
    pub endpoints: Vec<Found>,
    /// Where pages are stored.
    pub storages: Vec<Storage>,
    /// The folder of this server.
    pub folder: PathBuf,
    /// The name of this server.
    pub identity: String,
    /// Where the error log is.
    pub log: String,
    /// What the account that serves has to own, besides the folders of the configuration.
    pub owned: Vec<PathBuf>,
}

/// The sockets, and the workers if they run.
///
/// ```text
/// Stopped --start--> Running --stop--> Stopped
/// ```
pub struct Site {
    fixed: Fixed,
    workers: usize,
    /// The sockets that are held, and what was served by them at last.
    generation: Generation,
    server: Option<Server>,
}

impl Fixed {
    /// The configuration for a VCL; without one, every answer is a 503.
    pub fn configuration(
        &self,
        settings: &Settings,
        vcl: Option<&Vcl>,
        user: Option<&str>,
    ) -> Result<Configuration, configuration::Rejected> {
        let text = nginx_conf::write(&nginx_conf::Facts {
            endpoints: &self.endpoints,
            settings,
            storages: &self.storages,
            folder: &self.folder,
            identity: &self.identity,
            user,
            log: &self.log,
            vcl: vcl.map(|vcl| &*vcl.path),
        });
        let surroundings = configuration::Surroundings {
            conf_file: CONF_FILE.into(),
            conf_prefix: PathBuf::new(),
            prefix: "/".into(),
            globals: None,
            is_root: nix::unistd::geteuid().is_root(),
            hostname: hostname(),
            error_log: DefaultLog::Stderr,
        };
        let mut files = vcl.map(Vcl::loader).unwrap_or_default();
        files.add(CONF_FILE, text);
        Configuration::from_memory(surroundings, files)
    }
}

impl Site {
    /// Opens the sockets, and becomes `user` if that can be chosen.
    pub async fn open(fixed: Fixed, settings: &Settings, user: Option<&str>, log: &Log) -> Result<Site, StartError> {
        let configuration = fixed.configuration(settings, None, user)?;
        let workers = generation::worker_count(&configuration);
        let generation = Generation::open(configuration, workers, &[], log).await?;
        fixed.endpoints.iter().try_for_each(Found::give_rights)?;
        if let Some(account) = generation.account.as_ref().filter(|account| account.uid != 0) {
            for path in &fixed.owned {
                chown(path, Some(account.uid), None).map_err(|error| CallFailed::on("chown", path.display(), error))?;
            }
            account.become_it()?;
        }
        Ok(Site { fixed, workers, generation, server: None })
    }

    /// Whether requests are answered.
    pub fn is_running(&self) -> bool {
        self.server.is_some()
    }

    /// The VCL that requests are answered by, as it runs.
    pub fn vcl(&self) -> Option<Arc<larder_server::Vcl>> {
        self.server.as_ref()?.vcls().into_iter().next()
    }

    /// The workers, if requests are answered.
    pub fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// The logs for messages of our own.
    pub fn sinks(&self) -> Vec<Sink> {
        self.generation.sinks()
    }

    /// What stays as it is.
    pub fn fixed(&self) -> &Fixed {
        &self.fixed
    }

    /// Whether a VCL can be served, and if not, why.
    pub fn try_out(&self, settings: &Settings, vcl: &Vcl) -> Result<(), StartError> {
        self.fixed.configuration(settings, Some(vcl), None)?;
        Ok(())
    }

    /// Starts the workers, or if they run, has them serve this from now on. After an error everything is as it was.
    pub async fn serve(&mut self, settings: &Settings, vcl: &Vcl, log: &Log) -> Result<(), StartError> {
        let configuration = self.fixed.configuration(settings, Some(vcl), None)?;
        let generation = Generation::open(configuration, self.workers, &self.generation.listeners, log).await?;
        let descriptors = generation.descriptors().map_err(|error| CallFailed::new("dup", error))?;
        let configuration = &generation.configuration;
        let config = configuration.config.clone();
        match &self.server {
            Some(server) => {
                server
                    .reload(config, &configuration.material, descriptors)
                    .map_err(|diagnostics| configuration.reject(&diagnostics))?;
                // Who was told that a VCL is active may ask for a page next. A worker that is busy is not waited for.
                let _ = timeout(SETTLING, server.settled()).await;
            }
            None => {
                let options = ServingOptions { workers: self.workers };
                let server = Server::start(config, &configuration.material, descriptors, options)
                    .map_err(|diagnostics| configuration.reject(&diagnostics))?;
                self.server = Some(server);
            }
        }
        self.generation = generation;
        Ok(())
    }

    /// Ends the workers. Their sockets stay open: who connects waits until they are started again.
    pub async fn stop(&mut self, log: &Log) {
        if let Some(mut server) = self.server.take() {
            server.stop();
            server.ended().await;
            log.write(LogLevel::Notice, "requests are no longer answered");
        }
    }

    /// Removes the files of sockets.
    pub fn close(self) {
        sockets::remove_unix(&self.generation.listeners, &[]);
    }
}

/// How long the CLI waits until all workers have the new configuration.
const SETTLING: Duration = Duration::from_secs(1);
/// The name of the configuration in messages.
const CONF_FILE: &str = "larder-varnishd.conf";

#[cfg(test)]
mod tests {
    use super::super::{listen, storages};
    use super::*;

    #[test]
    fn every_configuration_that_we_write_can_be_read() {
        let endpoints = ["127.0.0.1:8080", "[::1]:81,PROXY", "/run/a b.sock,mode=600", "@name"]
            .map(|text| listen::parse(text, 0).unwrap());
        for storage in ["malloc", "malloc,1g", "a=default,1k", "file,/var/a b,1g"] {
            let fixed = Fixed {
                endpoints: listen::resolve(&endpoints).unwrap(),
                storages: storages::with_defaults(vec![storages::parse(storage, 0).unwrap()]),
                folder: "/srv/v \"\\".into(),
                identity: "me".to_owned(),
                log: "stderr".to_owned(),
                owned: Vec::new(),
            };
            let mut settings = Settings::default();
            for (name, value) in [
                ("http_max_hdr", "32"),
                ("http_req_hdr_len", "40"),
                ("http_req_size", "256"),
                ("timeout_idle", "0"),
                ("idle_send_timeout", "0"),
                ("listen_depth", "0"),
                ("cc_command", "\"a\" $b {\\};"),
            ] {
                let configuration = fixed.configuration(&settings, None, Some("root"));
                let configuration = configuration.unwrap_or_else(|rejected| panic!("{storage} {name}: {rejected}"));
                let listens = configuration.config.http.servers[0].listens.len();
                assert_eq!(listens, 4, "{storage}");
                settings.set(name, value).unwrap();
            }
            let vcl = Vcl {
                name: "a".to_owned(),
                path: "<a>".into(),
                files: vec![("<a>".into(), b"vcl 4.1; backend default none;".to_vec())],
                globs: Vec::new(),
            };
            let configuration = fixed.configuration(&settings, Some(&vcl), None);
            assert!(configuration.is_ok(), "{}", configuration.unwrap_err());
        }
    }
}
