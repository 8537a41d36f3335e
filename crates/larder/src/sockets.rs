//! Opens the listening sockets of a configuration, while we are still root.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use larder_conf::model::{Config, Listen, ListenAddress, LogLevel};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::log::Log;
use crate::oserror::CallFailed;

/// An address to listen at, with the options of all `listen` directives for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Where.
    pub address: ListenAddress,
    backlog: i32,
    rcvbuf: Option<usize>,
    sndbuf: Option<usize>,
    ipv6only: bool,
    keepalive: Option<bool>,
}

/// An address at which we listen: one TCP socket for each worker, or one unix socket for all.
#[derive(Debug)]
pub struct Listener {
    plan: Plan,
    sockets: Vec<OwnedFd>,
    keeper: Keeper,
}

/// Who made a socket, and removes its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// We, or a server that we follow or that follows us.
    Larder,
    /// systemd, which has it open while nobody serves.
    Systemd,
}

/// Why sockets could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A call failed for good.
    #[error(transparent)]
    Call(#[from] CallFailed),
    /// Addresses stayed in use; each try was logged.
    #[error("still could not bind()")]
    InUse,
    /// A socket of systemd takes IPv4 at the port, too: no wait ends that.
    #[error(
        "bind() to {address} failed: {held}, a socket that systemd has passed, takes IPv4 there, too; write \
         \"ListenStream={address}\" beside \"ListenStream={held}\" and \"BindIPv6Only=ipv6-only\" in its unit, and \
         restart that"
    )]
    BothFamilies { address: SocketAddr, held: SocketAddr },
}

/// The addresses that `config` listens at, each once, in order of writing. As in nginx, if `*:80` is among them, other
/// addresses with that port are not bound: their connections are recognised by the local address.
pub fn plan(config: &Config) -> Vec<Plan> {
    let listens = config.http.servers.iter().flat_map(|server| &server.listens);
    let wildcards: HashSet<_> = listens.clone().filter_map(|listen| wildcard(&listen.address)).collect();
    let mut plans: Vec<Plan> = Vec::new();
    for listen in listens {
        if is_absorbed(&listen.address, &wildcards) {
            continue;
        }
        match plans.iter_mut().find(|plan| plan.address == listen.address) {
            Some(plan) => plan.add(listen),
            None => plans.push(Plan::new(listen)),
        }
    }
    plans
}

/// The port, if the address is the wildcard of its family.
fn wildcard(address: &ListenAddress) -> Option<(bool, u16)> {
    match address {
        ListenAddress::Tcp(tcp) if tcp.ip().is_unspecified() => Some((tcp.is_ipv6(), tcp.port())),
        ListenAddress::Tcp(_) | ListenAddress::Unix(_) => None,
    }
}

fn is_absorbed(address: &ListenAddress, wildcards: &HashSet<(bool, u16)>) -> bool {
    match address {
        ListenAddress::Tcp(tcp) => !tcp.ip().is_unspecified() && wildcards.contains(&(tcp.is_ipv6(), tcp.port())),
        ListenAddress::Unix(_) => false,
    }
}

impl Plan {
    fn new(listen: &Listen) -> Plan {
        Plan {
            address: listen.address.clone(),
            backlog: listen.backlog.unwrap_or(DEFAULT_BACKLOG),
            rcvbuf: listen.rcvbuf,
            sndbuf: listen.sndbuf,
            ipv6only: listen.ipv6only,
            keepalive: listen.keepalive,
        }
    }

    /// Adds the options of another `listen` with the same address; nginx allows only one of them to set options.
    fn add(&mut self, listen: &Listen) {
        self.backlog = listen.backlog.unwrap_or(self.backlog);
        self.rcvbuf = listen.rcvbuf.or(self.rcvbuf);
        self.sndbuf = listen.sndbuf.or(self.sndbuf);
        self.ipv6only &= listen.ipv6only;
        self.keepalive = listen.keepalive.or(self.keepalive);
    }
}

impl Plan {
    /// How many connections may wait to be accepted, unless the system allows fewer.
    pub fn backlog(&self) -> i32 {
        self.backlog
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            ListenAddress::Tcp(address) => address.fmt(f),
            ListenAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.fmt(f)
    }
}

