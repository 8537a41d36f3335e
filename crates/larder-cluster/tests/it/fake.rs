//! A server that does nothing by itself: the test takes each connection and answers each command.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use larder_testkit::PATIENCE;

/// A listening socket whose connections the test takes.
pub struct Fake(TcpListener);

/// A connection to it.
pub struct Talk(BufReader<TcpStream>);

impl Fake {
    pub fn start() -> Self {
        Self(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
    }

    pub fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    /// The next connection, whose first question was answered.
    pub fn accept(&self) -> Talk {
        let (stream, _) = self.0.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut talk = Talk(BufReader::new(stream));
        assert_eq!(talk.next()[0], "EXISTS");
        talk.answer(":0\r\n");
        talk
    }
}

impl Talk {
    /// The next command and its arguments.
    pub fn next(&mut self) -> Vec<String> {
        let words = self.number('*');
        (0..words).map(|_| self.word()).collect()
    }

    pub fn answer(&mut self, answer: &str) {
        self.0.get_mut().write_all(answer.as_bytes()).unwrap();
    }

    fn word(&mut self) -> String {
        let mut word = vec![0; self.number('$') + 2];
        self.0.read_exact(&mut word).unwrap();
        String::from_utf8(word).unwrap().trim_end().to_owned()
    }

    fn number(&mut self, kind: char) -> usize {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().strip_prefix(kind).unwrap_or_else(|| panic!("{line:?}")).parse().unwrap()
    }
}
