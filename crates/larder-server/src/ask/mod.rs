//! The socket at which a running server is asked about itself, `larder why`, `larder explain`, `larder top`,
//! `larder cluster`, and to purge, `larder purge`.
//!
//! ```text
//! socket --a thread each--> Desk --Command--> a worker, or all --text--> whoever asked
//! ```
//! Whoever serves does not wait for it: a worker answers between two turns of its loop, and a purge is done by the thread of
//! its question.

mod misses;
mod purge;
mod socket;

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use larder_conf::model::LogLevel;
use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;

use crate::cluster::Sharing;
use crate::explain::{self, Explanation};
use crate::log::main::MainLog;
use crate::misses::{Gathered, Summary};
use crate::purges::said;
use crate::purges::wanted::{Pages, Wanted};
use crate::status;
use crate::vsl::Plain;
use crate::worker_thread::Command;

pub use socket::serve;

/// Where questions go: to the workers that run now.
#[derive(Default)]
pub struct Desk {
    workers: Mutex<Vec<UnboundedSender<Command>>>,
    /// Where it is noted what was purged.
    log: Mutex<MainLog>,
    /// Who tells other larders of purges.
    sharing: Mutex<Arc<Sharing>>,
}

/// How an answer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Json,
}

/// A question, as [`Question::parse`] reads it.
#[derive(Debug, PartialEq, Eq)]
enum Question {
    /// Why requests of the last minutes were no hits.
    Why(Form),
    /// What the server does now.
    Now,
    /// What would be done with a request.
    Explain(Form, explain::Question),
    /// How its cluster is.
    Cluster,
    /// That it forgets a node.
    Forget(Form, String),
    /// That pages be purged.
    Purge(Form, Wanted),
}

/// An answer.
#[derive(Debug, PartialEq, Eq)]
struct Told {
    text: String,
    missing: Option<Missing>,
}

/// What is missing of what was wanted, in one line.
#[derive(Debug, PartialEq, Eq)]
enum Missing {
    /// Something that may come.
    Some(String),
    /// Nodes of the cluster that are away, and nothing else.
    Away(String),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Refused {
    #[error("this server does not know the question \"{0}\": is it an older one?")]
    Unknown(String),
    #[error(
        "the server is in no cluster: \"larder_cluster\" in its configuration makes it a node of one, and a reload lets it join"
    )]
    NoCluster,
    #[error("the server is ending")]
    Ending,
    #[error("{0}")]
    Wrong(String),
    #[error("the server has not answered in {} s", PATIENCE.as_secs())]
    Busy,
}

/// How long a worker may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first word of a question, and the version of its form.
const GREETING: &str = "larder 1";

impl Desk {
    /// Asks these workers from now on, and writes to this log.
    pub(crate) fn follow(&self, workers: Vec<UnboundedSender<Command>>, log: MainLog, sharing: Arc<Sharing>) {
        *self.sharing.lock() = sharing;
        *self.log.lock() = log;
        *self.workers.lock() = workers;
    }

    fn answer(&self, question: &str) -> Result<Told, Refused> {
        let text = match Question::parse(question)? {
            Question::Why(form) => misses::shown(&self.misses()?, form),
            Question::Now => self.now()?,
            Question::Cluster => {
                let status = self.sharing().status().ok_or(Refused::NoCluster)?;
                status::cluster(&status).to_string()
            }
            Question::Forget(form, node) => self.forget(form, &node)?,
            Question::Purge(form, wanted) => {
                let done = purge::purge(&wanted, &self.pages()?, &self.sharing()).map_err(Refused::Wrong)?;
                let line = said::line(&wanted.said(), &done);
                self.log.lock().write(LogLevel::Info, format_args!("\"larder purge\": {line}"));
                return Ok(purge::told(&wanted, &done, form));
            }
            Question::Explain(form, question) => {
                let explanation = self.explain(question)?;
                match form {
                    Form::Text => explanation.as_text(),
                    Form::Json => explanation.as_json(json),
                }
            }
        };
        Ok(Told { text, missing: None })
    }

    fn forget(&self, form: Form, node: &str) -> Result<String, Refused> {
        let forgotten = self.sharing().forget_node(node).ok_or(Refused::NoCluster)?;
        forgotten.map_err(|error| Refused::Wrong(error.to_string()))?;
        self.log.lock().write(LogLevel::Notice, format_args!("\"larder cluster forget\": {}", Plain(node)));
        Ok(match form {
            Form::Text => format!("Forgotten: {node}\n"),
            Form::Json => format!("{{\"forgotten\":{}}}\n", json(node)),
        })
    }

    fn sharing(&self) -> Arc<Sharing> {
        Arc::clone(&self.sharing.lock())
    }

    /// The zones that requests find their pages in now, and what their keys may leave out.
    fn pages(&self) -> Result<Pages, Refused> {
        let (answer, answers) = mpsc::channel();
        let worker = self.workers.lock().first().cloned().ok_or(Refused::Ending)?;
        worker.send(Command::Pages(answer)).map_err(|_| Refused::Ending)?;
        answers.recv_timeout(PATIENCE).map_err(|_| Refused::Busy)
    }

