# The key has a class of devices in it.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_recv {
    if (req.http.User-Agent ~ "(?i)mobile|android") { set req.http.X-Device = "mobile"; } else { set req.http.X-Device = "desktop"; }
}
sub vcl_hash { hash_data(req.http.X-Device); }
sub vcl_backend_response { if (bereq.http.X-Device) { if (!beresp.http.Vary) { set beresp.http.Vary = "X-Device"; } else { set beresp.http.Vary = beresp.http.Vary + ", X-Device"; } } }
