# ESI and compression by content.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_recv { set req.http.Surrogate-Capability = "key=ESI/1.0"; }
sub vcl_backend_response {
    if (beresp.http.Surrogate-Control ~ "ESI/1.0") { unset beresp.http.Surrogate-Control; set beresp.do_esi = true; }
    if (beresp.http.Content-Type ~ "^text/") { set beresp.do_gzip = true; }
    if (std.integer(beresp.http.Content-Length, 0) > 1048576) { set beresp.do_stream = true; }
}
import std;
