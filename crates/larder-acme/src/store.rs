//! What outlives the process: accounts, keys, certificates, and orders under way.
//!
//! ```text
//! STATE_DIR/                                0700 if we make it
//!   acme-v02.api.letsencrypt.org_directory/ 0700, one folder a CA, since what one CA gave is of no use at another
//!     lock                                  held by the process that orders
//!     account.key                           the key of an account that is being made, PKCS#8 DER
//!     account.json                          the account, with its key
//!     example.org-HASH.pem                  a key, its certificate and the chain
//!     example.org-HASH.order.json           an order under way: its URL and the key of its certificate
//!     example.org-HASH.wait                 until when the CA wants to be left alone, in seconds since 1970
//! ```
//! Every file has mode 0600 and is written beside its place, flushed and renamed, so that a crash leaves the old one
//! or the new one. What cannot be read is renamed to `NAME.damaged` and made anew.

use crate::certificate::Certificate;
use crate::log::{Level, Log};
use crate::order::Order;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The files of one CA.
pub(crate) struct Store {
    folder: PathBuf,
    log: Log,
}

/// What the file system refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {path}: {source}; it must belong to the user that larder serves as")]
pub(crate) struct StoreError {
    action: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// An order under way. Its key is here before the CA makes a certificate for it, so that none is lost.
pub(crate) struct OrderUnderWay {
    pub(crate) url: String,
    pub(crate) key_pem: String,
}

impl Store {
    pub(crate) fn new(state_dir: &Path, directory: &str, log: Log) -> Self {
        Self { folder: state_dir.join(folder_name(directory)), log }
    }

    /// What tells the CA from others: the name of its folder.
    pub(crate) fn folder_name(&self) -> Cow<'_, str> {
        self.folder.file_name().unwrap_or_default().to_string_lossy()
    }

