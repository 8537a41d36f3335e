//! What the client sent. The step `receive` fills it. Later only `more_set_input_headers` changes fields of the head,
//! and `real_ip_header` the address that counts as the client's.

use std::net::IpAddr;
use std::rc::Rc;

use larder_http::{RequestHead, Time};

use crate::clock::Micros;

use super::Client;

/// The request as the client sent it, and by which connection.
#[derive(Clone)]
pub struct Asked {
    /// The head as it arrived.
    pub head: RequestHead,
    /// Whether the head could not be parsed, so that the bytes after it cannot be trusted.
    pub head_is_bad: bool,
    /// The connection that it arrived by.
    pub client: Rc<Client>,
    /// The number of this request on its connection, from 1.
    pub number: u64,
    /// When the first byte of its head arrived.
    pub started: Time,
    /// When its head was complete.
    pub complete: Micros,
    /// `$remote_addr`, if `real_ip_header` has changed it.
    pub real_ip: Option<(IpAddr, u16)>,
}

impl Asked {
    /// A request of `client` that has not arrived yet.
    pub(super) fn new(client: Rc<Client>) -> Self {
        Self {
            head: RequestHead::new(),
            head_is_bad: false,
            client,
            number: 0,
            started: Time(0),
            complete: Micros::default(),
            real_ip: None,
        }
    }

    /// Forgets the request. The head keeps its memory.
    pub(super) fn reset(&mut self, client: &Rc<Client>) {
        let Self { head, head_is_bad, client: known, number, started, complete, real_ip } = self;
        head.clear();
        *head_is_bad = false;
        if !Rc::ptr_eq(known, client) {
            *known = Rc::clone(client);
        }
        *number = 0;
        *started = Time(0);
        *complete = Micros::default();
        *real_ip = None;
    }
}
