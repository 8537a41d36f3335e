//! What is measured side by side, and how the servers are reached for it.

use super::generator::{Expect, Protocol};
use super::kind::Kind;
use super::origin::Page;
use super::php::HELLO_BYTES;
use std::str::FromStr;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Hits over HTTP/1.1 without TLS, asked for by wrk.
    Plain,
    /// Hits over kept connections with TLS 1.3.
    Tls,
    /// A new connection with a full handshake for every hit.
    Handshake,
    /// A new connection for every hit, resumed by a ticket.
    Resumed,
    /// Hits over HTTP/2 without TLS, several streams a connection.
    H2,
    /// The same over TLS 1.3.
    H2Tls,
    /// Hits on a page of HTML for clients that accept gzip.
    Gzip,
    /// The wait of one visitor while new ones arrive.
    Stall,
    /// Hits over HTTP/1.1 without TLS, a new connection for each.
    Close,
    /// Pages that the origin makes for every request; connections are kept on both sides.
    Pass,
    /// Pages that PHP makes for every request, over kept connections to php-fpm.
    Php,
    /// The same with a new connection to php-fpm for each.
    PhpNew,
    /// Pages that PHP makes, for more visitors than it has children.
    Gate,
    /// Files.
    File,
    /// Hits through the VCL of a shop, for clients that accept gzip.
    Vcl,
    /// A page that includes others by ESI, all hits.
    Esi,
    /// The same for clients that accept gzip.
    EsiGzip,
    /// Several larders whose purges are shared, while nodes and the server between them fail.
    Cluster,
}

/// How visitors reach a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Front {
    /// HTTP/1.1.
    Clear,
    /// HTTP/2 by prior knowledge.
    ClearH2,
    /// HTTP/1.1 over TLS.
    Tls,
    /// HTTP/2 over TLS.
    TlsH2,
}

impl Front {
    /// Whether there is TLS.
    pub fn is_tls(self) -> bool {
        matches!(self, Front::Tls | Front::TlsH2)
    }

    /// Whether HTTP/2 is spoken.
    pub fn is_h2(self) -> bool {
        matches!(self, Front::ClearH2 | Front::TlsH2)
    }

    /// What follows the address in `listen`.
    pub fn listen_parameters(self) -> &'static str {
        match self {
            Front::Clear => "",
            Front::ClearH2 => " http2",
            Front::Tls => " ssl",
            Front::TlsH2 => " ssl http2",
        }
    }

    /// The protocol's name in the hello.
    pub fn alpn(self) -> &'static [u8] {
        if self.is_h2() { b"h2" } else { b"http/1.1" }
    }

    /// What a visitor with `streams` requests at a time speaks.
    pub fn protocol(self, streams: usize) -> Protocol {
        if self.is_h2() { Protocol::Http2 { streams } } else { Protocol::Http1 }
    }
}

impl Scenario {
    /// All there are.
    pub const ALL: [Scenario; 18] = [
        Scenario::Plain,
        Scenario::Tls,
        Scenario::Handshake,
        Scenario::Resumed,
        Scenario::H2,
        Scenario::H2Tls,
        Scenario::Gzip,
        Scenario::Stall,
        Scenario::Close,
        Scenario::Pass,
        Scenario::Php,
        Scenario::PhpNew,
        Scenario::Gate,
        Scenario::File,
        Scenario::Vcl,
        Scenario::Esi,
        Scenario::EsiGzip,
        Scenario::Cluster,
    ];

