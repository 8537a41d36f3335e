//! The messages between supervisor and serving process, and their encoding.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use larder_conf::model::ListenAddress;
use larder_conf::{MemoryLoader, Sources};

use crate::account::Account;
use crate::configuration::Surroundings;
use crate::paths::DefaultLog;
use crate::serving::Material;

/// A message on the control socket. Its descriptors are sent with it, in order.
#[derive(Clone, Debug)]
pub enum Message {
    /// Serve this from now on.
    Configure(Box<Configure>),
    /// Write to these files from now on: a descriptor each.
    Reopen(Vec<PathBuf>),
    /// The configuration is in use.
    Ready,
    /// The configuration cannot be used, and why; the old one goes on.
    Refused(String),
}

/// A configuration with everything that the serving process needs.
#[derive(Clone, Debug)]
pub struct Configure {
    /// The number of worker threads.
    pub workers: u32,
    /// How many serving processes have died before this one.
    pub respawned: u32,
    /// How many configurations have replaced the first one.
    pub reloads: u32,
    /// The account to change to before serving.
    pub account: Option<Account>,
    /// How the files are to be read.
    pub surroundings: Surroundings,
    /// Configuration files: path and bytes.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// Patterns of includes, and what they match.
    pub globs: Vec<(String, Vec<PathBuf>)>,
    /// Addresses, each with the number of its sockets, which come first among the descriptors.
    pub listeners: Vec<(ListenAddress, u32)>,
    /// Log files, a descriptor each, which come after the sockets.
    pub logs: Vec<PathBuf>,
    /// Whether the socket comes last at which the transaction log is told.
    pub has_log_socket: bool,
    /// Whether the socket comes before that at which questions are answered.
    pub has_ask_socket: bool,
}

/// Why bytes are not a message. Both ends are the same program, so this is a bug.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It ends early.
    #[error("a control message ends early")]
    Short,
    /// It goes on after its end.
    #[error("a control message has {0} bytes too many")]
    Long(usize),
    /// An unknown tag.
    #[error("a control message has the unknown tag {0}")]
    Tag(u8),
    /// A text that is not UTF-8, or an invalid address.
    #[error("a control message holds a broken text")]
    Text,
}

impl Configure {
    /// Adds the files and patterns that a configuration was read from, and the files of TLS.
    pub fn with_files(mut self, sources: &Sources, material: &Material) -> Configure {
        let files = sources.files().chain(material.files());
        self.files = files.map(|(path, bytes)| (path.to_owned(), bytes.to_vec())).collect();
        self.globs = sources.globs().map(|(pattern, found)| (pattern.to_owned(), found.to_vec())).collect();
        self
    }

    /// A loader that reads the files of the message.
    pub fn loader(&self) -> MemoryLoader {
        let mut loader = MemoryLoader::new();
        for (path, bytes) in &self.files {
            loader.add(path.clone(), bytes.clone());
        }
        for (pattern, found) in &self.globs {
            loader.add_glob(pattern.clone(), found.clone());
        }
        loader
    }
}

impl Message {
    /// The byte that tells kinds of messages apart.
    pub fn kind(&self) -> u8 {
        match self {
            Message::Configure(_) => CONFIGURE,
            Message::Reopen(_) => REOPEN,
            Message::Ready => READY,
            Message::Refused(_) => REFUSED,
        }
    }

