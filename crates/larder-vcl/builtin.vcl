# What larder does where a VCL says nothing: the end of each sub that a VCL writes, and the whole of those that it does
# not. The subs and their decisions are those of Varnish, so that a VCL that refines one of the small ones still does.

vcl 4.0;

# Requests of clients.

sub vcl_recv {
    call vcl_builtin_recv;
    return (hash);
}

sub vcl_builtin_recv {
    call vcl_req_host;
    call vcl_req_method;
    call vcl_req_authorization;
    call vcl_req_cookie;
}

# The host is a part of the key, and its case means nothing. HTTP/1.1 demands one.
sub vcl_req_host {
    if (req.http.host ~ "[[:upper:]]") {
        set req.http.host = req.http.host.lower();
    }
    if (!req.http.host && req.esi_level == 0 && req.proto == "HTTP/1.1") {
        return (synth(400));
    }
}

# What is no method of HTTP is refused; what changes something is passed.
sub vcl_req_method {
    if (req.method != "GET" && req.method != "HEAD" && req.method != "PUT" && req.method != "POST" &&
        req.method != "TRACE" && req.method != "OPTIONS" && req.method != "DELETE" && req.method != "PATCH") {
        set req.http.Connection = "close";
        return (synth(501));
    }
    if (req.method != "GET" && req.method != "HEAD") {
        return (pass);
    }
}

# Who logs in gets an answer of their own.
sub vcl_req_authorization {
    if (req.http.Authorization) {
        return (pass);
    }
}

# A cookie may stand for a login.
sub vcl_req_cookie {
    if (req.http.Cookie) {
        return (pass);
    }
}

# The request has "Connection: close" here, so that the next one of the client is looked at again.
sub vcl_pipe {
    call vcl_builtin_pipe;
    return (pipe);
}

sub vcl_builtin_pipe {
}

sub vcl_pass {
    call vcl_builtin_pass;
    return (fetch);
}

sub vcl_builtin_pass {
}

sub vcl_hash {
    call vcl_builtin_hash;
    return (lookup);
}

sub vcl_builtin_hash {
    hash_data(req.url);
    if (req.http.host) {
        hash_data(req.http.host);
    } else {
        hash_data(server.ip);
    }
}

sub vcl_purge {
    call vcl_builtin_purge;
    return (synth(200, "Purged"));
}

sub vcl_builtin_purge {
}

sub vcl_hit {
    call vcl_builtin_hit;
    return (deliver);
}

sub vcl_builtin_hit {
}

sub vcl_miss {
    call vcl_builtin_miss;
    return (fetch);
}

sub vcl_builtin_miss {
}

sub vcl_deliver {
    call vcl_builtin_deliver;
    return (deliver);
}

sub vcl_builtin_deliver {
}

sub vcl_synth {
    call vcl_builtin_synth;
    return (deliver);
}

sub vcl_builtin_synth {
    set resp.http.Content-Type = "text/html; charset=utf-8";
    set resp.http.Retry-After = "5";
    set resp.body = {"<!DOCTYPE html>
<html>
  <head>
    <title>"} + resp.status + " " + resp.reason + {"</title>
  </head>
  <body>
    <h1>Error "} + resp.status + " " + resp.reason + {"</h1>
    <p>"} + resp.reason + {"</p>
    <p>XID: "} + req.xid + {"</p>
    <hr>
    <p>larder</p>
  </body>
</html>
"};
}

# Requests to backends.

sub vcl_backend_fetch {
    call vcl_builtin_backend_fetch;
    return (fetch);
}

sub vcl_builtin_backend_fetch {
    if (bereq.method == "GET") {
        unset bereq.body;
    }
}

sub vcl_backend_refresh {
    call vcl_builtin_backend_refresh;
    return (merge);
}

sub vcl_builtin_backend_refresh {
    call vcl_refresh_valid;
    call vcl_refresh_conditions;
    call vcl_refresh_status;
}

# The stale page may have been banned while the backend was asked.
sub vcl_refresh_valid {
    if (!obj_stale.is_valid) {
        return (error(503, "Invalid object for refresh"));
    }
}

# Nobody has asked whether the page has changed.
sub vcl_refresh_conditions {
    if (!bereq.http.if-modified-since && !bereq.http.if-none-match) {
        return (error(503, "Unexpected 304"));
    }
}

# larder asks so for pages with 200 only. A VCL that does it for others refines this sub with a plain return.
sub vcl_refresh_status {
    if (obj_stale.status != 200) {
        return (error(503, "Invalid object for refresh (status)"));
    }
}

sub vcl_backend_response {
    call vcl_builtin_backend_response;
    return (deliver);
}

sub vcl_builtin_backend_response {
    call vcl_beresp_range;
    if (bereq.uncacheable) {
        return (deliver);
    }
    call vcl_beresp_stale;
    call vcl_beresp_cookie;
    call vcl_beresp_control;
    call vcl_beresp_vary;
}

sub vcl_beresp_stale {
    if (beresp.ttl <= 0s) {
        call vcl_beresp_hitmiss;
    }
}

sub vcl_beresp_cookie {
    if (beresp.http.Set-Cookie) {
        call vcl_beresp_hitmiss;
    }
}

sub vcl_beresp_control {
    if (beresp.http.Surrogate-control ~ "(?i)no-store" ||
        (!beresp.http.Surrogate-Control && beresp.http.Cache-Control ~ "(?i:no-cache|no-store|private)")) {
        call vcl_beresp_hitmiss;
    }
}

sub vcl_beresp_vary {
    if (beresp.http.Vary == "*") {
        call vcl_beresp_hitmiss;
    }
}

# Content-Range means nothing with any other status (RFC 9110 §14.4).
sub vcl_beresp_range {
    if (beresp.status != 206 && beresp.status != 416) {
        unset beresp.http.Content-Range;
    }
}

# The next requests for this page shall not wait for each other.
sub vcl_beresp_hitmiss {
    set beresp.ttl = param.uncacheable_ttl;
    set beresp.uncacheable = true;
    return (deliver);
}

sub vcl_backend_error {
    call vcl_builtin_backend_error;
    return (deliver);
}

sub vcl_builtin_backend_error {
    set beresp.http.Content-Type = "text/html; charset=utf-8";
    set beresp.http.Retry-After = "5";
    set beresp.body = {"<!DOCTYPE html>
<html>
  <head>
    <title>"} + beresp.status + " " + beresp.reason + {"</title>
  </head>
  <body>
    <h1>Error "} + beresp.status + " " + beresp.reason + {"</h1>
    <p>"} + beresp.reason + {"</p>
    <p>XID: "} + bereq.xid + {"</p>
    <hr>
    <p>larder</p>
  </body>
</html>
"};
}

# The VCL itself.

sub vcl_init {
    return (ok);
}

sub vcl_fini {
    return (ok);
}
