//! The TLS settings of a `server` block, and its certificates. `handshake.rs` chooses what a client gets of them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use larder_acme::ChallengeCertificate;
use larder_conf::model::{AskedAbout, CertificateCache};
use larder_http::Time;
use larder_tls::{CertifiedKey, Hello, ServerConfig, Session};
use parking_lot::Mutex;

use crate::acme::Issued;
use crate::clock;
use crate::ocsp::ClientStatus;
use crate::staple::Staple;
use crate::text::Text;

/// The TLS settings of a server.
pub struct ServerTls {
    /// `ssl_reject_handshake`.
    pub rejects: bool,
    /// The settings for connections that may speak HTTP/2.
    pub with_http2: Arc<ServerConfig>,
    /// The settings for connections with HTTP/1 only.
    pub without_http2: Arc<ServerConfig>,
    /// The source of the certificate.
    pub certificate: Certificate,
    /// `ssl_stapling`: the certificates whose OCSP answers are fetched.
    pub staples: Vec<Arc<Staple>>,
    /// `ssl_ocsp`.
    pub ocsp: Option<ClientStatus>,
}

/// What clients' certificates are checked against. Two equal values accept the same certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientJudge {
    /// `ssl_client_certificate`.
    pub authorities: Option<PathBuf>,
    /// `ssl_trusted_certificate`.
    pub trusted: Option<PathBuf>,
    /// `ssl_crl`.
    pub revoked: Option<PathBuf>,
    /// `ssl_verify_depth`.
    pub depth: u32,
    /// `ssl_ocsp`.
    pub asks: Option<AskedAbout>,
}

/// Where a server's certificate comes from.
pub enum Certificate {
    /// Files; they are part of the settings for handshakes.
    Configured,
    /// `ssl_certificate` with variables.
    ByVariable(Box<ByVariable>),
    /// `larder_acme`: the latest one that was issued.
    Issued(Arc<Issued>),
}

/// A certificate whose path is known only when the client has named its server.
pub struct ByVariable {
    /// `ssl_certificate`.
    pub certificate: Text,
    /// `ssl_certificate_key`.
    pub key: Text,
    /// The folder for paths without a leading `/`.
    pub folder: PathBuf,
    /// The passwords of `ssl_password_file`.
    pub passwords: Vec<Vec<u8>>,
    /// `ssl_certificate_cache`: how long a certificate is used before its files are checked again.
    pub cache: Option<CertificateCache>,
    /// The certificates that were read, by the paths of certificate and key.
    pub known: Mutex<HashMap<(PathBuf, PathBuf), Known>>,
}

/// A certificate that was read from files, which may have changed since.
pub struct Known {
    stamps: [Stamp; 2],
    key: CertifiedKey,
    /// When the files were last checked, and when the certificate was last used.
    checked: Time,
    used: Time,
    /// Whether its key has a password: as in nginx, the files of such a certificate are checked at every use.
    is_encrypted: bool,
}

type Stamp = (SystemTime, u64);

/// How many certificates from variables are kept.
const KNOWN_MAX: usize = 1024;

impl ServerTls {
    /// A session for a certificate authority that checks by tls-alpn-01 whether a name is ours (RFC 8737).
    pub fn challenge_session(&self, hello: Hello, answer: &ChallengeCertificate) -> Result<Session, String> {
        let key = CertifiedKey::from_der(vec![answer.cert_der.clone()], &answer.key_der);
        let key = key.map_err(|error| format!("the certificate for a challenge cannot be used: {error}"))?;
        Ok(Session::accept_acme(&self.without_http2, hello, &key))
    }
}

impl ByVariable {
    /// Loads the certificate and key that the variables name: a path, or `data:` and PEM.
    pub fn load(&self, certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, String> {
        match (certificate.strip_prefix(b"data:"), key.strip_prefix(b"data:")) {
            (Some(certificate), Some(key)) => self.made(certificate, key).map_err(|why| format!("data: {why}")),
            (None, None) => self.read(&self.path(certificate), &self.path(key)),
            (Some(pem), None) => {
                let path = self.path(key);
                self.made(pem, &read(&path)?).map_err(|why| format!("{}: {why}", path.display()))
            }
            (None, Some(pem)) => {
                let path = self.path(certificate);
                self.made(&read(&path)?, pem).map_err(|why| format!("{}: {why}", path.display()))
            }
        }
    }

    fn path(&self, name: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt as _;
        self.folder.join(std::ffi::OsStr::from_bytes(name))
    }

    fn made(&self, certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, larder_tls::KeyError> {
        CertifiedKey::from_pem(certificate, key, &self.passwords)
    }

    /// The certificate in these files; they are read again if one has changed.
    fn read(&self, certificate: &Path, key: &Path) -> Result<CertifiedKey, String> {
        let names = (certificate.to_owned(), key.to_owned());
        let now = clock::now();
        if let Some(cache) = &self.cache
            && let Some(known) = self.known.lock().get_mut(&names).filter(|known| !known.is_encrypted)
            && now.since(known.checked) <= cache.valid
        {
            known.used = now;
            return Ok(known.key.clone());
        }
        let stamps = [stamp(certificate)?, stamp(key)?];
        if let Some(known) = self.known.lock().get_mut(&names).filter(|known| known.stamps == stamps) {
            (known.checked, known.used) = (now, now);
            return Ok(known.key.clone());
        }
        let key_pem = read(key)?;
        let is_encrypted = memchr::memmem::find(&key_pem, b"ENCRYPTED").is_some();
        let made = self.made(&read(certificate)?, &key_pem);
        let made = made.map_err(|why| format!("cannot load certificate \"{}\": {why}", certificate.display()))?;
        let mut all = self.known.lock();
        if let Some(cache) = &self.cache {
            all.retain(|_, known| now.since(known.used) <= cache.inactive);
        }
        // nginx counts a certificate and its key as two entries.
        let known_max = self.cache.map_or(KNOWN_MAX, |cache| (cache.max / 2).max(1));
        while all.len() >= known_max
            && let Some(oldest) = all.iter().min_by_key(|(_, known)| known.used).map(|(names, _)| names.clone())
        {
            all.remove(&oldest);
        }
        all.insert(names, Known { stamps, key: made.clone(), checked: now, used: now, is_encrypted });
        Ok(made)
    }
}

fn stamp(path: &Path) -> Result<Stamp, String> {
    let metadata = std::fs::metadata(path).map_err(|error| cannot_load(path, &error))?;
    Ok((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), metadata.len()))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| cannot_load(path, &error))
}

fn cannot_load(path: &Path, error: &std::io::Error) -> String {
    format!("cannot load certificate \"{}\": {error}", path.display())
}