impl Listener {
    /// An address at which another process listens, with one of its sockets.
    pub fn inherited(address: ListenAddress, socket: OwnedFd, keeper: Keeper) -> Listener {
        // No configuration has this backlog, so ours is set when the socket is reused.
        let plan = Plan { address, backlog: -1, rcvbuf: None, sndbuf: None, ipv6only: true, keepalive: None };
        Listener { plan, sockets: vec![socket], keeper }
    }

    /// Adds a socket that listens at the same address.
    pub fn add(&mut self, socket: OwnedFd) {
        self.sockets.push(socket);
    }

    /// Copies of the sockets, for a server in this process.
    pub fn descriptors(&self) -> io::Result<(ListenAddress, Vec<OwnedFd>)> {
        Ok((self.plan.address.clone(), self.copies()?))
    }

    fn copies(&self) -> io::Result<Vec<OwnedFd>> {
        self.sockets.iter().map(OwnedFd::try_clone).collect()
    }

    /// Where it listens.
    pub fn address(&self) -> &ListenAddress {
        &self.plan.address
    }

    /// Who made it.
    pub fn keeper(&self) -> Keeper {
        self.keeper
    }

    /// The sockets as they are.
    pub fn sockets(&self) -> &[OwnedFd] {
        &self.sockets
    }

    fn try_clone(&self) -> io::Result<Listener> {
        Ok(Listener { plan: self.plan.clone(), sockets: self.copies()?, keeper: self.keeper })
    }
}

/// Opens a listener for each of `plans`, with sockets for `workers`. Those in `held` are reused.
///
/// As in nginx, an address in use is tried again for two and a half seconds, because an older process may be about to
/// end.
pub async fn open_all(
    plans: &[Plan],
    workers: usize,
    held: &[Listener],
    log: &Log,
) -> Result<Vec<Listener>, OpenError> {
    let mut slots: Vec<Option<Listener>> = plans.iter().map(|_| None).collect();
    for tries_left in (0..BIND_TRIES).rev() {
        for (plan, slot) in plans.iter().zip(&mut slots) {
            if slot.is_some() {
                continue;
            }
            match open(plan, workers, held) {
                Ok(listener) => *slot = Some(listener),
                Err(failure) if failure.source.kind() == io::ErrorKind::AddrInUse => {
                    if let Some(both) = by_both_families(plan, held) {
                        remove_unix(slots.iter().flatten(), held);
                        return Err(both);
                    }
                    log.write(LogLevel::Emerg, &failure.to_string());
                }
                Err(failure) => {
                    remove_unix(slots.iter().flatten(), held);
                    return Err(failure.into());
                }
            }
        }
        if slots.iter().all(Option::is_some) {
            return Ok(slots.into_iter().flatten().collect());
        }
        log.write(LogLevel::Notice, "try again to bind() after 500ms");
        if tries_left > 0 {
            tokio::time::sleep(BIND_PAUSE).await;
        }
    }
    remove_unix(slots.iter().flatten(), held);
    Err(OpenError::InUse)
}

/// That a socket of systemd for all IPv6 takes the IPv4 address of `plan` as well, as `ListenStream=80` does.
fn by_both_families(plan: &Plan, held: &[Listener]) -> Option<OpenError> {
    let ListenAddress::Tcp(address @ SocketAddr::V4(_)) = plan.address else { return None };
    held.iter().filter(|listener| listener.keeper == Keeper::Systemd).find_map(|listener| match listener.plan.address {
        ListenAddress::Tcp(held) if held.is_ipv6() && held.ip().is_unspecified() && held.port() == address.port() => {
            let is_for_both = |socket: &OwnedFd| socket2::SockRef::from(socket).only_v6().is_ok_and(|only| !only);
            listener.sockets.iter().any(is_for_both).then_some(OpenError::BothFamilies { address, held })
        }
        ListenAddress::Tcp(_) | ListenAddress::Unix(_) => None,
    })
}

/// Tries to bind `plan`, and closes the socket again.
pub fn try_bind(plan: &Plan) -> Result<(), CallFailed> {
    match &plan.address {
        ListenAddress::Tcp(address) => bind_tcp(plan, *address, Share::Alone).map(drop),
        ListenAddress::Unix(path) if path.exists() => Ok(()),
        ListenAddress::Unix(path) => bind_unix(plan, path).map(|_| remove(path)),
    }
}

