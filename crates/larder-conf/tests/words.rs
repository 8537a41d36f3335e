//! What is wrong is said in nginx's words. Each table was compared with `nginx -t` of nginx 1.22, and with the source
//! of nginx 1.31 where that is newer; the directives of larder's own have words of their own.

use std::path::Path;

use larder_conf::{MemoryLoader, Options, Severity, load};

/// The first thing that is said about `http { ... }`, errors before all else, with its severity; `ok` when nothing is.
fn first_words(inside: &str) -> String {
    let options = Options {
        prefix: "/usr/share/nginx".into(),
        conf_prefix: "/etc/nginx".into(),
        globals: None,
        is_root: true,
        hostname: "web1.example.org".into(),
    };
    let mut loader = MemoryLoader::new();
    loader.add("/etc/nginx/nginx.conf", format!("http {{\n{inside}\n}}"));
    let said = match load(Path::new("/etc/nginx/nginx.conf"), &options, &mut loader) {
        Ok(loaded) => loaded.notices,
        Err(failed) => failed.diagnostics,
    };
    let error = said.iter().find(|diagnostic| diagnostic.severity == Severity::Error);
    error.or(said.first()).map_or("ok".to_owned(), |diagnostic| {
        let severity = match diagnostic.severity {
            Severity::Error => "emerg",
            Severity::Warning => "warn",
            Severity::Notice | Severity::NoEffect => "notice",
        };
        format!("{severity}: {}", diagnostic.message)
    })
}

fn check(table: &[(&str, &str)], wrap: impl Fn(&str) -> String) {
    for (inside, words) in table {
        assert_eq!(first_words(&wrap(inside)), *words, "{inside}");
    }
}

#[test]
fn servers_that_speak_tls() {
    let table = [
        ("", "ok"),
        ("ssl_protocols TLSv1.4;", "emerg: invalid value \"TLSv1.4\" in \"ssl_protocols\" directive"),
        ("ssl_protocols TLSv1.2 TLSv1.2;", "warn: duplicate value \"TLSv1.2\""),
        ("ssl_protocols TLSv1.2; ssl_protocols TLSv1.3;", "ok"),
        ("ssl_protocols tlsv1.2;", "ok"),
        ("ssl_ciphers HIGH; ssl_ciphers LOW;", "emerg: \"ssl_ciphers\" directive is duplicate"),
        ("ssl_verify_client on;", "emerg: no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client"),
        ("ssl_verify_client optional_no_ca;", "ok"),
        ("ssl_verify_client on; ssl_client_certificate a.pem;", "ok"),
        ("ssl_verify_client optional; ssl_trusted_certificate a.pem;", "ok"),
        ("ssl_verify_client maybe;", "emerg: invalid value \"maybe\" in \"ssl_verify_client\" directive"),
        ("ssl_session_cache shared:a:1m; ssl_session_cache builtin;", "ok"),
        ("ssl_session_cache shared:a:16k;", "emerg: session cache \"shared:a:16k\" is too small"),
        ("ssl_session_cache shared:a;", "emerg: invalid session cache \"shared:a\""),
        ("ssl_session_cache shared:;", "emerg: invalid session cache \"shared:\""),
        ("ssl_session_cache builtin:;", "emerg: invalid session cache \"builtin:\""),
        ("ssl_session_cache a b c;", "emerg: invalid number of arguments in \"ssl_session_cache\" directive"),
        (
            "ssl_session_tickets maybe;",
            "emerg: invalid value \"maybe\" in \"ssl_session_tickets\" directive, it must be \"on\" or \"off\"",
        ),
        ("ssl_buffer_size 4k; ssl_buffer_size 4k;", "emerg: \"ssl_buffer_size\" directive is duplicate"),
        ("location / { ssl_certificate a.pem; }", "emerg: \"ssl_certificate\" directive is not allowed here"),
        ("ssl_ocsp off;", "ok"),
        ("ssl_ocsp leaf; ssl_ocsp_responder http://a.test/; ssl_ocsp_cache shared:a:1m;", "ok"),
        (
            "ssl_ocsp on; ssl_verify_client optional_no_ca;",
            "emerg: \"ssl_ocsp\" is incompatible with \"ssl_verify_client optional_no_ca\"",
        ),
        ("ssl_ocsp_cache shared:a:16k;", "emerg: OCSP cache \"shared:a:16k\" is too small"),
        ("ssl_ocsp_cache builtin;", "emerg: invalid OCSP cache \"builtin\""),
        ("ssl_early_data on;", "ok"),
    ];
    check(&table, |inside| {
        format!("server {{ listen 443 ssl; ssl_certificate a.pem; ssl_certificate_key a.key; {inside} }}")
    });
}

#[test]
fn certificates_where_they_are_needed() {
    let table = [
        ("listen 443 ssl;", "emerg: no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive"),
        ("listen 443 ssl; ssl_reject_handshake on;", "ok"),
        (
            "listen 443 ssl; ssl_certificate a.pem;",
            "emerg: no \"ssl_certificate_key\" is defined for certificate \"/etc/nginx/a.pem\"",
        ),
        (
            "listen 443; ssl_certificate a.pem;",
            "emerg: no \"ssl_certificate_key\" is defined for certificate \"/etc/nginx/a.pem\"",
        ),
        ("listen 443; ssl on;", "emerg: no \"ssl_certificate\" is defined for the \"ssl\" directive"),
        (
            "listen 443; ssl on; ssl_certificate a.pem; ssl_certificate_key a.key;",
            "warn: the \"ssl\" directive is deprecated, use the \"listen ... ssl\" directive instead",
        ),
        (
            "listen 443 ssl; ssl_certificate_key engine:x;",
            "emerg: no \"ssl_certificate\" is defined for the \"listen ... ssl\" directive",
        ),
        (
            "ssl_certificate a.pem; ssl_certificate_key engine:x;",
            "emerg: keys in \"engine:\" are not available in this version of larder",
        ),
    ];
    check(&table, |inside| format!("server {{ {inside} }}"));
}

