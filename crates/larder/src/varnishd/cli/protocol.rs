//! The form of answers, and how a client shows that it knows the secret.

use std::fmt::Write;

use larder_server::clock;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// What became of a command, with Varnish's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The line has no words.
    Syntax = 100,
    /// There is no such command.
    Unknown = 101,
    /// There is one, and larder does not have it.
    NotBuilt = 102,
    /// It needs more words.
    TooFew = 104,
    /// It has too many words.
    TooMany = 105,
    /// A word is wrong.
    Parameter = 106,
    /// The client has to show that it knows the secret, or nobody may do this.
    Auth = 107,
    /// Done.
    Ok = 200,
    /// Done, and the answer is not all there is to say.
    Truncated = 201,
    /// It cannot be done now.
    Cannot = 300,
    /// Done; nothing more is read.
    Close = 500,
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What became of the command.
    pub status: Status,
    /// What there is to say.
    pub text: String,
}

impl Answer {
    /// An answer with this text.
    pub fn new(status: Status, text: impl Into<String>) -> Answer {
        Answer { status, text: text.into() }
    }

    /// It was done.
    pub fn ok(text: impl Into<String>) -> Answer {
        Answer::new(Status::Ok, text)
    }

    /// The bytes of the answer: a line of 13 bytes with status and length, the text, and an end of line.
    pub fn bytes(&self) -> Vec<u8> {
        let (mut status, mut text) = (self.status, self.text.as_str());
        let limited;
        if text.len() > ANSWER_BYTES_MAX {
            let end = text.floor_char_boundary(ANSWER_BYTES_MAX);
            limited = format!("{}\n[response was limited]\n", &text[..end]);
            text = &limited;
            status = if status == Status::Ok { Status::Truncated } else { status };
        }
        format!("{:<3} {:<8}\n{text}\n", status as u16, text.len()).into_bytes()
    }
}

/// What a client without permission is told.
pub fn challenge_text(challenge: &str) -> String {
    format!("{challenge}\n\nAuthentication required.\n")
}

/// What a client answers to a challenge if it knows the secret.
pub fn expected_answer(challenge: &str, secret: &[u8]) -> String {
    let mut hash = Sha256::new();
    for part in [challenge.as_bytes(), b"\n", secret, challenge.as_bytes(), b"\n"] {
        hash.update(part);
    }
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// What is said to a client that may give orders.
pub fn banner(storage: &str) -> String {
    let system = rustix::system::uname();
    let shown = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    format!(
        "-----------------------------\nVarnish Cache CLI 1.0\n-----------------------------\n\
         {},{},{},{storage}\nlarder-{} as varnishd\n\n\
         Type 'help' for command list.\nType 'quit' to close CLI session.\n",
        shown(system.sysname()),
        shown(system.release()),
        shown(system.machine()),
        env!("CARGO_PKG_VERSION"),
    )
}

/// An answer in JSON, in the shape that Varnish gives all of them: a version, the command, the time, and what it is about.
pub fn json(version: u32, words: &[String], about: Vec<Value>) -> String {
    let now = clock::now().secs_f64();
    let all: Value = [json!(version), json!(words), json!(now)].into_iter().chain(about).collect();
    let mut text = format!("{all:#}");
    text.push('\n');
    text
}

/// The longest answer: the length has eight digits, and nobody reads that much.
const ANSWER_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_line_of_thirteen_bytes() {
        for (answer, expected) in [
            (Answer::ok("PONG 1 1.0"), "200 10      \nPONG 1 1.0\n"),
            (Answer::new(Status::Parameter, ""), "106 0       \n\n"),
        ] {
            assert_eq!(answer.bytes(), expected.as_bytes());
        }
        let long = Answer::ok("ü".repeat(ANSWER_BYTES_MAX)).bytes();
        assert!(long.starts_with(b"201 10486"), "{:?}", &long[..13]);
        assert!(long.ends_with(b"[response was limited]\n\n"));
    }

    #[test]
    fn who_knows_the_secret_can_answer_the_challenge() {
        // The example of varnish-cli(7).
        let answer = expected_answer("ixslvvxrgkjptxmcgnnsdxsvdmvfympg", b"foo\n");
        assert_eq!(answer, "455ce847f0073c7ab3b1465f74507b75d3dc064c1e7de3b71e00de9092fdc89a");
    }
}
