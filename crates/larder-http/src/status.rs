//! Statuses that larder decides on, by their names, and nginx's texts for them: in the status line, and on its error
//! pages.

/// The answer to `Upgrade`: another protocol follows.
pub const SWITCHING_PROTOCOLS: u16 = 101;
/// Fields before the response (RFC 8297).
pub const EARLY_HINTS: u16 = 103;
/// A whole page.
pub const OK: u16 = 200;
/// Success, without a body.
pub const NO_CONTENT: u16 = 204;
/// Ranges of a page.
pub const PARTIAL_CONTENT: u16 = 206;
/// Moved for good; a client may repeat a POST as a GET.
pub const MOVED_PERMANENTLY: u16 = 301;
/// Moved for now, RFC 9110's `Found`.
pub const MOVED_TEMPORARILY: u16 = 302;
/// The client's copy is good.
pub const NOT_MODIFIED: u16 = 304;
/// Moved for good; the method stays.
pub const PERMANENT_REDIRECT: u16 = 308;
/// A request that cannot be read.
pub const BAD_REQUEST: u16 = 400;
/// Credentials are asked for.
pub const UNAUTHORIZED: u16 = 401;
/// Refused.
pub const FORBIDDEN: u16 = 403;
/// No such page.
pub const NOT_FOUND: u16 = 404;
/// Not with this method, RFC 9110's `Method Not Allowed`.
pub const NOT_ALLOWED: u16 = 405;
/// The client was too slow.
pub const REQUEST_TIMEOUT: u16 = 408;
/// A condition of the request does not hold.
pub const PRECONDITION_FAILED: u16 = 412;
/// A body beyond `client_max_body_size`.
pub const CONTENT_TOO_LARGE: u16 = 413;
/// A URI that is too long.
pub const URI_TOO_LONG: u16 = 414;
/// No range of the request lies in the page.
pub const RANGE_NOT_SATISFIABLE: u16 = 416;
/// A request for a name that this connection is not for.
pub const MISDIRECTED_REQUEST: u16 = 421;
/// nginx's own: the connection is closed without a response.
pub const CLOSE: u16 = 444;
/// nginx's own: a head that is too large; clients get 400.
pub const HEAD_TOO_LARGE: u16 = 494;
/// nginx's own: a client's certificate that does not verify; clients get 400.
pub const CERT_ERROR: u16 = 495;
/// nginx's own: a client without a certificate; clients get 400.
pub const NO_CERT: u16 = 496;
/// nginx's own: HTTP in the clear on a port for HTTPS; clients get 400.
pub const PLAIN_TO_HTTPS: u16 = 497;
/// nginx's own: the client left before its response; for logs.
pub const CLIENT_CLOSED_REQUEST: u16 = 499;
/// Something failed here.
pub const INTERNAL_SERVER_ERROR: u16 = 500;
/// A method or coding that nobody here knows.
pub const NOT_IMPLEMENTED: u16 = 501;
/// The origin failed.
pub const BAD_GATEWAY: u16 = 502;
/// Too much to do, or a limit.
pub const SERVICE_UNAVAILABLE: u16 = 503;
/// The origin was too slow.
pub const GATEWAY_TIMEOUT: u16 = 504;
/// Neither HTTP/1 nor HTTP/2.
pub const VERSION_NOT_SUPPORTED: u16 = 505;

/// Whether a response of this status leads to its `Location`.
pub fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// nginx's reason phrase; empty if nginx has none.
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Moved Temporarily",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Time-out",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Request Entity Too Large",
        414 => "Request-URI Too Large",
        415 => "Unsupported Media Type",
        416 => "Requested Range Not Satisfiable",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Temporarily Unavailable",
        504 => "Gateway Time-out",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        _ => "",
    }
}

/// The status that the client gets: nginx's 494 to 498 are internal, for `error_page`.
pub fn sent_status(status: u16) -> u16 {
    match status {
        HEAD_TOO_LARGE..=PLAIN_TO_HTTPS => 400,
        498 => 404,
        _ => status,
    }
}

/// The title of nginx's error page for this status; `None` if there is no such page.
///
/// The heading is the same text, except where [`error_note`] says otherwise.
pub fn error_title(status: u16) -> Option<&'static str> {
    Some(match status {
        301 => "301 Moved Permanently",
        302 => "302 Found",
        303 => "303 See Other",
        307 => "307 Temporary Redirect",
        308 => "308 Permanent Redirect",
        400 => "400 Bad Request",
        401 => "401 Authorization Required",
        402 => "402 Payment Required",
        403 => "403 Forbidden",
        404 | 498 => "404 Not Found",
        405 => "405 Not Allowed",
        406 => "406 Not Acceptable",
        407 => "407 Proxy Authentication Required",
        408 => "408 Request Time-out",
        409 => "409 Conflict",
        410 => "410 Gone",
        411 => "411 Length Required",
        412 => "412 Precondition Failed",
        413 => "413 Request Entity Too Large",
        414 => "414 Request-URI Too Large",
        415 => "415 Unsupported Media Type",
        416 => "416 Requested Range Not Satisfiable",
        421 => "421 Misdirected Request",
        429 => "429 Too Many Requests",
        HEAD_TOO_LARGE => "400 Request Header Or Cookie Too Large",
        495 => "400 The SSL certificate error",
        496 => "400 No required SSL certificate was sent",
        497 => "400 The plain HTTP request was sent to HTTPS port",
        500 => "500 Internal Server Error",
        501 => "501 Not Implemented",
        502 => "502 Bad Gateway",
        503 => "503 Service Temporarily Unavailable",
        504 => "504 Gateway Time-out",
        505 => "505 HTTP Version Not Supported",
        507 => "507 Insufficient Storage",
        _ => return None,
    })
}

/// The second line of the page for 494 to 497, under the heading `400 Bad Request`; `None` for all others.
pub fn error_note(status: u16) -> Option<&'static str> {
    match status {
        HEAD_TOO_LARGE..=PLAIN_TO_HTTPS => error_title(status)?.strip_prefix("400 "),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_is_one_that_leads_elsewhere() {
        let redirects: Vec<u16> = (100..600).filter(|status| is_redirect(*status)).collect();
        assert_eq!(redirects, [301, 302, 303, 307, 308]);
    }

    #[test]
    fn texts_are_nginxs() {
        assert_eq!(reason(302), "Moved Temporarily");
        assert_eq!(error_title(302), Some("302 Found"));
        assert_eq!(reason(401), "Unauthorized");
        assert_eq!(error_title(401), Some("401 Authorization Required"));
        assert_eq!((reason(203), reason(418), reason(999)), ("", "", ""));
        assert_eq!((error_title(200), error_title(304), error_title(418)), (None, None, None));
        assert_eq!(error_note(494), Some("Request Header Or Cookie Too Large"));
        assert_eq!(error_note(404), None);
        assert_eq!((sent_status(494), sent_status(497), sent_status(498), sent_status(499)), (400, 400, 404, 499));
    }
}
