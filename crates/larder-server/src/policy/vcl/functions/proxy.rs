//! The functions of the module `proxy`: what the PROXY header of the connection says, in its second version.

use larder_vcl::run::{Failure, Texts, Value};

use crate::policy::vcl::task::Run;

use super::{kept, unbuilt};

/// The bits of the first byte of the field `ssl` (the specification of the PROXY protocol, §2.2.6).
const CLIENT_SSL: u8 = 1;
const CLIENT_CERT_CONN: u8 = 2;
const CLIENT_CERT_SESS: u8 = 4;

/// Calls one of them. What the header does not say is not there, and of numbers zero.
pub fn call(run: &Run<'_>, name: &str, texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let header = run.ex.asked.client.proxy.as_ref();
    let tlv = |name| header.and_then(|header| header.tlv(name));
    let has = |bit| tlv("ssl").and_then(|ssl| ssl.first().copied()).is_some_and(|flags| flags & bit != 0);
    let field = match name {
        "is_ssl" => return Ok(Value::Bool(has(CLIENT_SSL))),
        "client_has_cert_conn" => return Ok(Value::Bool(has(CLIENT_CERT_CONN))),
        "client_has_cert_sess" => return Ok(Value::Bool(has(CLIENT_CERT_SESS))),
        "ssl_verify_result" => {
            let result = tlv("ssl_verify").and_then(|digits| std::str::from_utf8(&digits).ok()?.parse().ok());
            return Ok(Value::Int(result.unwrap_or(0)));
        }
        "alpn" => "alpn",
        "authority" => "authority",
        "ssl_version" => "ssl_version",
        "ssl_cipher" => "ssl_cipher",
        "client_cert_cn" => "ssl_cn",
        "cert_sign" => "ssl_sig_alg",
        "cert_key" => "ssl_key_alg",
        _ => return Err(unbuilt(&format!("proxy.{name}()"))),
    };
    kept(tlv(field).as_deref(), texts)
}