    /// As on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Scenario::Plain => "plain",
            Scenario::Tls => "tls",
            Scenario::Handshake => "handshake",
            Scenario::Resumed => "resumed",
            Scenario::H2 => "h2",
            Scenario::H2Tls => "h2-tls",
            Scenario::Gzip => "gzip",
            Scenario::Stall => "stall",
            Scenario::Close => "close",
            Scenario::Pass => "pass",
            Scenario::Php => "php",
            Scenario::PhpNew => "php-new",
            Scenario::Gate => "gate",
            Scenario::File => "file",
            Scenario::Vcl => "vcl",
            Scenario::Esi => "esi",
            Scenario::EsiGzip => "esi-gzip",
            Scenario::Cluster => "cluster",
        }
    }

    /// One line on what the numbers are of.
    pub fn title(self) -> &'static str {
        match self {
            Scenario::Plain => "hits over kept connections",
            Scenario::Tls => "hits over kept connections, TLS 1.3",
            Scenario::Handshake => "a new connection, a full TLS 1.3 handshake and a hit; per connection",
            Scenario::Resumed => "a new connection, a TLS 1.3 handshake resumed by ticket and a hit; per connection",
            Scenario::H2 => "hits over HTTP/2, no TLS",
            Scenario::H2Tls => "hits over HTTP/2 and TLS 1.3",
            Scenario::Gzip => "hits on HTML for clients that accept gzip",
            Scenario::Stall => "the wait of one visitor while 1,000 new ones a second make full handshakes",
            Scenario::Close => "a new connection and a hit; per connection",
            Scenario::Pass => "requests passed to the origin, kept connections on both sides",
            Scenario::Php => "requests answered by PHP, kept connections on both sides",
            Scenario::PhpNew => "requests answered by PHP, a new connection to php-fpm for each",
            Scenario::Gate => "requests for PHP by more visitors than it can serve",
            Scenario::File => "files over kept connections",
            Scenario::Vcl => "hits on HTML through the VCL of a shop for clients that accept gzip",
            Scenario::Esi => "hits on a page with ten includes by ESI",
            Scenario::EsiGzip => "hits on a page with ten includes by ESI for clients that accept gzip",
            Scenario::Cluster => "visitors of five nodes while 200 times a second pages are purged",
        }
    }

    /// How visitors reach the servers.
    pub fn front(self) -> Front {
        match self {
            Scenario::Plain
            | Scenario::Gzip
            | Scenario::Close
            | Scenario::Pass
            | Scenario::Php
            | Scenario::PhpNew
            | Scenario::Gate
            | Scenario::File
            | Scenario::Vcl
            | Scenario::Esi
            | Scenario::EsiGzip
            | Scenario::Cluster => Front::Clear,
            Scenario::H2 => Front::ClearH2,
            Scenario::Tls | Scenario::Handshake | Scenario::Resumed | Scenario::Stall => Front::Tls,
            Scenario::H2Tls => Front::TlsH2,
        }
    }

    /// The sizes that are measured unless others are asked for.
    pub fn sizes(self) -> &'static [usize] {
        match self {
            // From tens of kilobytes on, sending is all that counts.
            Scenario::Plain => &[1024, 10 * 1024, 100 * 1024, 1024 * 1024],
            Scenario::H2 | Scenario::H2Tls | Scenario::Vcl => &[1024, 10 * 1024],
            Scenario::Tls | Scenario::Stall => &[10 * 1024],
            Scenario::Handshake | Scenario::Resumed | Scenario::Close => &[1024],
            Scenario::Pass => &[1024, 100 * 1024],
            Scenario::Php | Scenario::PhpNew | Scenario::Gate => &[HELLO_BYTES],
            Scenario::File => &[10 * 1024, 1024 * 1024],
            Scenario::Gzip | Scenario::Esi | Scenario::EsiGzip => &[40 * 1024],
            Scenario::Cluster => &[2 * 1024],
        }
    }

    /// The connections of the generator unless another number is asked for.
    pub fn connections(self) -> usize {
        match self {
            Scenario::Plain
            | Scenario::Tls
            | Scenario::Handshake
            | Scenario::Resumed
            | Scenario::H2
            | Scenario::H2Tls
            | Scenario::Gzip
            | Scenario::Stall
            | Scenario::Vcl
            | Scenario::Esi
            | Scenario::EsiGzip
            | Scenario::Cluster => 50,
            Scenario::Close | Scenario::Pass | Scenario::File => 64,
            Scenario::Php | Scenario::PhpNew => 4,
            Scenario::Gate => 1000,
        }
    }

    /// Who takes part unless others are asked for: Varnish where a cache is measured.
    pub fn servers(self) -> &'static [Kind] {
        if self.is_esi() {
            &[Kind::Varnish, Kind::LarderVcl]
        } else if self == Scenario::Vcl {
            &[Kind::Varnish, Kind::LarderTuned, Kind::LarderVcl, Kind::LarderVclDirector, Kind::LarderVclAcl]
        } else if self == Scenario::Gate {
            &[Kind::Nginx, Kind::Larder]
        } else if self == Scenario::Cluster {
            &[Kind::Larder]
        } else if self.is_by_cache() && self != Scenario::Close {
            &[Kind::Nginx, Kind::NginxTuned, Kind::Varnish, Kind::Larder]
        } else {
            &[Kind::Nginx, Kind::NginxTuned, Kind::Larder, Kind::LarderTuned]
        }
    }

    /// How often each server is measured, and for how many seconds, unless told otherwise.
    pub fn rounds(self) -> (usize, u64) {
        if self == Scenario::Gate { (2, 30) } else { (9, 2) }
    }

    /// Whether answers come from the servers' caches.
    pub fn is_by_cache(self) -> bool {
        !matches!(self, Scenario::Pass | Scenario::File | Scenario::Gate | Scenario::Cluster) && !self.is_by_php()
    }

    /// Whether answers come from PHP.
    pub fn is_by_php(self) -> bool {
        matches!(self, Scenario::Php | Scenario::PhpNew)
    }

    /// Whether clients accept gzip, and get it.
    pub fn is_packed(self) -> bool {
        matches!(self, Scenario::Gzip | Scenario::Vcl | Scenario::EsiGzip)
    }

    /// Whether pages are put together by ESI.
    pub fn is_esi(self) -> bool {
        matches!(self, Scenario::Esi | Scenario::EsiGzip)
    }

    /// Whether wrk asks; our own generator does what wrk cannot.
    pub fn is_by_wrk(self) -> bool {
        matches!(self, Scenario::Plain | Scenario::Pass | Scenario::Php | Scenario::PhpNew | Scenario::File)
    }

    /// Whether its system calls can be counted.
    pub fn has_countable_calls(self) -> bool {
        self.is_by_wrk() || self == Scenario::Close
    }

    /// The page of `bytes` bytes.
    pub fn page(self, bytes: usize) -> Page {
        match self {
            Scenario::Gzip | Scenario::Vcl => Page::Html(bytes),
            Scenario::Esi | Scenario::EsiGzip => Page::Esi(bytes),
            Scenario::Php | Scenario::PhpNew | Scenario::Gate => Page::Hello,
            Scenario::Plain
            | Scenario::Tls
            | Scenario::Handshake
            | Scenario::Resumed
            | Scenario::H2
            | Scenario::H2Tls
            | Scenario::Stall
            | Scenario::Close
            | Scenario::Pass
            | Scenario::File
            | Scenario::Cluster => Page::Plain(bytes),
        }
    }

    /// What an answer with that page has to be.
    pub fn expect(self, page: Page) -> Expect {
        if self.is_packed() { Expect::Gzip(page.bytes()) } else { Expect::Bytes(page.bytes()) }
    }

    /// Requests on a connection before the generator opens another.
    pub fn requests_per_connection(self) -> u64 {
        if matches!(self, Scenario::Handshake | Scenario::Resumed | Scenario::Close) { 1 } else { u64::MAX }
    }
}

impl FromStr for Scenario {
    type Err = String;

    fn from_str(name: &str) -> Result<Scenario, String> {
        let names = Scenario::ALL.map(Scenario::name);
        let found = Scenario::ALL.into_iter().find(|scenario| scenario.name() == name);
        found.ok_or_else(|| format!("`{name}` is none of {}", names.join(", ")))
    }
}
