//! What others say about the server: the suite of HTTP/2, and a scanner of TLS.
//!
//! `scripts/setup test` installs both. `LARDER_TEST_BINARY=/usr/sbin/nginx` runs them on nginx, of which less is
//! expected: it has findings in both, which are printed and not judged.

mod h2spec;
mod scan;
mod server;
