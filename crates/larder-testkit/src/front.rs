//! What may stand before an origin: a reader of PROXY protocol headers, TLS, or both.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{HandshakeKind, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use crate::certificates::{Certificate, Certificates};

/// Passes connections on to an origin, once it has read what they begin with.
#[derive(Debug)]
pub struct Front {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<FrontSeen>>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// What a [`Front`] reads before the origin's own bytes.
#[derive(Clone, Debug)]
pub struct FrontOptions {
    /// A header of the PROXY protocol.
    pub proxy_protocol: bool,
    /// TLS with this certificate.
    pub certificate: Option<Certificate>,
    /// Clients have to show a certificate of this authority, DER.
    pub clients: Option<Vec<u8>>,
    /// Only TLS 1.2 is spoken.
    pub only_1_2: bool,
}

/// A connection as a [`Front`] saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FrontSeen {
    /// The header of the PROXY protocol, as it came.
    pub header: Vec<u8>,
    /// The name that was sent in TLS.
    pub name: Option<String>,
    /// `TLSv1_3`, as rustls calls it.
    pub version: String,
    /// Whether a session was resumed.
    pub is_resumed: bool,
    /// The certificate that was shown, DER.
    pub certificate: Vec<u8>,
}

impl FrontOptions {
    /// TLS with this certificate, for anybody.
    pub fn tls(certificate: &Certificate) -> FrontOptions {
        let certificate = Some(certificate.clone());
        FrontOptions { proxy_protocol: false, certificate, ..FrontOptions::proxy_protocol() }
    }

    /// A header of the PROXY protocol alone.
    pub fn proxy_protocol() -> FrontOptions {
        FrontOptions { proxy_protocol: true, certificate: None, clients: None, only_1_2: false }
    }

    /// Only for who shows a certificate of `authority`.
    pub fn only_for(mut self, authority: &Certificates) -> FrontOptions {
        self.clients = Some(authority.authority_der());
        self
    }

    /// Speaks TLS 1.2 alone.
    pub fn version_1_2(mut self) -> FrontOptions {
        self.only_1_2 = true;
        self
    }

    fn acceptor(&self) -> Option<TlsAcceptor> {
        let certificate = self.certificate.as_ref()?;
        let versions = if self.only_1_2 { vec![&rustls::version::TLS12] } else { rustls::ALL_VERSIONS.to_vec() };
        let builder = ServerConfig::builder_with_protocol_versions(&versions);
        let builder = match &self.clients {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from(authority.clone())).expect("the authority's certificate is sound");
                let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).build().expect("there is one authority");
                builder.with_client_cert_verifier(verifier)
            }
        };
        let key = PrivateKeyDer::try_from(certificate.key_der.clone()).expect("the key is PKCS#8");
        let chain = vec![CertificateDer::from(certificate.der.clone())];
        let config = builder.with_single_cert(chain, key).expect("the key belongs to the certificate");
        Some(TlsAcceptor::from(Arc::new(config)))
    }
}

impl Front {
    /// Listens on a free port of 127.0.0.1 for the origin at `behind`.
    pub fn start(options: &FrontOptions, behind: SocketAddr) -> io::Result<Front> {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (acceptor, reads_header, sees) = (options.acceptor(), options.proxy_protocol, Arc::clone(&seen));
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                let Ok(listener) = TcpListener::from_std(listener) else { return };
                tokio::select! {
                    () = accept(listener, acceptor, reads_header, behind, sees) => {}
                    _ = stopped => {}
                }
            });
        });
        Ok(Front { address, seen, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The connections that came to the origin, in order.
    pub fn seen(&self) -> Vec<FrontSeen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

async fn accept(
    listener: TcpListener,
    acceptor: Option<TlsAcceptor>,
    reads_header: bool,
    behind: SocketAddr,
    seen: Arc<Mutex<Vec<FrontSeen>>>,
) {
    while let Ok((stream, _)) = listener.accept().await {
        let (acceptor, seen) = (acceptor.clone(), Arc::clone(&seen));
        tokio::spawn(async move {
            // What breaks here is seen at the other end.
            drop(pass_on(stream, acceptor, reads_header, behind, &seen).await);
        });
    }
}

async fn pass_on(
    mut stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    reads_header: bool,
    behind: SocketAddr,
    seen: &Mutex<Vec<FrontSeen>>,
) -> io::Result<()> {
    let mut connection = FrontSeen::default();
    if reads_header {
        connection.header = header(&mut stream).await?;
    }
    let mut stream: Box<dyn Duplex> = match acceptor {
        None => Box::new(stream),
        Some(acceptor) => {
            let stream = acceptor.accept(stream).await?;
            let end = stream.get_ref().1;
            connection.name = end.server_name().map(str::to_owned);
            connection.version = end.protocol_version().map(|version| format!("{version:?}")).unwrap_or_default();
            connection.is_resumed = end.handshake_kind() == Some(HandshakeKind::Resumed);
            let certificate = end.peer_certificates().and_then(<[_]>::first);
            connection.certificate = certificate.map(|certificate| certificate.to_vec()).unwrap_or_default();
            Box::new(stream)
        }
    };
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
    let mut origin = TcpStream::connect(behind).await?;
    tokio::io::copy_bidirectional(&mut stream, &mut origin).await.map(drop)
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// A header of version 1 or 2, read by its own length.
async fn header(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    const V2_FIXED_BYTES: usize = 16;
    const V2_START: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
    let mut header = Vec::new();
    loop {
        header.push(stream.read_u8().await?);
        if header.len() == V2_FIXED_BYTES && header.starts_with(V2_START) {
            let mut rest = vec![0; usize::from(u16::from_be_bytes([header[14], header[15]]))];
            stream.read_exact(&mut rest).await?;
            header.extend(rest);
            return Ok(header);
        }
        if header.ends_with(b"\n") && header.starts_with(b"PROXY ") {
            return Ok(header);
        }
    }
}