    /// Makes the folders, and sees that nobody else may look into the CA's. The one above it may be shared with others,
    /// if it was there before.
    pub(crate) fn prepare(&self) -> Result<(), StoreError> {
        let folder = &self.folder;
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|source| failed("make", folder, source))?;
        let mode = fs::metadata(folder).map_err(|source| failed("look at", folder, source))?.permissions().mode();
        if mode & 0o077 != 0 {
            let closed = fs::set_permissions(folder, Permissions::from_mode(0o700));
            closed.map_err(|source| failed("close to others", folder, source))?;
            self.say(Level::Notice, folder, &format!("had mode {:03o}; it is 700 now", mode & 0o777));
        }
        Ok(())
    }

    /// The right to order, held as long as the file is open; `None` while another process holds it.
    pub(crate) fn lock(&self) -> Result<Option<File>, StoreError> {
        let path = self.folder.join("lock");
        let opened = OpenOptions::new().create(true).append(true).mode(0o600).open(&path);
        let file = opened.map_err(|source| failed("open", &path, source))?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(failed("lock", &path, source)),
        }
    }

    /// The stored certificate of `order`.
    pub(crate) fn certificate(&self, order: &Order) -> Option<Certificate> {
        let path = self.certificate_path(order);
        let certificate = match Certificate::from_file(&self.read(&path)?) {
            Ok(certificate) => certificate,
            Err(error) => {
                self.set_aside(&path, &error.to_string());
                return None;
            }
        };
        if !certificate.covers(order.names()) {
            self.set_aside(&path, "it is not for the names that its file name says");
            return None;
        }
        Some(certificate)
    }

    /// Every certificate that is stored, to serve those of an order that changed until its own is there.
    pub(crate) fn certificates(&self) -> Vec<Certificate> {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return Vec::new();
        };
        let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
        let stored = paths.filter(|path| path.extension().is_some_and(|ending| ending == "pem"));
        stored.filter_map(|path| Certificate::from_file(&read_bounded(&path).ok()?).ok()).collect()
    }

    /// Stores the certificate of `order`, which is under way no more, nor asked to wait.
    pub(crate) fn save_certificate(&self, order: &Order, certificate: &Certificate) -> Result<(), StoreError> {
        self.write(&self.certificate_path(order), &certificate.file_text())?;
        self.forget_order_under_way(order);
        self.remove(&self.wait_path(order));
        Ok(())
    }

    /// Until when the CA wants to be left alone with `order`.
    pub(crate) fn wait(&self, order: &Order) -> Option<SystemTime> {
        let path = self.wait_path(order);
        let text = String::from_utf8(self.read(&path)?).ok();
        let seconds = text.and_then(|text| text.trim().parse().ok());
        let until = seconds.and_then(|seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds)));
        if until.is_none() {
            self.set_aside(&path, "it does not say until when to wait");
        }
        until
    }

    /// Remembers until when the CA wants to be left alone with `order`, which a restart must not cut short.
    pub(crate) fn save_wait(&self, order: &Order, until: SystemTime) -> Result<(), StoreError> {
        let seconds = until.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        self.write(&self.wait_path(order), format!("{seconds}\n").as_bytes())
    }

    /// The order under way for `order`, of this process or one before it.
    pub(crate) fn order_under_way(&self, order: &Order) -> Option<OrderUnderWay> {
        let path = self.order_path(order);
        let text = self.read(&path)?;
        let value: Option<Value> = serde_json::from_slice(&text).ok();
        let field = |name| value.as_ref().and_then(|value| value.get(name)?.as_str()).map(String::from);
        let (Some(url), Some(key_pem)) = (field("url"), field("key")) else {
            self.set_aside(&path, "it does not say what order is under way");
            return None;
        };
        Some(OrderUnderWay { url, key_pem })
    }

    /// Remembers the order under way for `order`.
    pub(crate) fn save_order_under_way(&self, order: &Order, under_way: &OrderUnderWay) -> Result<(), StoreError> {
        let value = json!({ "url": under_way.url, "key": under_way.key_pem, "names": order.names() });
        self.write(&self.order_path(order), value.to_string().as_bytes())
    }

    /// Forgets the order under way: it failed, or is done.
    pub(crate) fn forget_order_under_way(&self, order: &Order) {
        self.remove(&self.order_path(order));
    }

    /// The stored account, or why there is none.
    pub(crate) fn account(&self) -> Option<Value> {
        let path = self.account_path();
        match serde_json::from_slice(&self.read(&path)?) {
            Ok(value) => Some(value),
            Err(error) => {
                self.set_aside(&path, &format!("it is no JSON: {error}"));
                None
            }
        }
    }

    /// Stores the account; the key it was made with is in it.
    pub(crate) fn save_account(&self, account: &Value) -> Result<(), StoreError> {
        self.write(&self.account_path(), account.to_string().as_bytes())?;
        self.remove(&self.account_key_path());
        Ok(())
    }

    /// Renames the stored account, so that another is made.
    pub(crate) fn set_account_aside(&self, why: &str) {
        self.set_aside(&self.account_path(), why);
    }

    /// The key of an account whose making was interrupted.
    pub(crate) fn account_key(&self) -> Option<Vec<u8>> {
        self.read(&self.account_key_path())
    }

    /// Stores the key of an account that is about to be made.
    pub(crate) fn save_account_key(&self, der: &[u8]) -> Result<(), StoreError> {
        self.write(&self.account_key_path(), der)
    }

    /// Renames the key of an account, so that another is made.
    pub(crate) fn set_account_key_aside(&self, why: &str) {
        self.set_aside(&self.account_key_path(), why);
    }

    /// Finds out whether a file can be written, before the CA is asked for what then could not be kept.
    pub(crate) fn try_writing(&self) -> Result<(), StoreError> {
        let path = self.folder.join("probe");
        self.write(&path, b"larder writes here\n")?;
        self.remove(&path);
        Ok(())
    }

    fn certificate_path(&self, order: &Order) -> PathBuf {
        self.folder.join(order.id() + ".pem")
    }

    fn order_path(&self, order: &Order) -> PathBuf {
        self.folder.join(order.id() + ".order.json")
    }

    fn wait_path(&self, order: &Order) -> PathBuf {
        self.folder.join(order.id() + ".wait")
    }

    fn account_path(&self) -> PathBuf {
        self.folder.join("account.json")
    }

    fn account_key_path(&self) -> PathBuf {
        self.folder.join("account.key")
    }

    /// The bytes of a file; `None`, with a log line where it is no matter of course, if they cannot be had.
    fn read(&self, path: &Path) -> Option<Vec<u8>> {
        match read_bounded(path) {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                self.set_aside(path, &error.to_string());
                None
            }
            Err(error) => {
                self.say(Level::Error, path, &format!("cannot be read: {error}"));
                None
            }
        }
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        self.write_beside(&beside, bytes).map_err(|source| failed("write", &beside, source))?;
        fs::rename(&beside, path).map_err(|source| failed("rename", &beside, source))?;
        let flushed = File::open(&self.folder).and_then(|folder| folder.sync_all());
        flushed.map_err(|source| failed("flush", &self.folder, source))
    }

    fn write_beside(&self, beside: &Path, bytes: &[u8]) -> io::Result<()> {
        // One that a crash left behind may have any rights; this one is made with ours.
        match fs::remove_file(beside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn remove(&self, path: &Path) {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                self.say(Level::Warn, path, &format!("cannot be removed: {error}"));
            }
            _ => {}
        }
    }

    fn set_aside(&self, path: &Path, why: &str) {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".damaged");
        let (level, fact) = match fs::rename(path, &aside) {
            Ok(()) => (Level::Warn, format!("{why}; it was renamed to {} and is made anew", aside.display())),
            Err(error) => (Level::Error, format!("{why}, and it cannot be renamed: {error}")),
        };
        self.say(level, path, &fact);
    }

    fn say(&self, level: Level, path: &Path, fact: &str) {
        self.log.say(level, &path.display().to_string(), fact);
    }
}

/// More than any of our files has.
const FILE_BYTES_MAX: u64 = 1 << 20;

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("it has more than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError { action, path: path.into(), source }
}

/// A file name for a directory's URL. Two URLs never share one: what is not plain is written in hex.
fn folder_name(directory: &str) -> String {
    let plain = directory.strip_prefix("https://").unwrap_or(directory).to_ascii_lowercase();
    let mut name = String::new();
    for byte in plain.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => name.push(char::from(byte)),
            b'.' if !name.is_empty() => name.push('.'),
            b'/' => name.push('_'),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    name
}

#[cfg(test)]
mod tests;
