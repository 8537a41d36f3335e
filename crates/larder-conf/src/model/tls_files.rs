//! The files that TLS needs.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use super::{At, CertificatePair, Config, OriginTls, PemSource, Settings, Tls, TlsFile, TlsFilePurpose, each_location};

/// Every file of `ssl_*`, `proxy_ssl_*`, `larder_acme_account` and `larder_cluster` whose name has no variables, in the order of the
/// configuration; each once for a purpose, at the first place that names it.
///
/// `proxy_ssl_*` counts wherever it is written, also where nothing is sent to an origin over TLS, because a
/// `proxy_pass` with a variable may name one; `ssl_*` only in servers that listen with TLS.
pub fn tls_files(config: &Config) -> Vec<TlsFile> {
    let mut files = Files::default();
    if let Some(account) = &config.acme {
        files.add(account.trusted_certificate.as_ref(), TlsFilePurpose::TrustedCertificate);
    }
    if let Some(cluster) = &config.http.cluster {
        files.add(cluster.ca.as_ref(), TlsFilePurpose::TrustedCertificate);
    }
    files.settings(&config.http.settings);
    for server in &config.http.servers {
        if server.listens.iter().any(|listen| listen.ssl) {
            files.server(&server.tls);
        }
        each_location(server, &mut |location| files.settings(&location.settings));
    }
    files.list
}

#[derive(Default)]
struct Files {
    list: Vec<TlsFile>,
    known: HashSet<(PathBuf, TlsFilePurpose)>,
    /// Settings of `proxy_*` are shared by the levels that inherit them.
    seen: HashSet<*const super::Proxy>,
}

impl Files {
    fn add(&mut self, path: Option<&At<PathBuf>>, purpose: TlsFilePurpose) {
        let Some(At { value: path, span }) = path else {
            return;
        };
        if self.known.insert((path.clone(), purpose)) {
            self.list.push(TlsFile { path: path.clone(), purpose, span: *span });
        }
    }

    fn pair(&mut self, pair: &CertificatePair) {
        for (source, purpose) in [(&pair.certificate, TlsFilePurpose::Certificate), (&pair.key, TlsFilePurpose::Key)] {
            if let PemSource::File(path) = source {
                self.add(Some(path), purpose);
            }
        }
    }

    fn server(&mut self, tls: &Tls) {
        tls.certificates.iter().for_each(|pair| self.pair(pair));
        self.add(tls.password_file.as_ref(), TlsFilePurpose::Passwords);
        for key in &tls.session_ticket_keys {
            self.add(Some(key), TlsFilePurpose::TicketKey);
        }
        self.add(tls.client_certificate.as_ref(), TlsFilePurpose::ClientCertificate);
        self.add(tls.trusted_certificate.as_ref(), TlsFilePurpose::TrustedCertificate);
        self.add(tls.crl.as_ref(), TlsFilePurpose::Crl);
        if let Some(stapling) = &tls.stapling {
            self.add(stapling.file.as_ref(), TlsFilePurpose::StaplingAnswer);
        }
    }

    fn origin(&mut self, tls: &OriginTls) {
        if let Some(pair) = &tls.certificate {
            self.pair(pair);
        }
        self.add(tls.password_file.as_ref(), TlsFilePurpose::Passwords);
        self.add(tls.trusted_certificate.as_ref(), TlsFilePurpose::TrustedCertificate);
        self.add(tls.crl.as_ref(), TlsFilePurpose::Crl);
    }

    fn settings(&mut self, settings: &Settings) {
        if self.seen.insert(Arc::as_ptr(&settings.proxy)) {
            self.origin(&settings.proxy.tls);
        }
    }
}
