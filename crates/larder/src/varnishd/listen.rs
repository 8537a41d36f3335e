//! `-a [NAME=]ADDRESS[,PROTOCOL][,OPTION=VALUE...]`: where requests come in.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};

use larder_vcl::functions::addresses::host_and_port;
use nix::unistd::{Group, User};

use crate::oserror::CallFailed;

/// A place to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its name for a VCL: `local.socket`.
    pub name: String,
    /// Where.
    pub place: Place,
    /// Whether each connection begins with a PROXY header.
    pub has_proxy_header: bool,
}

/// Where an endpoint is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A host and a port, or all addresses of this machine.
    Tcp { host: Option<String>, port: u16 },
    /// A socket file.
    Unix { path: PathBuf, rights: Rights },
}

/// Who may connect to a socket file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    user: Option<String>,
    group: Option<String>,
    mode: Option<u32>,
}

/// Why an endpoint cannot be listened at.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// A name without an address.
    #[error("-a {name}: the host \"{host}\" has no address")]
    NoAddress {
        /// The endpoint.
        name: String,
        /// The host.
        host: String,
    },
    /// The system refused something.
    #[error(transparent)]
    Call(#[from] CallFailed),
}

/// Reads an endpoint, the `number`-th of a command line.
pub fn parse(text: &str, number: usize) -> Result<Endpoint, String> {
    let mut words = text.split(',');
    let first = words.next().unwrap_or_default();
    // A name begins with a letter, so that = in a path stays there.
    let named = first.split_once('=').filter(|(name, _)| name.starts_with(|c: char| c.is_ascii_alphabetic()));
    let (name, address) = named.map_or_else(|| (format!("a{number}"), first), |(name, rest)| (name.to_owned(), rest));
    let is_unix = address.starts_with(['/', '@']);
    let mut rights = Rights::default();
    let mut protocol = None;
    for word in words {
        match word.split_once('=') {
            Some((option, value)) if is_unix => rights.take(option, value)?,
            Some(_) => return Err(format!("\"{word}\" is for the path of a socket only")),
            None if protocol.is_some() => return Err("one protocol only".to_owned()),
            None => protocol = Some(has_proxy_header(word)?),
        }
    }
    let place = match is_unix {
        true => Place::Unix { path: address.into(), rights },
        false => tcp(address)?,
    };
    Ok(Endpoint { name, place, has_proxy_header: protocol.unwrap_or(false) })
}

fn has_proxy_header(protocol: &str) -> Result<bool, String> {
    match protocol {
        "PROXY" => Ok(true),
        "HTTP" | "HTTP/1" => Ok(false),
        _ => Err(format!("\"{protocol}\" is no protocol: HTTP and PROXY are known")),
    }
}

fn tcp(address: &str) -> Result<Place, String> {
    const DEFAULT_PORT: u16 = 80;
    let wrong = || format!("\"{address}\" is no address: write :80, host:80, [address]:80 or /path");
    if let Some(port) = address.strip_prefix(':') {
        return Ok(Place::Tcp { host: None, port: port.parse().map_err(|_| wrong())? });
    }
    // Port 0 takes a free one, which an address of a backend cannot.
    if let Some(host) = address.strip_suffix(":0") {
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        return Ok(Place::Tcp { host: Some(host), port: 0 });
    }
    let (host, port) = host_and_port(address).ok_or_else(wrong)?;
    Ok(Place::Tcp { host: Some(host.to_owned()), port: port.unwrap_or(DEFAULT_PORT) })
}

impl Endpoint {
    /// Where varnishd listens without `-a`.
    pub fn of_all_addresses() -> Endpoint {
        Endpoint { name: "a0".to_owned(), place: Place::Tcp { host: None, port: 80 }, has_proxy_header: false }
    }
}

impl Rights {
    fn take(&mut self, option: &str, value: &str) -> Result<(), String> {
        match option {
            "user" => self.user = Some(value.to_owned()),
            "group" => self.group = Some(value.to_owned()),
            "mode" => {
                let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o777);
                self.mode = Some(mode.ok_or_else(|| format!("\"{value}\" is no mode such as 660"))?);
            }
            _ => return Err(format!("\"{option}\" is none of user, group and mode")),
        }
        Ok(())
    }

    /// The numbers of user and group.
    fn owners(&self) -> Result<(Option<u32>, Option<u32>), String> {
        // The library panics on a zero byte.
        let plain = |name: &&String| !name.contains('\0');
        let user = self.user.as_ref().map(|name| {
            let found = Some(name).filter(plain).and_then(|name| User::from_name(name).ok().flatten());
            found.map(|user| user.uid.as_raw()).ok_or_else(|| format!("there is no user \"{name}\""))
        });
        let group = self.group.as_ref().map(|name| {
            let found = Some(name).filter(plain).and_then(|name| Group::from_name(name).ok().flatten());
            found.map(|group| group.gid.as_raw()).ok_or_else(|| format!("there is no group \"{name}\""))
        });
        Ok((user.transpose()?, group.transpose()?))
    }

    fn give(&self, path: &Path) -> Result<(), CallFailed> {
        let failed = |call| move |error: io::Error| CallFailed::on(call, path.display(), error);
        let owners = self.owners().map_err(|why| failed("chown")(io::Error::other(why)))?;
        if owners != (None, None) {
            lchown(path, owners.0, owners.1).map_err(failed("chown"))?;
        }
        match self.mode {
            Some(mode) => fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed("chmod")),
            None => Ok(()),
        }
    }
}

