//! nginx's texts for a status: in the status line, and on its error pages.

/// nginx's own code for a head that is too large; clients get 400.
pub const HEAD_TOO_LARGE: u16 = 494;

/// nginx's reason phrase; empty if nginx has none.
pub fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
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
        HEAD_TOO_LARGE..=497 => 400,
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
        HEAD_TOO_LARGE..=497 => error_title(status)?.strip_prefix("400 "),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
