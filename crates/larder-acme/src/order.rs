//! What a certificate is wanted for.

use std::net::IpAddr;

/// One certificate, for all names of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    names: Vec<String>,
    challenge: Challenge,
}

/// How the CA may be shown that a name is ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Challenge {
    /// It asks port 80 for `/.well-known/acme-challenge/TOKEN` (RFC 8555 §8.3).
    Http01,
    /// It asks port 443 for the protocol `acme-tls/1` (RFC 8737).
    TlsAlpn01,
    /// `Http01`, and after a failure the other one in turn.
    #[default]
    Either,
}

impl Order {
    /// An order for `names`: host names in any case, or addresses. Names said twice count once, and their order does not
    /// matter: two servers with the same names share one certificate.
    pub fn new(names: impl IntoIterator<Item = impl AsRef<str>>, challenge: Challenge) -> Result<Self, OrderError> {
        let mut kept: Vec<String> = Vec::new();
        for name in names {
            let name = normal_name(name.as_ref())?;
            if !kept.contains(&name) {
                kept.push(name);
            }
        }
        kept.sort_unstable_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
        match kept.len() {
            0 => Err(OrderError::NoNames),
            1..=NAMES_MAX => Ok(Self { names: kept, challenge }),
            count => Err(OrderError::TooManyNames { count }),
        }
    }

    /// The names in normal form, the shortest first, which is what the order is called in logs.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// How the names may be shown to be ours.
    pub fn challenge(&self) -> Challenge {
        self.challenge
    }

    /// What the order is called in a log line.
    pub(crate) fn label(&self) -> String {
        match self.names.len() {
            1 => self.first().to_string(),
            count => format!("{} (and {} more)", self.first(), count - 1),
        }
    }

    /// What tells this order from others: its names. A file name.
    pub(crate) fn id(&self) -> String {
        let safe: String = self.first().chars().take(FILE_NAME_CHARS_MAX).collect();
        format!("{}-{:016x}", safe.replace(':', "_"), fnv1a(self.names.join(",").as_bytes()))
    }

    fn first(&self) -> &str {
        self.names.first().expect("`new` refuses an order without names")
    }
}

/// Why nobody can order this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// A certificate is for something.
    #[error("there is no name to order a certificate for")]
    NoNames,
    /// CAs take 100.
    #[error("{count} names are more than the {NAMES_MAX} that fit one certificate; split the server")]
    TooManyNames {
        /// How many there are.
        count: usize,
    },
    /// `*.example.org`: only DNS could prove it.
    #[error("no certificate for `{name}`: a wildcard needs a proof by DNS, which larder cannot give; list the names")]
    Wildcard {
        /// The name as given.
        name: String,
    },
    /// A name outside the host names of RFC 1123, a regular expression for example.
    #[error("no certificate for `{name}`: {why}")]
    Name {
        /// The name as given.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// What Let's Encrypt and most other CAs take.
const NAMES_MAX: usize = 100;

/// Leaves room for a hash, an ending and a temporary file's in the 255 bytes of a file name.
const FILE_NAME_CHARS_MAX: usize = 120;

fn normal_name(name: &str) -> Result<String, OrderError> {
    let wrong = |why| OrderError::Name { name: name.into(), why };
    if let Ok(address) = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    if name.contains('*') || name.starts_with('.') {
        return Err(OrderError::Wildcard { name: name.into() });
    }
    if name.starts_with('~') {
        return Err(wrong("a regular expression names no host; list the names"));
    }
    if !name.is_ascii() {
        return Err(wrong("write it in its ASCII form, xn--..."));
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.len() > 253 {
        return Err(wrong("it is longer than 253 characters"));
    }
    for label in name.split('.') {
        if label.is_empty() || label.len() > 63 {
            return Err(wrong("a part between two dots has 1 to 63 characters"));
        }
        if label.starts_with('-') || label.ends_with('-') {
            return Err(wrong("a part between two dots neither begins nor ends with `-`"));
        }
        if !label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err(wrong("a host name has letters, digits, `-` and `.`"));
        }
    }
    if name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(wrong("it is neither a host name nor an address"));
    }
    Ok(name.to_ascii_lowercase())
}

/// FNV-1a, which names files the same for ever. What a file holds is checked after reading, so that a collision costs
/// an order, never a wrong certificate.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_a_normal_form_or_a_reason() {
        for (name, expected) in [
            ("Example.ORG", Ok("example.org")),
            ("example.org.", Ok("example.org")),
            ("xn--bcher-kva.example", Ok("xn--bcher-kva.example")),
            ("localhost", Ok("localhost")),
            ("192.0.2.1", Ok("192.0.2.1")),
            ("[2001:DB8::1]", Ok("2001:db8::1")),
            ("*.example.org", Err("a wildcard needs a proof by DNS")),
            (".example.org", Err("a wildcard needs a proof by DNS")),
            ("www.*", Err("a wildcard needs a proof by DNS")),
            ("~^www\\d+", Err("a regular expression names no host")),
            ("", Err("1 to 63 characters")),
            ("_", Err("letters, digits")),
            ("a..b", Err("1 to 63 characters")),
            ("-a.example", Err("neither begins nor ends")),
            ("../../etc/passwd", Err("wildcard")),
            ("a/b", Err("letters, digits")),
            ("a\0b", Err("letters, digits")),
            ("b\u{fc}cher.example", Err("xn--")),
            ("192.0.2", Err("neither a host name nor an address")),
        ] {
            match (Order::new([name], Challenge::Either), expected) {
                (Ok(order), Ok(normal)) => assert_eq!(order.names(), [normal], "{name}"),
                (Err(error), Err(why)) => assert!(error.to_string().contains(why), "{name}: {error}"),
                (found, _) => panic!("{name}: {found:?}"),
            }
        }
        let long = vec!["a"; 128].join(".");
        assert!(Order::new([long], Challenge::Either).is_err());
    }

    #[test]
    fn an_order_has_names_and_not_too_many() {
        let none: [&str; 0] = [];
        assert_eq!(Order::new(none, Challenge::Either), Err(OrderError::NoNames));
        let many = (0..101).map(|n| format!("{n}.example.org"));
        assert_eq!(Order::new(many, Challenge::Either), Err(OrderError::TooManyNames { count: 101 }));
        let same = Order::new(["b.example", "a.example", "A.example"], Challenge::Either).expect("in order");
        assert_eq!(same.names(), ["a.example", "b.example"]);
        assert_eq!(same.label(), "a.example (and 1 more)");
        assert_eq!(Ok(same), Order::new(["a.example", "b.example"], Challenge::Either));
    }

    #[test]
    fn the_id_of_an_order_is_a_file_name_and_depends_on_the_set_of_names() {
        let id = |names: &[&str]| Order::new(names, Challenge::Http01).expect("in order").id();
        assert_eq!(id(&["a.example"]), "a.example-278da7d120d2ac28");
        assert_ne!(id(&["a.example", "b.example"]), id(&["a.example"]));
        assert_eq!(id(&["www.a.example", "a.example"]), id(&["a.example", "www.a.example"]));
        assert!(id(&["www.a.example", "a.example"]).starts_with("a.example-"));
        assert!(id(&["2001:db8::1"]).starts_with("2001_db8__1-"));
        assert!(id(&[vec!["a"; 120].join(".").as_str()]).len() < 160);
    }
}
