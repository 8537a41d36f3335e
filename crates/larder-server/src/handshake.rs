//! Starts a client's TLS session, with the certificate that the client is shown.

use std::cell::RefCell;
use std::rc::Rc;

use larder_tls::{CertifiedKey, Hello, Session};

use crate::context::Cx;
use crate::exchange::{Client, Exchange, Secured};
use crate::tls::{ByVariable, Certificate, ServerTls};

impl ServerTls {
    /// A session for the client of the connection `client`, which sent `hello`.
    pub fn session(
        &self,
        hello: Hello,
        http2: bool,
        client: &Client,
        server: usize,
        cx: &Cx,
    ) -> Result<Session, String> {
        let config = if http2 { &self.with_http2 } else { &self.without_http2 };
        let key = match &self.certificate {
            Certificate::Configured => return Ok(Session::accept(config, hello)),
            Certificate::ByVariable(by_variable) => {
                let asked = Session::accept(config, hello.clone());
                by_variable.find(asked, client, server, cx)?
            }
            Certificate::Issued(issued) => issued.current(),
        };
        Ok(Session::accept_with(config, hello, &key))
    }
}

impl ByVariable {
    /// The certificate for the server name and other properties in `asked`.
    fn find(&self, asked: Session, client: &Client, server: usize, cx: &Cx) -> Result<CertifiedKey, String> {
        let asked = Rc::new(RefCell::new(asked));
        let virtual_server = &cx.site().servers[server];
        let client = client.with(Secured::tls(asked, virtual_server, virtual_server));
        let mut ex = Exchange::new(Rc::new(client));
        ex.request.server = server;
        ex.request.location = cx.site().servers[server].root;
        let certificate = self.certificate.value(&mut ex, cx);
        let key = self.key.value(&mut ex, cx);
        self.load(&certificate, &key)
    }
}