    fn now(&self) -> Result<String, Refused> {
        let (answer, answers) = mpsc::channel();
        let worker = self.workers.lock().first().cloned().ok_or(Refused::Ending)?;
        worker.send(Command::Now(answer)).map_err(|_| Refused::Ending)?;
        answers.recv_timeout(PATIENCE).map_err(|_| Refused::Busy)
    }

    fn explain(&self, question: explain::Question) -> Result<Explanation, Refused> {
        let seen = self.misses()?;
        let (answer, answers) = mpsc::channel();
        let worker = self.workers.lock().first().cloned().ok_or(Refused::Ending)?;
        let asked = Command::Explain(Box::new((question, seen)), answer);
        worker.send(asked).map_err(|_| Refused::Ending)?;
        answers.recv_timeout(PATIENCE).map_err(|_| Refused::Busy)?.map_err(Refused::Wrong)
    }

    fn misses(&self) -> Result<Summary, Refused> {
        let (answer, answers) = mpsc::channel();
        let workers = self.workers.lock().clone();
        let mut asked = 0;
        for worker in &workers {
            asked += usize::from(worker.send(Command::Misses(answer.clone())).is_ok());
        }
        drop(answer);
        if asked == 0 {
            return Err(Refused::Ending);
        }
        let mut all = Gathered::default();
        for _ in 0..asked {
            all.join(answers.recv_timeout(PATIENCE).map_err(|_| Refused::Busy)?);
        }
        Ok(all.summary())
    }
}

impl Question {
    /// `larder 1 why text`, and what belongs to the question in further lines.
    fn parse(text: &str) -> Result<Self, Refused> {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let unknown = || Refused::Unknown(first.chars().take(SHOWN_CHARS).collect());
        let words = first.strip_prefix(GREETING).ok_or_else(unknown)?;
        let mut words = words.split_ascii_whitespace();
        let (what, form) = (words.next(), words.next());
        let form = match form {
            Some("text") => Form::Text,
            Some("json") => Form::Json,
            _ => return Err(unknown()),
        };
        match what {
            Some("why") => Ok(Self::Why(form)),
            Some("now") if form == Form::Json => Ok(Self::Now),
            Some("cluster") if form == Form::Json => Ok(Self::Cluster),
            Some("forget") => match rest.strip_suffix('\n') {
                Some(node) if !node.is_empty() && !node.contains('\n') => Ok(Self::Forget(form, node.to_owned())),
                Some(_) | None => Err(Refused::Wrong("no node is named".to_owned())),
            },
            Some("purge") => Ok(Self::Purge(form, Wanted::parse(rest).map_err(Refused::Wrong)?)),
            Some("explain") => Ok(Self::Explain(form, explain::Question::parse(rest).map_err(Refused::Wrong)?)),
            _ => Err(unknown()),
        }
    }
}

/// How much of a question that is not understood is repeated.
const SHOWN_CHARS: usize = 60;

/// A text as a string of JSON.
fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            char if char < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(char))),
            char => out.push(char),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_of_other_versions_are_refused_in_words() {
        assert_eq!(Question::parse("larder 1 why text\n"), Ok(Question::Why(Form::Text)));
        assert_eq!(Question::parse("larder 1 why json"), Ok(Question::Why(Form::Json)));
        assert_eq!(Question::parse("larder 1 cluster json"), Ok(Question::Cluster));
        let forget = Question::Forget(Form::Text, "web3".to_owned());
        assert_eq!(Question::parse("larder 1 forget text\nweb3\n"), Ok(forget));
        for rest in ["", "\nweb3", "\n\n", "\nweb3\nweb4\n"] {
            let refused = Refused::Wrong("no node is named".to_owned());
            assert_eq!(Question::parse(&format!("larder 1 forget json{rest}")), Err(refused), "{rest:?}");
        }
        for text in [
            "",
            "larder 1",
            "larder 1 why",
            "larder 2 why text",
            "larder 1 what text",
            "GET / HTTP/1.1",
            "larder 1 why xml",
            "larder 1 cluster text",
        ] {
            assert_eq!(Question::parse(text), Err(Refused::Unknown(text.to_owned())), "{text}");
        }
        let long = "ä".repeat(1000);
        assert_eq!(Question::parse(&long), Err(Refused::Unknown("ä".repeat(SHOWN_CHARS))));
    }

    #[test]
    fn texts_are_strings_of_json() {
        assert_eq!(json("a \"b\" \\ \n ä"), r#""a \"b\" \\ \u000a ä""#);
    }

    #[test]
    fn without_workers_the_server_is_ending() {
        assert_eq!(Desk::default().answer("larder 1 why text"), Err(Refused::Ending));
        assert_eq!(Desk::default().answer("larder 1 cluster json"), Err(Refused::NoCluster));
    }
}