/// The same; an address in use is fine: a running larder may have it.
pub fn try_open(plan: &Plan) -> Result<(), CallFailed> {
    match try_bind(plan) {
        Err(failure) if failure.source.kind() == io::ErrorKind::AddrInUse => Ok(()),
        other => other,
    }
}

/// Removes the files of unix sockets that are among `gone` and not among `kept`.
pub fn remove_unix<'a>(gone: impl IntoIterator<Item = &'a Listener>, kept: &[Listener]) {
    for listener in gone {
        if let ListenAddress::Unix(path) = listener.address()
            && listener.keeper == Keeper::Larder
            && !kept.iter().any(|other| other.address() == listener.address())
        {
            remove(path);
        }
    }
}

fn remove(path: &Path) {
    if abstract_name(path).is_none() {
        let _ = fs::remove_file(path);
    }
}

/// The name of a socket that has no file: `unix:@name`.
fn abstract_name(path: &Path) -> Option<&[u8]> {
    path.as_os_str().as_bytes().strip_prefix(b"@")
}

fn open(plan: &Plan, workers: usize, held: &[Listener]) -> Result<Listener, CallFailed> {
    if let Some(listener) = held.iter().find(|listener| listener.plan.address == plan.address) {
        // With fewer sockets than workers, the workers share them. A further socket would get connections that nobody
        // accepts if the workers know the address already, or if this process gives way to the older one.
        return take_over(plan, listener);
    }
    let sockets = match &plan.address {
        ListenAddress::Tcp(address) => open_tcp(plan, *address, workers, held)?,
        ListenAddress::Unix(path) => vec![open_unix(plan, path)?],
    };
    let plan = plan.clone();
    Ok(Listener { plan, sockets, keeper: Keeper::Larder })
}

/// A listener that we already have, with the options of the new configuration.
fn take_over(plan: &Plan, held: &Listener) -> Result<Listener, CallFailed> {
    let failed = |call| move |error| CallFailed::to(call, plan, error);
    let mut listener = held.try_clone().map_err(failed("dup"))?;
    for socket in &listener.sockets {
        let socket = socket2::SockRef::from(socket);
        set_buffers(&socket, plan).map_err(failed("setsockopt"))?;
        if plan.backlog != held.plan.backlog {
            socket.listen(plan.backlog).map_err(failed("listen"))?;
        }
    }
    listener.plan = plan.clone();
    Ok(listener)
}

/// Whether our other sockets may have the same address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Share {
    Alone,
    WithOurOwn,
}

fn open_tcp(plan: &Plan, address: SocketAddr, workers: usize, held: &[Listener]) -> Result<Vec<OwnedFd>, CallFailed> {
    // With SO_REUSEPORT we would silently share the address with another server of the same user, so it is first bound
    // without. A wildcard that replaces our own addresses can only be shared.
    if !held.iter().any(|listener| overlap(&listener.plan.address, address)) {
        drop(bind_tcp(plan, address, Share::Alone)?);
    }
    (0..workers).map(|_| listening(plan, bind_tcp(plan, address, Share::WithOurOwn)?)).collect()
}

fn listening(plan: &Plan, socket: Socket) -> Result<OwnedFd, CallFailed> {
    socket.listen(plan.backlog).map_err(|error| CallFailed::to("listen", plan, error))?;
    Ok(socket.into())
}

fn overlap(held: &ListenAddress, address: SocketAddr) -> bool {
    match held {
        ListenAddress::Tcp(held) => {
            let meet = held.ip().is_unspecified() || address.ip().is_unspecified() || held.ip() == address.ip();
            held.port() == address.port() && meet
        }
        ListenAddress::Unix(_) => false,
    }
}

fn bind_tcp(plan: &Plan, address: SocketAddr, share: Share) -> Result<Socket, CallFailed> {
    let failed = |call| move |error| CallFailed::to(call, plan, error);
    let socket =
        Socket::new(Domain::for_address(address), Type::STREAM.nonblocking(), None).map_err(failed("socket"))?;
    let options = || -> io::Result<()> {
        socket.set_reuse_address(true)?;
        if share == Share::WithOurOwn {
            socket.set_reuse_port(true)?;
        }
        if address.is_ipv6() {
            socket.set_only_v6(plan.ipv6only)?;
        }
        set_buffers(&socket, plan)
    };
    options().map_err(failed("setsockopt"))?;
    socket.bind(&address.into()).map_err(failed("bind"))?;
    Ok(socket)
}

