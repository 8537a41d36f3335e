//! `auth_basic`: reads the user and password of a request and checks them against the user file.
//!
//! There are two steps, as the second one may be slow: [`find`] reads the file, [`Claim::verify`] computes the hash.

mod crypt;
mod des;

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use larder_conf::model::LogLevel;
use larder_http::status;

use crate::log::io_error_text;
use crypt::Outcome;
pub(crate) use crypt::{decode_base64, encode_base64};

/// The largest user file that is read.
const USER_FILE_BYTES_MAX: u64 = 64 << 20;

/// A user and a password as the client sent them.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// `user:password`.
    text: Vec<u8>,
    colon: usize,
}

impl Credentials {
    /// `$remote_user`; never empty.
    pub fn user(&self) -> &[u8] {
        &self.text[..self.colon]
    }

    /// The password.
    pub fn password(&self) -> &[u8] {
        &self.text[self.colon + 1..]
    }
}

impl fmt::Debug for Credentials {
    /// Hides the password, which must not get into logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({:?}, ...)", String::from_utf8_lossy(self.user()))
    }
}

/// Why a request is refused. Displayed in nginx's words, for a line at [`AuthError::level`].
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// There is no valid `Authorization: Basic`.
    #[error("no user/password was provided for basic authentication")]
    NoCredentials,
    /// The file has no such user.
    #[error("user \"{user}\" was not found in \"{}\"", file.display())]
    UnknownUser {
        /// The user, as sent.
        user: String,
        /// The user file.
        file: PathBuf,
    },
    /// The wrong password.
    #[error("user \"{user}\": password mismatch")]
    Mismatch {
        /// The user, as sent.
        user: String,
    },
    /// The format of the hash is unknown.
    #[error("user \"{user}\": the hash of the password in \"{}\" has a form that is not supported ({form})", file.display())]
    Unsupported {
        /// The user, as sent.
        user: String,
        /// The user file.
        file: PathBuf,
        /// The beginning of the hash.
        form: String,
    },
    /// The file cannot be read.
    #[error("open() \"{}\" failed{}", file.display(), io_error_text(source))]
    File {
        /// The user file.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl AuthError {
    /// The level at which nginx logs it.
    pub fn level(&self) -> LogLevel {
        match self {
            Self::NoCredentials => LogLevel::Info,
            Self::UnknownUser { .. } | Self::Mismatch { .. } | Self::Unsupported { .. } => LogLevel::Error,
            Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound => LogLevel::Error,
            Self::File { .. } => LogLevel::Crit,
        }
    }

    /// The status that nginx sends; a 401 has a [`challenge`].
    pub fn status(&self) -> u16 {
        match self {
            Self::NoCredentials | Self::UnknownUser { .. } | Self::Mismatch { .. } | Self::Unsupported { .. } => {
                status::UNAUTHORIZED
            }
            Self::File { source, .. } if source.kind() == io::ErrorKind::NotFound => status::FORBIDDEN,
            Self::File { .. } => status::INTERNAL_SERVER_ERROR,
        }
    }
}

/// The value of `WWW-Authenticate`.
pub fn challenge(realm: &[u8]) -> Vec<u8> {
    [b"Basic realm=\"", realm, b"\""].concat()
}

/// A user found in the file, whose password is still to be checked.
#[derive(Debug)]
pub struct Claim {
    credentials: Credentials,
    hash: Vec<u8>,
    file: PathBuf,
}

/// Reads user and password from the request, and finds the user in the file at `path`. The file is read for each
/// request, so that a change takes effect at once.
pub fn find(authorization: Option<&[u8]>, path: &Path) -> Result<Claim, AuthError> {
    let credentials = credentials(authorization).ok_or(AuthError::NoCredentials)?;
    let text = read(path).map_err(|source| AuthError::File { file: path.to_owned(), source })?;
    match find_hash(&text, credentials.user()) {
        Some(hash) => Ok(Claim { hash: hash.to_vec(), credentials, file: path.to_owned() }),
        None => Err(AuthError::UnknownUser { user: lossy(credentials.user()), file: path.to_owned() }),
    }
}

impl Claim {
    /// Whether [`Claim::verify`] would block the worker for too long. Measured in a release build: 2 ms for `$6$` with
    /// its usual 5000 rounds, 60 ms and 16 MB for `$y$` as Debian sets it, 3 ms for bcrypt at cost 5 and twice that for
    /// each step more. `$apr1$` and `$1$` take 0.2 ms, the others less.
    pub fn is_slow(&self) -> bool {
        crypt::is_slow(&self.hash)
    }

    /// Checks the password, in a time that does not depend on where the hashes differ.
    pub fn verify(self) -> Result<Credentials, AuthError> {
        let user = || lossy(self.credentials.user());
        match crypt::verify(&self.hash, self.credentials.password()) {
            Outcome::Match => Ok(self.credentials),
            Outcome::Mismatch => Err(AuthError::Mismatch { user: user() }),
            Outcome::Unsupported => {
                let form = crypt::form_of(&self.hash);
                Err(AuthError::Unsupported { user: user(), file: self.file.clone(), form })
            }
        }
    }
}

/// The user and password in an `Authorization` field of the scheme `Basic`, also for `$remote_user`. `None` for any
/// other value, without a colon, or with an empty user.
pub fn credentials(authorization: Option<&[u8]>) -> Option<Credentials> {
    let (scheme, rest) = authorization?.split_at_checked("Basic ".len())?;
    if !scheme.eq_ignore_ascii_case(b"Basic ") {
        return None;
    }
    let start = rest.iter().position(|&byte| byte != b' ')?;
    let text = decode_base64(&rest[start..])?;
    let colon = memchr::memchr(b':', &text).filter(|&colon| colon > 0)?;
    Some(Credentials { text, colon })
}

