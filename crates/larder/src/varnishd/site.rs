//! What is served: configuration, sockets, workers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use larder_conf::MemoryLoader;
use larder_conf::model::LogLevel;
use larder_server::ask::Desk;
use larder_server::vsl::Hub;

use super::listen::Found;
use super::loaded::{READY, Served};
use super::nginx_conf;
use super::settings::Settings;
use super::storages::Storage;
use crate::configuration::{self, Configuration};
use crate::generation::{self, Generation, StartError};
use crate::hostname::hostname;
use crate::log::{Log, Sink};
use crate::logs::{self, Links};
use crate::oserror::CallFailed;
use crate::paths::DefaultLog;
use crate::serving::{Server, ServingOptions};
use crate::sockets;
use crate::tell_socket::TellSocket;

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
    /// The sockets of the folder, which go to the account that serves and its group.
    pub sockets: Vec<TellSocket>,
    /// The transaction log.
    pub transactions: Arc<Hub>,
    /// Where questions about what is done are asked.
    pub desk: Arc<Desk>,
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
    /// The names of the VCLs that are served, with their paths in the configuration, the active one first.
    names: Vec<(PathBuf, String)>,
}

impl Fixed {
    /// The configuration for a VCL; without one, every answer is a 503.
    pub fn configuration(
        &self,
        settings: &Settings,
        served: Option<&Served<'_>>,
        user: Option<&str>,
    ) -> Result<Configuration, configuration::Rejected> {
        let vcls = served.map(Served::all).unwrap_or_default();
        let labels: Vec<_> =
            served.iter().flat_map(|served| served.labels.iter().chain(&served.ready_labels)).collect();
        let mut labels: Vec<(String, &Path)> =
            labels.into_iter().map(|(label, vcl)| ((*label).to_owned(), &*vcl.place)).collect();
        let ready = served.iter().flat_map(|served| &served.ready).enumerate();
        labels.extend(ready.map(|(number, vcl)| (format!("{READY}{number}"), &*vcl.place)));
        let names: Vec<(&str, &Path)> = vcls.iter().map(|vcl| (&*vcl.name, &*vcl.place)).collect();
        let text = nginx_conf::write(&nginx_conf::Facts {
            endpoints: &self.endpoints,
            settings,
            storages: &self.storages,
            folder: &self.folder,
            identity: &self.identity,
            user,
            log: &self.log,
            vcl: served.map(|served| &*served.vcl.place),
            labels: &labels,
            names: &names,
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
        let mut files = MemoryLoader::new();
        files.add(CONF_FILE, text);
        let own = vcls.iter().map(|vcl| (vcl.place.clone(), vcl.loader(&vcl.place))).collect();
        Configuration::with_vcls(surroundings, files, own)
    }
}

impl Site {
    /// Opens the sockets, and becomes `user` if that can be chosen.
    pub async fn open(fixed: Fixed, settings: &Settings, user: Option<&str>, log: &Log) -> Result<Site, StartError> {
        let configuration = fixed.configuration(settings, None, user)?;
        let workers = generation::worker_count(&configuration);
        let generation = Generation::open_by(Links::OfRoot, configuration, workers, &[], log).await?;
        fixed.endpoints.iter().try_for_each(Found::give_rights)?;
        if let Some(account) = generation.account.as_ref().filter(|account| account.uid != 0) {
            logs::give_all(&generation.logs, account)?;
            for socket in &fixed.sockets {
                let given = socket.give(account.uid, account.gid);
                given.map_err(|error| CallFailed::on("chown", socket.path().display(), error))?;
            }
            account.become_it()?;
        }
        Ok(Site { fixed, workers, generation, server: None, names: Vec::new() })
    }

    /// Whether requests are answered.
    pub fn is_running(&self) -> bool {
        self.server.is_some()
    }

    /// The VCLs that requests are answered by, as they run, with their names: the active one, and those to which it may
    /// give requests.
    pub fn vcls(&self) -> Vec<(&str, Arc<larder_server::Vcl>)> {
        let running = self.server.as_ref().map(Server::vcls).unwrap_or_default();
        let found = self.names.iter().filter_map(|(path, name)| {
            let (_, vcl) = running.iter().find(|(known, _)| known == path)?;
            Some((name.as_str(), Arc::clone(vcl)))
        });
        found.collect()
    }

    /// How many workers there are when requests are answered.
    pub fn workers(&self) -> usize {
        self.workers
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
    pub fn try_out(&self, settings: &Settings, served: &Served<'_>) -> Result<(), StartError> {
        self.fixed.configuration(settings, Some(served), None)?;
        Ok(())
    }

    /// Starts the workers, or if they run, has them serve this from now on. After an error everything is as it was.
    pub async fn serve(&mut self, settings: &Settings, served: &Served<'_>, log: &Log) -> Result<(), StartError> {
        let configuration = self.fixed.configuration(settings, Some(served), None)?;
        let listeners = &self.generation.listeners;
        let generation = Generation::open_by(Links::OfRoot, configuration, self.workers, listeners, log).await?;
        let descriptors = generation.descriptors().map_err(|error| CallFailed::new("dup", error))?;
        let configuration = &generation.configuration;
        let config = configuration.config.clone();
        match &self.server {
            Some(server) => {
                server
                    .reload(config, &configuration.material, descriptors)
                    .map_err(|diagnostics| configuration.reject(&diagnostics))?;
                // Who was told that a VCL is active may ask for a page next.
                server.settled().await;
            }
            None => {
                let (log, desk) = (Arc::clone(&self.fixed.transactions), Arc::clone(&self.fixed.desk));
                let options = ServingOptions { workers: self.workers, respawned: 0, reloads: 0, log, desk };
                let server = Server::start(config, &configuration.material, descriptors, options)
                    .map_err(|diagnostics| configuration.reject(&diagnostics))?;
                self.server = Some(server);
            }
        }
        self.generation = generation;
        self.names = served.all().into_iter().map(|vcl| (vcl.place.clone(), vcl.name.clone())).collect();
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

/// The name of the configuration in messages.
const CONF_FILE: &str = "larder-varnishd.conf";

#[cfg(test)]
mod tests {
    use super::super::care::Care;
    use super::super::vcls::Vcl;
    use super::super::{listen, storages};
    use super::*;

    #[test]
    fn every_configuration_that_we_write_can_be_read() {
        let endpoints = ["127.0.0.1:8080", "[::1]:81,PROXY", "/run/a b.sock,mode=600", "@name"]
            .map(|text| listen::parse(text, 0).unwrap());
        for storage in ["malloc", "malloc,1g", "a=default,1m", "file,/var/a b,1g"] {
            let fixed = Fixed {
                endpoints: listen::resolve(&endpoints).unwrap(),
                storages: storages::with_defaults(vec![storages::parse(storage, 0).unwrap()]),
                folder: "/srv/v \"\\".into(),
                identity: "me".to_owned(),
                log: "stderr".to_owned(),
                sockets: Vec::new(),
                transactions: Arc::default(),
                desk: Arc::default(),
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
                place: "<a>".into(),
                care: Care::new(),
                files: vec![("<a>".into(), b"vcl 4.1; backend default none;".to_vec())],
                globs: Vec::new(),
                labels: Vec::new(),
                modules: Vec::new(),
            };
            let configuration = fixed.configuration(&settings, Some(&Served::alone(&vcl)), None);
            assert!(configuration.is_ok(), "{}", configuration.unwrap_err());
        }
    }
}
