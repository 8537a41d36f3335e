//! A connection to the server.

use std::time::Duration;

use redis::{
    Client, Cmd, ConnectionAddr, ConnectionLike, ErrorKind, IntoConnectionInfo, Pipeline, RedisConnectionInfo,
    RedisError, TlsCertificates, Value,
};

use crate::fault::Fault;
use crate::keys::Keys;
use crate::settings::{Server, Settings};
use crate::tls;

/// A connection, logged in, to a server that has our keys.
pub(crate) struct Link {
    connection: redis::Connection,
    keys: Keys,
    /// Who it is, until the first answer has come.
    unheard: Option<Peer>,
}

/// Who is spoken to.
#[derive(Clone)]
struct Peer {
    server: Server,
    tls: bool,
}

impl Link {
    /// Connects to the first server that can be used, or to the primary that a Sentinel names.
    pub fn open(settings: &Settings) -> Result<Self, Fault> {
        let mut fault = Fault::Unreachable("no server is named".to_owned());
        for server in &settings.servers {
            match Self::by(server, settings) {
                Ok(link) => return Ok(link),
                Err(why) => fault = why,
            }
        }
        Err(fault)
    }

    /// Asks over the connection that there is. If that has broken since, the same goes over another one.
    pub fn ask_over<T>(
        kept: &mut Option<Self>,
        settings: &Settings,
        mut ask: impl FnMut(&mut Self) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if let Some(link) = kept {
            match ask(link) {
                Err(Fault::Unreachable(_)) => *kept = None,
                answers => return answers,
            }
        }
        ask(kept.insert(Self::open(settings)?))
    }

    fn by(server: &Server, settings: &Settings) -> Result<Self, Fault> {
        let mut server = match &settings.sentinel {
            None => server.clone(),
            Some(name) => primary(server, name, settings)?,
        };
        for _ in 0..MOVES_MAX {
            let mut link = Self::to(&server, settings)?;
            match link.begin(settings) {
                Ok(()) => return Ok(link),
                // A Redis Cluster: `SLOT HOST:PORT`, without a host if it is the same.
                Err(Fault::Moved(to)) => server = moved(&to, &server).ok_or(Fault::Moved(to))?,
                Err(fault @ (Fault::TooOld(_) | Fault::WrongPassword(_))) => {
                    return Err(link.sentinel().map_or(fault, Fault::Sentinel));
                }
                Err(fault) => return Err(fault),
            }
        }
        Err(Fault::Moved(server.to_string()))
    }

    fn to(server: &Server, settings: &Settings) -> Result<Self, Fault> {
        let peer = Peer { server: server.clone(), tls: settings.tls };
        let connection = peer.connect(settings.ca.as_ref(), ANSWER_TIMEOUT).map_err(|error| peer.fault(&error))?;
        Ok(Self { connection, keys: Keys::of(&settings.name), unheard: Some(peer) })
    }

    /// Logs in, and sees whether the server has our keys.
    fn begin(&mut self, settings: &Settings) -> Result<(), Fault> {
        self.log_in(settings)?;
        let mut probe = redis::pipe();
        probe.cmd("EXISTS").arg(&self.keys.epoch);
        self.ask(&probe).map(drop)
    }

    fn log_in(&mut self, settings: &Settings) -> Result<(), Fault> {
        let mut login = redis::pipe();
        if let Some(password) = &settings.password {
            let command = login.cmd("AUTH");
            if let Some(user) = &settings.user {
                command.arg(user);
            }
            command.arg(password);
        }
        if settings.database != 0 {
            login.cmd("SELECT").arg(settings.database);
        }
        if login.is_empty() { Ok(()) } else { self.ask(&login).map(drop) }
    }

    /// Sends commands, and takes an answer of each. The first refusal among them is the fault.
    pub fn ask(&mut self, commands: &Pipeline) -> Result<Vec<Value>, Fault> {
        let answers = self.ask_each(commands)?;
        match answers.iter().find_map(|answer| self.fault_of(answer)) {
            Some(fault) => Err(fault),
            None => Ok(answers),
        }
    }

    /// Sends commands, and takes an answer of each, which may be a refusal.
    pub fn ask_each(&mut self, commands: &Pipeline) -> Result<Vec<Value>, Fault> {
        let bytes = commands.get_packed_pipeline();
        let answers = self.connection.req_packed_commands(&bytes, 0, commands.len());
        let answers = answers.map_err(|error| match &self.unheard {
            Some(peer) => peer.fault(&error),
            None => Fault::of_connection(&error),
        })?;
        self.unheard = None;
        match answers.len() == commands.len() {
            true => Ok(answers),
            false => Err(Fault::Odd(format!("{} answers to {} commands", answers.len(), commands.len()))),
        }
    }

    /// Sends commands whose answers are taken later, with [`Self::answers`].
    pub fn send<'c>(&mut self, commands: impl Iterator<Item = &'c Cmd>) -> Result<(), Fault> {
        let mut bytes = Vec::new();
        commands.for_each(|command| command.write_packed_command(&mut bytes));
        self.connection.send_packed_command(&bytes).map_err(|error| Fault::of_connection(&error))
    }

    /// The next so many answers, of which each may be a refusal.
    pub fn answers(&mut self, count: usize) -> Result<Vec<Value>, Fault> {
        let answer = |_| self.connection.recv_response().map_err(|error| Fault::of_connection(&error));
        (0..count).map(answer).collect()
    }

    /// What this Sentinel calls its primary: `NAME` if there are several, `None` if it is no Sentinel.
    fn sentinel(&mut self) -> Option<String> {
        let mut question = redis::pipe();
        question.cmd("SENTINEL").arg("masters");
        let answers = self.ask(&question).ok()?;
        // Each is a list of names and values, of which the first is "name".
        Some(match answers.first().map(items)? {
            [one] => items(one).get(1).and_then(text).unwrap_or("NAME").to_owned(),
            _ => "NAME".to_owned(),
        })
    }

    /// What a refusal means; `None` for an answer.
    pub fn fault_of(&self, answer: &Value) -> Option<Fault> {
        match answer {
            Value::ServerError(error) => Some(Fault::of_server(error, &self.keys.prefix, &self.keys.log)),
            // What a transaction answers.
            Value::Array(answers) => answers.iter().find_map(|answer| match answer {
                Value::ServerError(_) => self.fault_of(answer),
                _ => None,
            }),
            _ => None,
        }
    }
}

