//! What others say about the server: the suite of HTTP/2, a scanner of TLS, a CA, an exporter of NGINX Plus, and varnishadm.
//!
//! `scripts/setup test` installs them. `LARDER_TEST_BINARY=/usr/sbin/nginx` runs them on nginx, of which less is
//! expected: it has findings in both, which are printed and not judged.

mod acme;
mod exporter;
mod h2spec;
mod scan;
mod server;
mod varnishadm;
