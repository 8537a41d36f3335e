//! The numbers of requests, as Varnish hands them out: one to a connection, one to a request, one to a fetch.

use crate::exchange::Exchange;
use crate::xid;

/// Numbers a request, before its first sub.
pub fn number_request(ex: &mut Exchange) {
    ex.asked.client.number();
    ex.vcl.client.xid = xid::next();
}

/// Numbers a fetch.
pub fn number_fetch(ex: &mut Exchange) {
    ex.vcl.fetch.xid = xid::next();
}
