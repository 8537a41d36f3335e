# Durations are computed.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_backend_response { set beresp.ttl = 1m + 30s; set beresp.ttl = beresp.ttl * 2; set beresp.grace = beresp.ttl / 1.5; if (beresp.ttl > 1d - 1h) { set beresp.ttl = 500ms; } }