    /// The bytes of the message: numbers are little-endian; texts and lists begin with their length in 4 bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut to = Writer(Vec::new());
        match self {
            Message::Configure(configure) => to.configure(configure),
            Message::Reopen(logs) => to.list(logs, |to, path| to.path(path)),
            Message::Ready => {}
            Message::Refused(reason) => to.bytes(reason.as_bytes()),
        }
        to.0
    }

    /// The message of that kind in `bytes`.
    pub fn from_bytes(kind: u8, bytes: &[u8]) -> Result<Message, MessageError> {
        let mut from = Reader(bytes);
        let message = match kind {
            CONFIGURE => Message::Configure(Box::new(from.configure()?)),
            REOPEN => Message::Reopen(from.list(Reader::path)?),
            READY => Message::Ready,
            REFUSED => Message::Refused(from.text()?),
            other => return Err(MessageError::Tag(other)),
        };
        match from.0.len() {
            0 => Ok(message),
            more => Err(MessageError::Long(more)),
        }
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn configure(&mut self, configure: &Configure) {
        self.number(configure.workers);
        self.number(configure.respawned);
        self.number(configure.reloads);
        self.option(&configure.account, |to, account| {
            to.bytes(account.name.as_bytes());
            to.number(account.uid);
            to.number(account.gid);
            to.0.push(u8::from(account.binds_anywhere));
        });
        self.surroundings(&configure.surroundings);
        self.list(&configure.files, |to, (path, bytes)| {
            to.path(path);
            to.bytes(bytes);
        });
        self.list(&configure.globs, |to, (pattern, found)| {
            to.bytes(pattern.as_bytes());
            to.list(found, |to, path| to.path(path));
        });
        self.list(&configure.listeners, |to, (address, sockets)| {
            match address {
                ListenAddress::Tcp(address) => {
                    to.0.push(TCP);
                    to.bytes(address.to_string().as_bytes());
                }
                ListenAddress::Unix(path) => {
                    to.0.push(UNIX);
                    to.path(path);
                }
            }
            to.number(*sockets);
        });
        self.list(&configure.logs, |to, path| to.path(path));
        self.0.push(u8::from(configure.has_log_socket));
        self.0.push(u8::from(configure.has_ask_socket));
    }

    fn surroundings(&mut self, surroundings: &Surroundings) {
        self.path(&surroundings.conf_file);
        self.path(&surroundings.conf_prefix);
        self.path(&surroundings.prefix);
        self.option(&surroundings.globals, |to, text| to.bytes(text.as_bytes()));
        self.0.push(u8::from(surroundings.is_root));
        self.bytes(surroundings.hostname.as_bytes());
        let file = match &surroundings.error_log {
            DefaultLog::File(path) => Some(path.clone()),
            DefaultLog::Stderr => None,
        };
        self.option(&file, |to, path| to.path(path));
    }

    fn number(&mut self, number: u32) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    /// Writes a length. It fits, because a frame is far below 4 GB.
    fn length(&mut self, length: usize) {
        self.number(u32::try_from(length).unwrap_or(u32::MAX));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    fn path(&mut self, path: &Path) {
        self.bytes(path.as_os_str().as_bytes());
    }

    fn option<T>(&mut self, value: &Option<T>, write: impl FnOnce(&mut Self, &T)) {
        self.0.push(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.length(items.len());
        for item in items {
            write(self, item);
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn configure(&mut self) -> Result<Configure, MessageError> {
        Ok(Configure {
            workers: self.number()?,
            respawned: self.number()?,
            reloads: self.number()?,
            account: self.option(|from| {
                Ok(Account {
                    name: from.text()?,
                    uid: from.number()?,
                    gid: from.number()?,
                    binds_anywhere: from.boolean()?,
                })
            })?,
            surroundings: self.surroundings()?,
            files: self.list(|from| Ok((from.path()?, from.bytes()?.to_vec())))?,
            globs: self.list(|from| Ok((from.text()?, from.list(Reader::path)?)))?,
            listeners: self.list(|from| Ok((from.address()?, from.number()?)))?,
            logs: self.list(Reader::path)?,
            has_log_socket: self.boolean()?,
            has_ask_socket: self.boolean()?,
        })
    }

    fn surroundings(&mut self) -> Result<Surroundings, MessageError> {
        Ok(Surroundings {
            conf_file: self.path()?,
            conf_prefix: self.path()?,
            prefix: self.path()?,
            globals: self.option(Reader::text)?,
            is_root: self.boolean()?,
            hostname: self.text()?,
            error_log: match self.option(Reader::path)? {
                Some(path) => DefaultLog::File(path),
                None => DefaultLog::Stderr,
            },
        })
    }

    fn address(&mut self) -> Result<ListenAddress, MessageError> {
        match self.byte()? {
            TCP => {
                let address: SocketAddr = self.text()?.parse().map_err(|_| MessageError::Text)?;
                Ok(ListenAddress::Tcp(address))
            }
            UNIX => Ok(ListenAddress::Unix(self.path()?)),
            other => Err(MessageError::Tag(other)),
        }
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], MessageError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(MessageError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, MessageError> {
        self.take(1)?.first().copied().ok_or(MessageError::Short)
    }

    fn boolean(&mut self) -> Result<bool, MessageError> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(MessageError::Tag(other)),
        }
    }

    fn number(&mut self) -> Result<u32, MessageError> {
        let bytes = self.take(4)?.try_into().map_err(|_| MessageError::Short)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn bytes(&mut self) -> Result<&'a [u8], MessageError> {
        let length = self.number()?;
        self.take(usize::try_from(length).map_err(|_| MessageError::Short)?)
    }

    fn text(&mut self) -> Result<String, MessageError> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| MessageError::Text)
    }

    fn path(&mut self) -> Result<PathBuf, MessageError> {
        Ok(OsString::from_vec(self.bytes()?.to_vec()).into())
    }

    fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, MessageError>,
    ) -> Result<Option<T>, MessageError> {
        if self.boolean()? { read(self).map(Some) } else { Ok(None) }
    }

    /// Reads a list. It allocates as items arrive, not by their announced number.
    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T, MessageError>) -> Result<Vec<T>, MessageError> {
        let mut items = Vec::new();
        for _ in 0..self.number()? {
            items.push(read(self)?);
        }
        Ok(items)
    }
}

