//! Where an origin listens.

use std::{fmt, net::SocketAddr, path::PathBuf};

/// The address of an origin. Its text is that of nginx's `$upstream_addr`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// An address and port: `127.0.0.1:9000`, `[::1]:9000`.
    Tcp(SocketAddr),
    /// A Unix socket: `unix:/run/php.sock`.
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_as_nginx_shows_it() {
        for (address, shown) in [
            (Address::Tcp("127.0.0.1:9000".parse().unwrap()), "127.0.0.1:9000"),
            (Address::Tcp("[::1]:80".parse().unwrap()), "[::1]:80"),
            (Address::Unix("/run/php.sock".into()), "unix:/run/php.sock"),
        ] {
            assert_eq!(address.to_string(), shown);
        }
    }
}
