# Stale pages last longer while the backend is down.
vcl 4.1;
import std;
probe alive { .url = "/health"; .interval = 3s; .timeout = 1s; .window = 5; .threshold = 3; }
backend default { .host = "127.0.0.1"; .port = "8080"; .probe = alive; }
sub vcl_recv { if (std.healthy(req.backend_hint)) { set req.grace = 10s; } }
sub vcl_backend_response { set beresp.grace = 6h; set beresp.keep = 1d; }