/// An endpoint with its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Its TCP addresses, none for a socket file.
    pub addresses: Vec<SocketAddr>,
}

impl Found {
    /// The arguments of `listen` for it, but for options: several, if a name has several addresses.
    pub fn listens(&self) -> Vec<String> {
        match &self.endpoint.place {
            Place::Tcp { .. } => self.addresses.iter().map(SocketAddr::to_string).collect(),
            Place::Unix { path, .. } => vec![format!("unix:{}", path.display())],
        }
    }

    /// Lets those connect to a socket file who may.
    pub fn give_rights(&self) -> Result<(), CallFailed> {
        match &self.endpoint.place {
            Place::Unix { path, rights } if path.is_absolute() => rights.give(path),
            Place::Unix { .. } | Place::Tcp { .. } => Ok(()),
        }
    }
}

/// Looks up names, and takes free ports in place of port 0. An address is there once.
pub fn resolve(endpoints: &[Endpoint]) -> Result<Vec<Found>, EndpointError> {
    let mut taken = BTreeSet::new();
    let mut found = Vec::with_capacity(endpoints.len());
    for endpoint in endpoints {
        let mut addresses = Vec::new();
        match &endpoint.place {
            Place::Unix { .. } => {}
            Place::Tcp { host: None, port } => addresses = everywhere(*port),
            Place::Tcp { host: Some(host), port } => {
                addresses = (host.as_str(), *port).to_socket_addrs().map(Iterator::collect).unwrap_or_default();
                if addresses.is_empty() {
                    return Err(EndpointError::NoAddress { name: endpoint.name.clone(), host: host.clone() });
                }
            }
        }
        for address in &mut addresses {
            if address.port() == 0 {
                address.set_port(free_port(*address)?);
            }
        }
        addresses.retain(|address| taken.insert(*address));
        found.push(Found { endpoint: endpoint.clone(), addresses });
    }
    Ok(found)
}

/// All addresses of this machine, of both families where there are both.
fn everywhere(port: u16) -> Vec<SocketAddr> {
    let mut all = vec![SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))];
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        all.push((Ipv6Addr::UNSPECIFIED, port).into());
    }
    all
}

fn free_port(address: SocketAddr) -> Result<u16, CallFailed> {
    let listener = TcpListener::bind(address).and_then(|listener| listener.local_addr());
    listener.map(|bound| bound.port()).map_err(|error| CallFailed::to("bind", address, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(host: Option<&str>, port: u16) -> Place {
        Place::Tcp { host: host.map(str::to_owned), port }
    }

    fn unix(path: &str, mode: Option<u32>) -> Place {
        Place::Unix { path: path.into(), rights: Rights { mode, ..Rights::default() } }
    }

    #[test]
    fn addresses_are_written_as_for_varnishd() {
        for (text, name, place, has_proxy_header) in [
            (":6081", "a3", tcp(None, 6081), false),
            ("127.0.0.1", "a3", tcp(Some("127.0.0.1"), 80), false),
            ("localhost:81,PROXY", "a3", tcp(Some("localhost"), 81), true),
            ("[::1]:82,HTTP", "a3", tcp(Some("::1"), 82), false),
            ("127.0.0.1:0", "a3", tcp(Some("127.0.0.1"), 0), false),
            ("[::1]:0", "a3", tcp(Some("::1"), 0), false),
            ("web=:80", "web", tcp(None, 80), false),
            ("/run/v.sock,PROXY,mode=660", "a3", unix("/run/v.sock", Some(0o660)), true),
            ("u=/run/a=b.sock", "u", unix("/run/a=b.sock", None), false),
            ("@name", "a3", unix("@name", None), false),
        ] {
            let expected = Endpoint { name: name.to_owned(), place, has_proxy_header };
            assert_eq!(parse(text, 3), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_told() {
        for (text, expected) in [
            ("", "\"\" is no address: write :80, host:80, [address]:80 or /path"),
            (":http", "\":http\" is no address: write :80, host:80, [address]:80 or /path"),
            ("a:99999", "\"a:99999\" is no address: write :80, host:80, [address]:80 or /path"),
            (":80,H2", "\"H2\" is no protocol: HTTP and PROXY are known"),
            (":80,PROXY,HTTP", "one protocol only"),
            (":80,mode=660", "\"mode=660\" is for the path of a socket only"),
            ("/a,mode=999", "\"999\" is no mode such as 660"),
            ("/a,owner=root", "\"owner\" is none of user, group and mode"),
        ] {
            assert_eq!(parse(text, 0), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn port_0_becomes_a_free_one_and_an_address_is_there_once() {
        let endpoints = ["127.0.0.1:0", "127.0.0.1:81", "x=127.0.0.1:81"].map(|text| parse(text, 0).unwrap());
        let found = resolve(&endpoints).unwrap();
        assert_ne!(found[0].addresses[0].port(), 0);
        assert_eq!(found[1].listens(), ["127.0.0.1:81"]);
        assert!(found[2].listens().is_empty());
        assert!(resolve(&[parse("no-such-host.invalid:80", 0).unwrap()]).is_err());
    }
}
