//! What came with the request. `receive` writes it; later only `more_set_input_headers` changes a field of the head, and
//! `real_ip_header` says whose address counts.

use std::net::IpAddr;
use std::rc::Rc;

use larder_http::{RequestHead, Time};

use super::Client;

/// What came with the request.
#[derive(Clone)]
pub struct Asked {
    /// The request as it came.
    pub head: RequestHead,
    /// Whether the head could not be read, so that what follows it is not to be trusted.
    pub head_is_bad: bool,
    /// The connection it came by.
    pub client: Rc<Client>,
    /// Which request of its connection this is, from 1.
    pub number: u64,
    /// When the first byte of its head came.
    pub started: Time,
    /// `$remote_addr` as `real_ip_header` has it.
    pub real_ip: Option<(IpAddr, u16)>,
}

impl Asked {
    /// Nothing yet, from `client`.
    pub(super) fn new(client: Rc<Client>) -> Self {
        Self { head: RequestHead::new(), head_is_bad: false, client, number: 0, started: Time(0), real_ip: None }
    }

    /// Forgets the request. The head keeps its room.
    pub(super) fn reset(&mut self, client: &Rc<Client>) {
        let Self { head, head_is_bad, client: known, number, started, real_ip } = self;
        head.clear();
        *head_is_bad = false;
        if !Rc::ptr_eq(known, client) {
            *known = Rc::clone(client);
        }
        *number = 0;
        *started = Time(0);
        *real_ip = None;
    }

    /// The client's address: the peer's, or what `real_ip_header` made of it.
    pub fn remote_ip(&self) -> Option<IpAddr> {
        self.real_ip.map(|(ip, _)| ip).or_else(|| self.client.peer.map(|peer| peer.ip()))
    }
}
