//! `-j KIND[,NAME=VALUE...]`: the account that serves.

use nix::unistd::User;

/// Who serves, if larder was started by root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Jail {
    /// The account that a package of Varnish makes, or nobody.
    #[default]
    Usual,
    /// Root.
    None,
    /// This user.
    User(String),
}

/// Reads the value of `-j`.
pub fn parse(text: &str) -> Result<Jail, String> {
    let mut words = text.split(',');
    match words.next() {
        Some("none") => return Ok(Jail::None),
        // Linux' jail is the one of Unix and more.
        Some("unix" | "linux") => {}
        other => {
            return Err(format!("there is no jail \"{}\": unix, linux and none are known", other.unwrap_or_default()));
        }
    }
    let mut jail = Jail::Usual;
    for word in words {
        match word.split_once('=') {
            Some(("user", name)) => jail = Jail::User(name.to_owned()),
            // In varnishd other accounts serve and compile; here one process does all.
            Some(("workuser" | "ccgroup", _)) => {}
            _ => return Err(format!("\"{word}\" is none of user=, workuser= and ccgroup=")),
        }
    }
    Ok(jail)
}

impl Jail {
    /// The user that serves when root starts it, on whatever machine.
    pub fn wanted(&self) -> String {
        match self {
            Jail::None => "root".to_owned(),
            Jail::Usual => USUAL.into_iter().find(|name| exists(name)).unwrap_or("nobody").to_owned(),
            Jail::User(name) => name.clone(),
        }
    }

    /// The user that serves. `None` says that larder was not started by root, so that it keeps its user.
    pub fn user(&self) -> Result<Option<String>, String> {
        if !nix::unistd::geteuid().is_root() {
            return Ok(None);
        }
        let usual = || USUAL.into_iter().find(|name| exists(name)).unwrap_or("nobody");
        match self {
            Jail::None => Ok(Some("root".to_owned())),
            Jail::Usual => Ok(Some(usual().to_owned())),
            Jail::User(name) if exists(name) => Ok(Some(name.clone())),
            Jail::User(name) => Err(format!("-j: there is no user \"{name}\"")),
        }
    }
}

/// The accounts of Debian's packages and of Varnish's own.
const USUAL: [&str; 2] = ["vcache", "varnish"];

fn exists(name: &str) -> bool {
    // The library panics on a zero byte.
    !name.contains('\0') && User::from_name(name).is_ok_and(|user| user.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jail_names_a_user_or_none() {
        for (text, expected) in [
            ("none", Ok(Jail::None)),
            ("unix", Ok(Jail::Usual)),
            ("linux,workuser=vcache", Ok(Jail::Usual)),
            ("unix,user=www,ccgroup=varnish", Ok(Jail::User("www".to_owned()))),
            ("solaris", Err("there is no jail \"solaris\": unix, linux and none are known")),
            ("unix,uid=7", Err("\"uid=7\" is none of user=, workuser= and ccgroup=")),
        ] {
            assert_eq!(parse(text), expected.map_err(str::to_owned), "{text}");
        }
    }
}
