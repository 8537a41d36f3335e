//! `-s [NAME=]KIND[,OPTION...]`: where pages are stored.

use std::path::{Path, PathBuf};

use larder_vcl::functions::numbers;

/// A storage with the name by which a VCL knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// What a storage is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Memory; without a size, it shares what larder takes for pages.
    Memory { bytes: Option<u64> },
    /// Memory in front of a disk.
    Disk { path: PathBuf, bytes: Option<u64> },
}

/// The name of the storage for what does not last.
pub const TRANSIENT: &str = "Transient";

/// Reads a storage, the `number`-th of a command line.
pub fn parse(text: &str, number: usize) -> Result<Storage, String> {
    let mut words = text.split(',');
    let first = words.next().unwrap_or_default();
    let (name, kind) = first.split_once('=').map_or((None, first), |(name, kind)| (Some(name), kind));
    let name = name.map_or_else(|| format!("s{number}"), str::to_owned);
    if !is_name(&name) {
        return Err(format!("\"{name}\" is no name of a storage: letters, digits and _ only"));
    }
    let kind = match kind {
        "malloc" | "default" | "umem" => match size(words.next())? {
            Some(bytes) if bytes < BYTES_MIN => {
                return Err(format!("\"{text}\" is less than 1 MB: the size may lack an M or a G"));
            }
            bytes => Kind::Memory { bytes },
        },
        "file" | "persistent" | "deprecated_persistent" => {
            let path = words.next().filter(|path| !path.is_empty()).ok_or("write file,PATH,SIZE")?;
            Kind::Disk { path: path.into(), bytes: size(words.next())? }
        }
        other => return Err(format!("there is no storage \"{other}\": malloc, file and default are known")),
    };
    Ok(Storage { name, kind })
}

/// What varnishd adds: a storage for pages unless one is given, and one for what does not last.
pub fn with_defaults(mut storages: Vec<Storage>) -> Vec<Storage> {
    let memory = |name: &str, bytes| Storage { name: name.to_owned(), kind: Kind::Memory { bytes } };
    if storages.iter().all(|storage| storage.name == TRANSIENT) {
        storages.push(memory("s0", Some(DEFAULT_BYTES)));
    }
    if storages.iter().all(|storage| storage.name != TRANSIENT) {
        storages.push(memory(TRANSIENT, None));
    }
    storages
}

/// A name that two storages have.
pub fn twice(storages: &[Storage]) -> Option<&str> {
    let mut names: Vec<&str> = storages.iter().map(|storage| storage.name.as_str()).collect();
    names.sort_unstable();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

impl Storage {
    /// The arguments of `proxy_cache_path` for it; `folder` is where folders of nothing but names may be.
    pub fn zone(&self, folder: &Path) -> (PathBuf, String) {
        // Pages go when their time is over, not because nobody asks for them.
        let zone = format!("keys_zone={}:1m inactive=10y", self.name);
        match &self.kind {
            Kind::Memory { bytes: None } => (folder.join(&self.name), format!("{zone} larder_disk=off")),
            Kind::Memory { bytes: Some(bytes) } => {
                (folder.join(&self.name), format!("{zone} larder_disk=off larder_memory={bytes}"))
            }
            Kind::Disk { path, bytes } => {
                let size = bytes.map_or(String::new(), |bytes| format!(" max_size={}", bytes.max(DISK_BYTES_MIN)));
                (place(path, folder), format!("{zone}{size}"))
            }
        }
    }
}

/// varnishd's storage is a file, ours is a folder beside it; a folder that is there gets ours inside.
fn place(path: &Path, folder: &Path) -> PathBuf {
    let path = folder.join(path);
    match path.is_dir() {
        true => path.join("larder"),
        false => {
            let mut name = path.into_os_string();
            name.push(".larder");
            name.into()
        }
    }
}

fn size(word: Option<&str>) -> Result<Option<u64>, String> {
    let Some(word) = word.filter(|word| !word.is_empty()) else { return Ok(None) };
    let bytes = numbers::bytes(word.as_bytes()).and_then(|bytes| u64::try_from(bytes).ok()).filter(|bytes| *bytes > 0);
    bytes.map(Some).ok_or_else(|| format!("write a size such as 256m in place of \"{word}\""))
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// What varnishd takes without `-s`.
const DEFAULT_BYTES: u64 = 100 << 20;
/// The least memory of a zone.
const BYTES_MIN: u64 = 1 << 20;
/// The least disk that is worth having: a few segments.
const DISK_BYTES_MIN: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storages_are_written_as_for_varnishd() {
        for (text, name, zone) in [
            ("malloc,256m", "s3", "/v/s3 keys_zone=s3:1m inactive=10y larder_disk=off larder_memory=268435456"),
            ("malloc", "s3", "/v/s3 keys_zone=s3:1m inactive=10y larder_disk=off"),
            ("big=default,1m", "big", "/v/big keys_zone=big:1m inactive=10y larder_disk=off larder_memory=1048576"),
            ("a=file,/none/x,1g,4k", "a", "/none/x.larder keys_zone=a:1m inactive=10y max_size=1073741824"),
            ("file,/dev", "s3", "/dev/larder keys_zone=s3:1m inactive=10y"),
        ] {
            let storage = parse(text, 3).unwrap();
            let (path, words) = storage.zone(Path::new("/v"));
            assert_eq!(
                (storage.name.as_str(), format!("{} {words}", path.display())),
                (name, zone.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_storage_is_told() {
        for (text, expected) in [
            ("file", "write file,PATH,SIZE"),
            ("malloc,much", "write a size such as 256m in place of \"much\""),
            ("malloc,0", "write a size such as 256m in place of \"0\""),
            ("big=malloc,100", "\"big=malloc,100\" is less than 1 MB: the size may lack an M or a G"),
            ("tape", "there is no storage \"tape\": malloc, file and default are known"),
            ("a b=malloc", "\"a b\" is no name of a storage: letters, digits and _ only"),
            ("=malloc", "\"\" is no name of a storage: letters, digits and _ only"),
        ] {
            assert_eq!(parse(text, 0), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn one_storage_for_pages_and_one_for_the_rest_are_always_there() {
        for (given, expected) in [
            (&[][..], &["s0", "Transient"][..]),
            (&["Transient=malloc"], &["Transient", "s0"]),
            (&["a=malloc"], &["a", "Transient"]),
        ] {
            let storages = given.iter().enumerate().map(|(number, text)| parse(text, number).unwrap()).collect();
            let names: Vec<_> = with_defaults(storages).into_iter().map(|storage| storage.name).collect();
            assert_eq!(names, expected, "{given:?}");
        }
    }
}
