//! What a server answered in a case, and what the origins saw of it.

use std::fmt::Write;

use larder_testkit::{FastCgiSeen, OriginSeen, Response};

/// Everything observed while one server played one case.
#[derive(Debug, Default)]
pub struct Transcript {
    /// Why the server did not start, if so; its words are not compared.
    pub refusal: Option<String>,
    /// The exchanges, in order.
    pub exchanges: Vec<Exchange>,
    /// What each HTTP origin saw.
    pub origins: Vec<Vec<OriginSeen>>,
    /// What the FastCGI origins saw.
    pub fastcgi: Vec<Vec<FastCgiSeen>>,
    /// The files that are compared.
    pub logs: Vec<(String, String)>,
    /// The error log.
    pub error_log: String,
}

/// A request and what came of it.
#[derive(Debug)]
pub struct Exchange {
    /// The request, for the reader.
    pub label: String,
    /// The response, or why there was none.
    pub outcome: Result<Response, String>,
    /// Whether the server closed the connection, where that was due.
    pub closed: Option<bool>,
}

impl Transcript {
    /// One line an exchange: the status, and the cache's word where it is shown.
    pub fn in_short(&self) -> String {
        if self.refusal.is_some() {
            return "refuses to start\n".to_owned();
        }
        self.exchanges.iter().fold(String::new(), |mut text, exchange| {
            // Writing to a String cannot fail.
            let _ = match &exchange.outcome {
                Ok(response) => match response.field("X-Cache") {
                    Some(word) => writeln!(text, "{} {word}", response.status),
                    None => writeln!(text, "{}", response.status),
                },
                Err(error) => writeln!(text, "{error}"),
            };
            text
        })
    }
}
