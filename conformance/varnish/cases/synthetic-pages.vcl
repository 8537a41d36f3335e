# Pages of our own, with long strings.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_synth {
    set resp.http.Content-Type = "text/html";
    set resp.http.Retry-After = "5";
    synthetic({"<!DOCTYPE html><title>"} + resp.status + " " + resp.reason + {"</title>"});
    return (deliver);
}
sub vcl_backend_error { synthetic("""He said "no".""" + bereq.xid); return (deliver); }