fn set_buffers(socket: &Socket, plan: &Plan) -> io::Result<()> {
    if let Some(bytes) = plan.rcvbuf {
        socket.set_recv_buffer_size(bytes)?;
    }
    if let Some(bytes) = plan.sndbuf {
        socket.set_send_buffer_size(bytes)?;
    }
    if let (Some(keepalive), ListenAddress::Tcp(_)) = (plan.keepalive, &plan.address) {
        socket.set_keepalive(keepalive)?;
    }
    Ok(())
}

fn open_unix(plan: &Plan, path: &Path) -> Result<OwnedFd, CallFailed> {
    let failed = |call| move |error| CallFailed::to(call, plan, error);
    let socket = match bind_unix(plan, path) {
        Err(failure) if failure.source.kind() == io::ErrorKind::AddrInUse && is_abandoned(path) => {
            fs::remove_file(path).map_err(failed("unlink"))?;
            bind_unix(plan, path)?
        }
        other => other?,
    };
    if abstract_name(path).is_none() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(failed("chmod"))?;
    }
    socket.listen(plan.backlog).map_err(failed("listen"))?;
    Ok(socket.into())
}

fn bind_unix(plan: &Plan, path: &Path) -> Result<Socket, CallFailed> {
    let failed = |call| move |error| CallFailed::to(call, plan, error);
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None).map_err(failed("socket"))?;
    set_buffers(&socket, plan).map_err(failed("setsockopt"))?;
    let address = match abstract_name(path) {
        Some(name) => SockAddr::unix(OsStr::from_bytes(&[b"\0", name].concat())),
        None => SockAddr::unix(path),
    };
    let address = address.map_err(failed("bind"))?;
    socket.bind(&address).map_err(failed("bind"))?;
    Ok(socket)
}

/// Whether `path` is a socket at which nobody listens, left by a server that was killed.
fn is_abandoned(path: &Path) -> bool {
    let is_socket = path.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_socket());
    let answer = std::os::unix::net::UnixStream::connect(path);
    is_socket && answer.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// nginx's default on Linux.
