//! Which servers take part, and where their programs are.

use super::LoadError;
use super::shop::Extra;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

/// Which server, and with which settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// nginx as people run it: an access log, no `open_file_cache`.
    Nginx,
    /// nginx at its best: `open_file_cache`, no log.
    NginxTuned,
    /// Debian's Varnish with its memory storage.
    Varnish,
    /// larder with the very file of `Nginx`.
    Larder,
    /// larder with the very file of `NginxTuned`.
    LarderTuned,
    /// The same as `LarderTuned`, but that server and location have a `status_zone`.
    LarderZones,
    /// The same as `LarderTuned`, but that it is a node of a cluster, with a Redis of its own.
    LarderCluster,
    /// Another build of larder, with the very file of `Nginx`.
    LarderOld,
    /// Another build of larder, with the very file of `NginxTuned`.
    LarderOldTuned,
    /// `larder varnishd` with the VCL of `Varnish`.
    LarderVcl,
    /// The same with a director of many backends in the VCL.
    LarderVclDirector,
    /// The same with a large ACL in the VCL.
    LarderVclAcl,
    /// The same as `LarderVcl`, but that its transaction log is kept.
    LarderVclLog,
    /// The same as `LarderVcl`, but that 10,000 bans stand.
    LarderVclBans,
    /// Another build of larder, with the VCL of `Varnish`.
    LarderOldVcl,
}

impl Kind {
    const ALL: [Kind; 15] = [
        Kind::Nginx,
        Kind::NginxTuned,
        Kind::Varnish,
        Kind::Larder,
        Kind::LarderTuned,
        Kind::LarderZones,
        Kind::LarderCluster,
        Kind::LarderOld,
        Kind::LarderOldTuned,
        Kind::LarderVcl,
        Kind::LarderVclDirector,
        Kind::LarderVclAcl,
        Kind::LarderVclLog,
        Kind::LarderVclBans,
        Kind::LarderOldVcl,
    ];

    /// As on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Nginx => "nginx",
            Kind::NginxTuned => "nginx-tuned",
            Kind::Varnish => "varnish",
            Kind::Larder => "larder",
            Kind::LarderTuned => "larder-tuned",
            Kind::LarderZones => "larder-zones",
            Kind::LarderCluster => "larder-cluster",
            Kind::LarderOld => "larder-old",
            Kind::LarderOldTuned => "larder-old-tuned",
            Kind::LarderVcl => "larder-vcl",
            Kind::LarderVclDirector => "larder-vcl-director",
            Kind::LarderVclAcl => "larder-vcl-acl",
            Kind::LarderVclLog => "larder-vcl-log",
            Kind::LarderVclBans => "larder-vcl-bans",
            Kind::LarderOldVcl => "larder-old-vcl",
        }
    }

    /// The file that is started.
    pub fn program(self, programs: &Programs) -> Result<PathBuf, LoadError> {
        let (name, named) = match self {
            Kind::Varnish => return Ok("/usr/sbin/varnishd".into()),
            Kind::Nginx | Kind::NginxTuned => ("nginx", &programs.nginx),
            _ if self.is_old() => ("larder", &programs.old),
            _ => ("larder", &programs.larder),
        };
        let path = named.as_ref().ok_or_else(|| LoadError::Missing(name.into()))?;
        path.canonicalize().map_err(|_| LoadError::Usage(format!("there is no {name} at {}", path.display())))
    }

    /// Whether the binary under measurement is ours.
    pub fn is_larder(self) -> bool {
        self.is_current() || self.is_old()
    }

    /// Whether it is the larder that is built unless one is named.
    pub fn is_current(self) -> bool {
        !self.is_old() && !matches!(self, Kind::Nginx | Kind::NginxTuned | Kind::Varnish)
    }

    /// What its VCL has beside that of a shop, if it runs one in the scenario `vcl`.
    pub fn vcl_extra(self) -> Option<Extra> {
        match self {
            Kind::Varnish | Kind::LarderVcl | Kind::LarderVclLog | Kind::LarderVclBans | Kind::LarderOldVcl => {
                Some(Extra::Nothing)
            }
            Kind::LarderVclDirector => Some(Extra::Director),
            Kind::LarderVclAcl => Some(Extra::Acl),
            Kind::Nginx | Kind::NginxTuned | Kind::Larder | Kind::LarderTuned => None,
            Kind::LarderZones | Kind::LarderCluster | Kind::LarderOld | Kind::LarderOldTuned => None,
        }
    }

    /// Whether it is the other build of larder.
    pub fn is_old(self) -> bool {
        matches!(self, Kind::LarderOld | Kind::LarderOldTuned | Kind::LarderOldVcl)
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(name: &str) -> Result<Kind, String> {
        let names = Kind::ALL.map(Kind::name);
        let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("`{name}` is none of {}", names.join(", ")))
    }
}

/// Where the programs are; Varnish is Debian's.
#[derive(Debug, Clone)]
pub struct Programs {
    /// nginx.
    pub nginx: Option<PathBuf>,
    /// Our binary; `None` means it is to be built.
    pub larder: Option<PathBuf>,
    /// Our binary as it was before, or another one to compare with.
    pub old: Option<PathBuf>,
}

impl Programs {
    /// Debian's, and this larder.
    pub fn with_larder(larder: Option<PathBuf>) -> Programs {
        Programs { nginx: Some("/usr/sbin/nginx".into()), larder, old: None }
    }
}

/// What `program` says of its version.
pub fn version_of(kind: Kind, program: &Path) -> String {
    let flag = if kind == Kind::Varnish { "-V" } else { "-v" };
    let Ok(output) = Command::new(program).arg(flag).output() else {
        return String::new();
    };
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_string()
}