const CONFIGURE: u8 = 1;
const REOPEN: u8 = 2;
const READY: u8 = 3;
const REFUSED: u8 = 4;

const TCP: u8 = 4;
const UNIX: u8 = 1;

#[cfg(test)]
pub mod tests {
    use larder_conf::Loader;

    use super::*;

    /// A message of each kind, with something in every field.
    pub fn examples() -> Vec<Message> {
        let surroundings = Surroundings {
            conf_file: "/etc/a.conf".into(),
            conf_prefix: "/etc".into(),
            prefix: "/p".into(),
            globals: Some("pid x;".to_owned()),
            is_root: true,
            hostname: "h".to_owned(),
            error_log: DefaultLog::File("/e".into()),
        };
        let configure = Configure {
            workers: 4,
            respawned: 2,
            reloads: 3,
            account: Some(Account { name: "www".to_owned(), uid: 33, gid: 34, binds_anywhere: true }),
            surroundings: surroundings.clone(),
            files: vec![("/etc/a.conf".into(), b"\xff;".to_vec()), ("/etc/b".into(), Vec::new())],
            globs: vec![("/etc/*".to_owned(), vec!["/etc/b".into()]), ("/x".to_owned(), Vec::new())],
            listeners: vec![
                (ListenAddress::Tcp("[::]:80".parse().unwrap()), 4),
                (ListenAddress::Unix("/run/s".into()), 1),
            ],
            logs: vec!["/var/log/a".into(), PathBuf::from(OsString::from_vec(b"/\xff".to_vec()))],
            has_log_socket: true,
            has_ask_socket: true,
        };
        let bare = Configure {
            workers: 1,
            respawned: 0,
            reloads: 0,
            account: None,
            surroundings: Surroundings { globals: None, is_root: false, error_log: DefaultLog::Stderr, ..surroundings },
            files: Vec::new(),
            globs: Vec::new(),
            listeners: Vec::new(),
            logs: Vec::new(),
            has_log_socket: false,
            has_ask_socket: false,
        };
        vec![
            Message::Configure(Box::new(configure)),
            Message::Configure(Box::new(bare)),
            Message::Reopen(vec!["/a".into(), "/b".into()]),
            Message::Ready,
            Message::Refused("larder: [emerg] no".to_owned()),
        ]
    }

    #[test]
    fn a_message_comes_back_from_its_bytes() {
        for message in examples() {
            let back = Message::from_bytes(message.kind(), &message.to_bytes()).unwrap();
            assert_eq!(format!("{back:?}"), format!("{message:?}"));
        }
    }

    #[test]
    fn a_message_that_is_cut_anywhere_or_too_long_is_an_error() {
        for message in examples() {
            let bytes = message.to_bytes();
            for length in 0..bytes.len() {
                let cut = Message::from_bytes(message.kind(), &bytes[..length]);
                assert!(cut.is_err(), "{length} bytes of {message:?}");
            }
            let longer = [&bytes[..], b"x"].concat();
            assert!(matches!(Message::from_bytes(message.kind(), &longer), Err(MessageError::Long(1))));
        }
        assert!(matches!(Message::from_bytes(99, b""), Err(MessageError::Tag(99))));
    }

    #[test]
    fn any_byte_may_be_wrong_without_a_panic() {
        for message in examples() {
            let bytes = message.to_bytes();
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0xff] {
                    let mut broken = bytes.clone();
                    broken[at] = value;
                    let _ = Message::from_bytes(message.kind(), &broken);
                }
            }
        }
    }

    #[test]
    fn files_are_read_out_of_the_message() {
        let Message::Configure(configure) = &examples()[0] else { panic!("the first is Configure") };
        let mut loader = configure.loader();
        assert_eq!(loader.read(Path::new("/etc/a.conf")).unwrap(), b"\xff;");
        assert_eq!(loader.glob("/etc/*").unwrap(), [PathBuf::from("/etc/b")]);
    }
}