/// The hash of a user in a file of lines `user:hash` or `user:hash:comment`; the first line of the user counts. Lines
/// that begin with `#` are comments.
fn find_hash<'a>(file: &'a [u8], user: &[u8]) -> Option<&'a [u8]> {
    file.split(|&byte| byte == b'\n').find_map(|line| {
        if line.starts_with(b"#") {
            return None;
        }
        let hash = line.strip_prefix(user)?.strip_prefix(b":")?;
        let end = hash.iter().position(|&byte| byte == b':' || byte == b'\r').unwrap_or(hash.len());
        Some(&hash[..end])
    })
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let file = File::open(path)?;
    if file.take(USER_FILE_BYTES_MAX + 1).read_to_end(&mut text)? as u64 > USER_FILE_BYTES_MAX {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok(text)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_as_nginx_reads_them() {
        for (field, expected) in [
            ("Basic dXNlcjpwYXNz", Some(("user", "pass"))),
            ("bAsIc   dXNlcjpwYXNz", Some(("user", "pass"))),
            ("Basic dXNlcjpwYTpzcw==", Some(("user", "pa:ss"))),
            ("Basic dXNlcjpwYTpzcw", Some(("user", "pa:ss"))),
            ("Basic dXNlcjo=", Some(("user", ""))),
            ("Basic dXNlcjpwYXNz=rest", Some(("user", "pass"))),
            ("Basic dXNlcg==", None),
            ("Basic OnBhc3M=", None),
            ("Basic dXNlcjpwYXNz!", None),
            ("Basic dXNlcjpwYXNzd", None),
            ("Basic ", None),
            ("Basic", None),
            ("BasicdXNlcjpwYXNz", None),
            ("Bearer dXNlcjpwYXNz", None),
            ("", None),
        ] {
            let found = credentials(Some(field.as_bytes()));
            let found = found.as_ref().map(|found| (lossy(found.user()), lossy(found.password())));
            assert_eq!(found, expected.map(|(user, pass)| (user.to_owned(), pass.to_owned())), "{field}");
        }
        assert_eq!(credentials(None), None);
    }

    #[test]
    fn a_user_is_found_by_its_first_line() {
        let file = b"# comment\n#user:no\n\nus:short\nuser:one:a comment\r\nuser:two\nlast:three\r\nempty:\nend:four";
        for (user, hash) in [
            ("user", Some("one")),
            ("us", Some("short")),
            ("last", Some("three")),
            ("empty", Some("")),
            ("end", Some("four")),
            ("#user", None),
            ("use", None),
            ("nobody", None),
        ] {
            assert_eq!(find_hash(file, user.as_bytes()), hash.map(str::as_bytes), "{user}");
        }
    }

    #[test]
    fn each_outcome_has_nginxs_words_status_and_level() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        let path = dir.path().join("users");
        std::fs::write(&path, "user:{PLAIN}pass\nodd:$gy$j9T$x$y\n").expect("written");
        let shown = path.display();
        let nowhere = Path::new("/nowhere/users");
        let check = |field: Option<&str>, path: &Path| {
            find(field.map(str::as_bytes), path).and_then(Claim::verify).map(|found| lossy(found.user()))
        };
        for (field, path, status, level, words) in [
            (None, &*path, 401, LogLevel::Info, "no user/password was provided for basic authentication".to_owned()),
            (
                Some("Basic bm9ib2R5OnBhc3M="),
                &path,
                401,
                LogLevel::Error,
                format!("user \"nobody\" was not found in \"{shown}\""),
            ),
            (
                Some("Basic dXNlcjp3cm9uZw=="),
                &path,
                401,
                LogLevel::Error,
                "user \"user\": password mismatch".to_owned(),
            ),
            (
                Some("Basic b2RkOnBhc3M="),
                &path,
                401,
                LogLevel::Error,
                format!(
                    "user \"odd\": the hash of the password in \"{shown}\" has a form that is not supported ($gy$)"
                ),
            ),
            (
                Some("Basic dXNlcjpwYXNz"),
                nowhere,
                403,
                LogLevel::Error,
                "open() \"/nowhere/users\" failed (2: No such file or directory)".to_owned(),
            ),
            (
                Some("Basic dXNlcjpwYXNz"),
                dir.path(),
                500,
                LogLevel::Crit,
                format!("open() \"{}\" failed (21: Is a directory)", dir.path().display()),
            ),
        ] {
            let error = check(field, path).expect_err("a case is refused");
            assert_eq!((error.status(), error.level(), error.to_string()), (status, level, words));
        }
        assert_eq!(check(Some("Basic dXNlcjpwYXNz"), &path).expect("the right password"), "user");
    }

    #[test]
    fn a_challenge_names_the_realm() {
        assert_eq!(challenge(b"closed"), b"Basic realm=\"closed\"");
    }

    #[test]
    fn no_bytes_are_too_odd() {
        let mut seed: u32 = 5;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % below
        };
        let letters = b"Basic =dXN$16y2{}SHAapr:/.\0\xff\n";
        let mut text = |most: usize| -> Vec<u8> { (0..random(most)).map(|_| letters[random(letters.len())]).collect() };
        for _ in 0..20_000 {
            let field = [&b"Basic "[..], &text(20)].concat();
            if let Some(found) = credentials(Some(&field)) {
                assert!(!found.user().is_empty() && !found.user().contains(&b':'), "{field:?}");
            }
            let file = text(40);
            find_hash(&file, &text(3));
            let hash = text(30);
            if !crypt::is_slow(&hash) {
                crypt::verify(&hash, b"password");
            }
        }
    }
}