const DEFAULT_BACKLOG: i32 = 511;
const BIND_TRIES: usize = 5;
const BIND_PAUSE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use larder_conf::MemoryLoader;

    use super::*;
    use crate::log::Console;

    fn plans(listens: &str) -> Vec<Plan> {
        let servers: String = listens.split(';').map(|listen| format!("server {{ listen {listen}; }}")).collect();
        let mut loader = MemoryLoader::new();
        loader.add("/c", format!("events {{}} http {{ {servers} }}"));
        let options = larder_conf::Options {
            prefix: "/p".into(),
            conf_prefix: "/".into(),
            globals: None,
            is_root: true,
            hostname: "h".to_owned(),
        };
        plan(&larder_conf::load(Path::new("/c"), &options, &mut loader).expect("it is well-formed").config)
    }

    fn quiet() -> Log {
        Log::new(Vec::new(), Console::Quiet)
    }

    #[test]
    fn a_wildcard_absorbs_the_addresses_of_its_port_and_family() {
        for (listens, expected) in [
            ("80", vec!["0.0.0.0:80"]),
            ("80;80", vec!["0.0.0.0:80"]),
            ("127.0.0.1:80;*:80;127.0.0.2:80", vec!["0.0.0.0:80"]),
            ("127.0.0.1:80;*:81", vec!["127.0.0.1:80", "0.0.0.0:81"]),
            ("[::1]:80;80", vec!["[::1]:80", "0.0.0.0:80"]),
            ("[::1]:80;[::]:80;80", vec!["[::]:80", "0.0.0.0:80"]),
            ("127.0.0.1:80;127.0.0.2:80", vec!["127.0.0.1:80", "127.0.0.2:80"]),
            ("unix:/a;80;unix:/b", vec!["unix:/a", "0.0.0.0:80", "unix:/b"]),
        ] {
            let found: Vec<_> = plans(listens).iter().map(Plan::to_string).collect();
            assert_eq!(found, expected, "{listens}");
        }
    }

    #[test]
    fn one_listen_of_an_address_speaks_for_all() {
        for (listens, backlog, rcvbuf) in
            [("80", 511, None), ("80 backlog=7;80", 7, None), ("80;80 backlog=7 rcvbuf=8k", 7, Some(8192))]
        {
            let plan = &plans(listens)[0];
            assert_eq!((plan.backlog, plan.rcvbuf), (backlog, rcvbuf), "{listens}");
        }
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn workers_get_a_socket_each_and_an_address_that_others_hold_is_refused() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let plans = plans(&free.to_string());
        let ours = open_all(&plans, 3, &[], &quiet()).await.unwrap();
        assert_eq!(ours[0].sockets().len(), 3);
        assert!(TcpStream::connect(free).is_ok());

        // Another larder of the same user would share it with SO_REUSEPORT.
        let refused = open_all(&plans, 2, &[], &quiet()).await.unwrap_err();
        assert!(matches!(refused, OpenError::InUse), "{refused}");
        assert!(try_open(&plans[0]).is_ok(), "a check finds nothing wrong with it");
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn a_socket_of_systemd_for_both_families_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let all = SocketAddr::new(std::net::Ipv6Addr::UNSPECIFIED.into(), address.port());
        let plans = plans(&address.to_string());
        // It is not bound here: that would be open to the network.
        for (is_for_both, keeper, is_named) in
            [(true, Keeper::Systemd, true), (false, Keeper::Systemd, false), (true, Keeper::Larder, false)]
        {
            let socket = Socket::new(Domain::IPV6, Type::STREAM, None).unwrap();
            socket.set_only_v6(!is_for_both).unwrap();
            let held = [Listener::inherited(ListenAddress::Tcp(all), socket.into(), keeper)];
            let error = open_all(&plans, 1, &held, &quiet()).await.unwrap_err().to_string();
            let said =
                format!("bind() to {address} failed: {all}, a socket that systemd has passed, takes IPv4 there, too");
            assert_eq!(error.starts_with(&said) && error.contains("BindIPv6Only=ipv6-only"), is_named, "{error}");
        }
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn a_reload_takes_sockets_over_and_may_widen_them() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let first = open_all(&plans(&free.to_string()), 2, &[], &quiet()).await.unwrap();
        let same = open_all(&plans(&format!("{free} backlog=9")), 2, &first, &quiet()).await.unwrap();
        assert_eq!(same[0].plan.backlog, 9);
        let wide = open_all(&plans(&free.port().to_string()), 2, &first, &quiet()).await.unwrap();
        drop((first, same));
        assert!(TcpStream::connect(free).is_ok());
        drop(wide);
        assert!(TcpStream::connect(free).is_err());
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn a_unix_socket_replaces_an_abandoned_one_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let plans = plans(&format!("unix:{}", path.display()));
        let first = open_all(&plans, 2, &[], &quiet()).await.unwrap();
        assert_eq!(first[0].sockets().len(), 1);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o666);
        assert!(open_all(&plans, 2, &[], &quiet()).await.is_err());
        drop(first);
        assert!(path.exists());
        let second = open_all(&plans, 2, &[], &quiet()).await.unwrap();
        remove_unix(&second, &second);
        assert!(path.exists());
        remove_unix(&second, &[]);
        assert!(!path.exists());

        fs::write(&path, "a file").unwrap();
        assert!(open_all(&plans, 2, &[], &quiet()).await.is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "a file");
    }

    #[tokio::test(flavor = "current_thread", start_paused = true)]
    async fn a_socket_may_have_a_name_without_a_file() {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::net::{SocketAddr, UnixStream};

        let name = format!("larder-test-{}", std::process::id());
        let plans = plans(&format!("unix:@{name}"));
        assert!(try_open(&plans[0]).is_ok());
        let first = open_all(&plans, 2, &[], &quiet()).await.unwrap();
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        assert!(UnixStream::connect_addr(&address).is_ok());
        assert!(open_all(&plans, 2, &[], &quiet()).await.is_err(), "it is taken");
        remove_unix(&first, &[]);
        drop(first);
        assert!(UnixStream::connect_addr(&address).is_err());
    }
}
