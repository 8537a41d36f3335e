//! The numbers of requests, as Varnish hands them out: one to a connection, one to a request, one to a fetch.

use crate::exchange::Exchange;
use crate::xid;

/// The number of the connection, taken when its first request needs one.
pub fn of_connection(ex: &Exchange) -> u64 {
    let xid = &ex.asked.client.xid;
    if xid.get() == 0 {
        xid.set(xid::next());
    }
    xid.get()
}

/// Numbers a request, before its first sub.
pub fn number_request(ex: &mut Exchange) {
    of_connection(ex);
    ex.vcl.client.xid = xid::next();
}

/// Numbers a fetch.
pub fn number_fetch(ex: &mut Exchange) {
    ex.vcl.fetch.xid = xid::next();
}
