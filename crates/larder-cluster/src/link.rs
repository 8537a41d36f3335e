//! A connection to the server.

use std::time::Duration;

use redis::{
    Client, Cmd, ConnectionAddr, ConnectionInfo, ConnectionLike, IntoConnectionInfo, Pipeline, RedisConnectionInfo,
    TlsCertificates, Value,
};

use crate::fault::Fault;
use crate::keys::Keys;
use crate::settings::{Server, Settings};

/// A connection, logged in, to a server that has our keys.
pub(crate) struct Link {
    connection: redis::Connection,
    keys: Keys,
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
            link.log_in(settings)?;
            let mut probe = redis::pipe();
            probe.cmd("EXISTS").arg(&link.keys.epoch);
            match link.ask(&probe) {
                Ok(_) => return Ok(link),
                // A Redis Cluster: `SLOT HOST:PORT`, without a host if it is the same.
                Err(Fault::Moved(to)) => server = moved(&to, &server).ok_or(Fault::Moved(to))?,
                Err(fault) => return Err(fault),
            }
        }
        Err(Fault::Moved(server.to_string()))
    }

    fn to(server: &Server, settings: &Settings) -> Result<Self, Fault> {
        let failed = |error: redis::RedisError| Fault::of_connection(&error);
        let (host, port) = (server.host.clone(), server.port);
        let address = match settings.tls {
            true => ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None },
            false => ConnectionAddr::Tcp(host, port),
        };
        // The login is ours, so that the server's own words reach the log.
        let plain = RedisConnectionInfo::default().set_skip_set_lib_name();
        let of_address = |address: ConnectionAddr| -> Result<ConnectionInfo, Fault> {
            Ok(address.into_connection_info().map_err(failed)?.set_redis_settings(plain))
        };
        let client = match (settings.tls, &settings.ca) {
            (true, Some(ca)) => {
                let certificates = TlsCertificates { client_tls: None, root_cert: Some(ca.clone()) };
                Client::build_with_tls(of_address(address)?, certificates)
            }
            (true, None) | (false, _) => Client::open(of_address(address)?),
        };
        let connection = client.map_err(failed)?.get_connection_with_timeout(CONNECT_TIMEOUT).map_err(failed)?;
        connection.set_read_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
        connection.set_write_timeout(Some(ANSWER_TIMEOUT)).map_err(failed)?;
        Ok(Self { connection, keys: Keys::of(&settings.name) })
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
        let answers = answers.map_err(|error| Fault::of_connection(&error))?;
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

/// Asks a Sentinel for the primary.
fn primary(sentinel: &Server, name: &str, settings: &Settings) -> Result<Server, Fault> {
    let mut link = Link::to(sentinel, settings)?;
    // A Sentinel may have no password, and refuses one then. If it has another, the question is refused.
    let without_database = Settings { database: 0, ..settings.clone() };
    let _ = link.log_in(&without_database);
    let mut question = redis::pipe();
    question.cmd("SENTINEL").arg("get-master-addr-by-name").arg(name);
    let answers = link.ask(&question)?;
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

const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// More than a read waits at the server for entries.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
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