#[test]
fn origins_over_tls() {
    let table = [
        ("proxy_pass https://127.0.0.1;", "ok"),
        ("proxy_pass https://127.0.0.1:8443/x;", "ok"),
        ("proxy_pass https://;", "emerg: no host in upstream \"\""),
        ("proxy_pass https://127.0.0.1:0;", "emerg: invalid port in upstream \"127.0.0.1:0\""),
        ("proxy_pass httpss://127.0.0.1;", "emerg: invalid URL prefix"),
        (
            "proxy_pass https://127.0.0.1; proxy_ssl_verify on;",
            "emerg: no proxy_ssl_trusted_certificate for proxy_ssl_verify",
        ),
        ("proxy_pass http://127.0.0.1; proxy_ssl_verify on;", "ok"),
        (
            "proxy_pass https://$host; proxy_ssl_verify on;",
            "emerg: no proxy_ssl_trusted_certificate for proxy_ssl_verify",
        ),
        (
            "proxy_pass https://127.0.0.1; proxy_ssl_certificate a.pem;",
            "emerg: no \"proxy_ssl_certificate_key\" is defined for certificate \"/etc/nginx/a.pem\"",
        ),
        (
            "proxy_pass https://127.0.0.1; if ($uri) { proxy_ssl_name a; }",
            "emerg: \"proxy_ssl_name\" directive is not allowed here",
        ),
    ];
    check(&table, |inside| format!("server {{ location / {{ {inside} }} }}"));
}

#[test]
fn http2_and_compression() {
    let table = [
        ("http2_body_preread_size 4096m;", "emerg: the maximum body preread buffer size is 2147483647"),
        ("http2_chunk_size 0;", "emerg: the http2 chunk size cannot be zero"),
        (
            "http2_max_requests 10;",
            "warn: the \"http2_max_requests\" directive is obsolete, use the \"keepalive_requests\" directive instead",
        ),
        ("http2_push_preload on;", "warn: the \"http2_push_preload\" directive is obsolete, ignored"),
        ("server { location / { http2 on; } }", "emerg: \"http2\" directive is not allowed here"),
        ("gzip_comp_level 10;", "emerg: value must be between 1 and 9"),
        ("gzip_types text/html;", "warn: duplicate MIME type \"text/html\""),
        ("gzip_types * text/css text/css;", "ok"),
        ("gzip_proxied any any;", "warn: duplicate value \"any\""),
        ("gzip_proxied any; gzip_proxied expired;", "ok"),
        ("gzip_static maybe;", "emerg: invalid value \"maybe\" in \"gzip_static\" directive"),
        ("server { location / { if ($uri) { gzip on; } } }", "ok"),
        ("server { location / { if ($uri) { gzip_vary on; } } }", "emerg: \"gzip_vary\" directive is not allowed here"),
        ("server { if ($uri) { gzip on; } }", "emerg: \"gzip\" directive is not allowed here"),
        ("zstd_comp_level 0;", "emerg: zstd compress level must between -131072 and 22 excluding 0"),
    ];
    check(&table, str::to_owned);
}

#[test]
fn accounts_at_authorities() {
    let table = [
        ("", "ok"),
        ("email=a@example.org email=mailto:b@example.org", "ok"),
        ("email=nobody", "emerg: invalid parameter \"email=nobody\""),
        ("email=a@b.org,c@d.org", "emerg: invalid parameter \"email=a@b.org,c@d.org\""),
        ("directory=http://ca.example.org/", "emerg: invalid parameter \"directory=http://ca.example.org/\""),
        ("directory=https://", "emerg: invalid parameter \"directory=https://\""),
        ("key_type=dsa", "emerg: invalid parameter \"key_type=dsa\""),
        ("key_type=ecdsa:384", "ok"),
        ("state=", "emerg: invalid parameter \"state=\""),
        ("eab_kid=a", "emerg: \"eab_kid\" and \"eab_key\" belong together"),
        ("eab_kid=a eab_key=b-_=", "ok"),
        ("eab_kid=a eab_key=s%cret", "emerg: invalid \"eab_key\" in \"larder_acme_account\" directive"),
        ("mail=a@example.org", "emerg: invalid parameter \"mail=a@example.org\""),
        ("a@example.org", "emerg: invalid parameter \"a@example.org\""),
    ];
    check(&table, |inside| format!("larder_acme_account {inside};"));
    let twice = "larder_acme_account; larder_acme_account;";
    assert_eq!(first_words(twice), "emerg: \"larder_acme_account\" directive is duplicate");
    let foreign = "acme_issuer example { uri https://ca.example.org/; }";
    assert_eq!(first_words(foreign), "emerg: \"acme_issuer\" is not available in this version of larder");
}
