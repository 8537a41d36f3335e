//! What the functions of modules keep while a task lasts, which is what Varnish calls PRIV_TASK.

use std::net::SocketAddr;

use larder_vcl::functions::cookies::Cookies;

/// What is kept for one task: the client's side of a request, or a fetch.
#[derive(Clone, Debug, Default)]
pub struct ModuleTask {
    /// Those of the module `cookie`.
    pub cookies: Cookies,
    /// Those of the module `var`.
    pub vars: Vars,
    /// What was wrong with the last `std.ban()`.
    pub ban_error: Option<String>,
    /// How many bytes of the workspace the module `vtc` has taken.
    pub taken_bytes: usize,
}

/// The variables of the module `var`.
#[derive(Clone, Debug, Default)]
pub struct Vars(Vec<(Box<[u8]>, Var)>);

/// The value of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Var {
    /// A STRING.
    Text(Box<[u8]>),
    /// An INT.
    Int(i64),
    /// A REAL.
    Real(f64),
    /// A DURATION, in seconds.
    Duration(f64),
    /// An IP.
    Ip(SocketAddr),
    /// A BACKEND, by its number.
    Backend(Option<u32>),
}

/// The variables need more room than there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the variables of one request take more than {bytes_max} bytes")]
pub struct NoRoom {
    bytes_max: usize,
}

/// What a variable takes beside its name and its text.
const VAR_BYTES: usize = 48;

impl Vars {
    /// Sets a variable, whatever its type was. All together take `bytes_max` at most.
    pub fn set(&mut self, name: &[u8], value: Var, bytes_max: usize) -> Result<(), NoRoom> {
        let others: usize = self.0.iter().map(|(name, value)| bytes_of(name, value)).sum();
        if others + bytes_of(name, &value) > bytes_max {
            return Err(NoRoom { bytes_max });
        }
        match self.0.iter_mut().find(|(there, _)| **there == *name) {
            Some((_, there)) => *there = value,
            None => self.0.push((name.into(), value)),
        }
        Ok(())
    }

    /// A variable; `None` if it was not set.
    pub fn get(&self, name: &[u8]) -> Option<&Var> {
        self.0.iter().find(|(there, _)| **there == *name).map(|(_, value)| value)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

fn bytes_of(name: &[u8], value: &Var) -> usize {
    let text = if let Var::Text(text) = value { text.len() } else { 0 };
    VAR_BYTES + name.len() + text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_the_value_and_the_type_that_it_got_last() {
        let mut vars = Vars::default();
        for (name, value) in [("a", Var::Int(1)), ("b", Var::Real(2.0)), ("a", Var::Text(b"three"[..].into()))] {
            vars.set(name.as_bytes(), value, 1000).expect("there is room");
        }
        assert_eq!(vars.get(b"a"), Some(&Var::Text(b"three"[..].into())));
        assert_eq!((vars.get(b"b"), vars.get(b"c")), (Some(&Var::Real(2.0)), None));
        vars.clear();
        assert_eq!(vars.get(b"a"), None);
    }

    #[test]
    fn variables_that_find_no_room_are_an_error() {
        let mut vars = Vars::default();
        vars.set(b"a", Var::Int(1), 49).expect("there is room");
        assert!(vars.set(b"b", Var::Int(1), 97).is_err());
        assert!(vars.set(b"b", Var::Text(b"text"[..].into()), 101).is_err());
        assert!(vars.set(b"b", Var::Text(b"text"[..].into()), 102).is_ok());
    }
}