impl Peer {
    fn connect(&self, ca: Option<&Vec<u8>>, timeout: Duration) -> Result<redis::Connection, RedisError> {
        let (host, port) = (self.server.host.clone(), self.server.port);
        let address = match self.tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        };
        // The login is ours, so that the server's own words reach the log.
        let plain = RedisConnectionInfo::default().set_skip_set_lib_name();
        let info = address.into_connection_info()?.set_redis_settings(plain);
        let client = match ca.filter(|_| self.tls) {
            Some(ca) => {
                let certificates = TlsCertificates { client_tls: None, root_cert: Some(ca.clone()) };
                Client::build_with_tls(info, certificates)
            }
            None => Client::open(info),
        };
        let connection = client?.get_connection_with_timeout(timeout)?;
        connection.set_read_timeout(Some(timeout))?;
        connection.set_write_timeout(Some(timeout))?;
        Ok(connection)
    }

    /// What a connection that broke before the first answer says.
    fn fault(&self, error: &RedisError) -> Fault {
        // What hears the other protocol closes the connection, waits for more, or answers in its own.
        let is_other_likely = error.is_timeout()
            || error.is_connection_dropped() && !error.is_connection_refusal()
            || error.kind() == ErrorKind::Parse
            || tls::is_none(error);
        let other = Peer { server: self.server.clone(), tls: !self.tls };
        if !is_other_likely || !other.is_heard() {
            return Fault::of_connection(error);
        }
        Fault::Unreachable(match self.tls {
            true => "it speaks no TLS: write \"redis://\" for \"rediss://\" in \"larder_cluster\", or turn its TLS on"
                .to_owned(),
            false => "it speaks TLS: write \"rediss://\" for \"redis://\" in \"larder_cluster\"".to_owned(),
        })
    }

    /// Whether it answers, be it by a refusal or a certificate. It is told nothing.
    fn is_heard(&self) -> bool {
        let ask = || self.connect(None, PROBE_TIMEOUT)?.req_packed_command(&redis::cmd("PING").get_packed_command());
        match ask() {
            Ok(_) => true,
            Err(error) => error.code().is_some() || tls::is_spoken(&error),
        }
    }
}

/// Asks a Sentinel for the primary.
fn primary(sentinel: &Server, name: &str, settings: &Settings) -> Result<Server, Fault> {
    let mut link = Link::to(sentinel, settings)?;
    // A Sentinel may have no password, and refuses one then. If it has another, the question is refused.
    let without_database = Settings { database: 0, ..settings.clone() };
    let _ = link.log_in(&without_database);
    let mut question = redis::pipe();
    question.cmd("SENTINEL").arg("get-master-addr-by-name").arg(name);
    let answers = link.ask(&question).map_err(|fault| match fault {
        Fault::TooOld(_) => Fault::NoSentinel,
        other => other,
    })?;
    let parts = answers.first().map(items).unwrap_or_default();
    let [host, port] = parts else { return Err(Fault::NoSuchPrimary(name.to_owned())) };
    let port = text(port).and_then(|port| port.parse().ok());
    match (text(host), port) {
        (Some(host), Some(port)) => Ok(Server { host: host.to_owned(), port }),
        _ => Err(Fault::Odd("the address of the primary".to_owned())),
    }
}

/// Where a Redis Cluster sends us, which says `SLOT HOST:PORT`.
fn moved(to: &str, from: &Server) -> Option<Server> {
    let (_, address) = to.split_once(' ')?;
    let (host, port) = address.rsplit_once(':')?;
    let host = if host.is_empty() { &from.host } else { host };
    Some(Server { host: host.to_owned(), port: port.parse().ok()? })
}

/// The text that an answer is.
pub(crate) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}

/// The answers that an answer has.
pub(crate) fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) => items,
        _ => &[],
    }
}

/// The answer of `TIME`: milliseconds since 1970.
pub(crate) fn time_of(value: &Value) -> Option<u64> {
    let [secs, micros] = items(value) else { return None };
    let number = |value| text(value)?.parse::<u64>().ok();
    number(secs)?.checked_mul(1000)?.checked_add(number(micros)? / 1000)
}

/// For a connection as well. More than a read waits at the server for entries.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// How long it may take to see whether the server speaks the other protocol: once more whenever it cannot be reached.
const PROBE_TIMEOUT: Duration = Duration::from_millis(300);
/// How often a Redis Cluster may send us elsewhere.
const MOVES_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redis_cluster_says_where_the_keys_are() {
        let from = Server { host: "a".to_owned(), port: 1 };
        for (to, host, port) in
            [("3999 127.0.0.1:6381", "127.0.0.1", 6381), ("1 :7", "a", 7), ("1 ::1:6379", "::1", 6379)]
        {
            assert_eq!(moved(to, &from), Some(Server { host: host.to_owned(), port }), "{to}");
        }
        for to in ["", "3999", "3999 host", "3999 host:", "3999 host:99999"] {
            assert_eq!(moved(to, &from), None, "{to}");
        }
    }
}
