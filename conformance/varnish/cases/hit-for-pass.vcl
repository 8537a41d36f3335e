# What is not to be stored, by two ways.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_backend_response { if (beresp.http.Set-Cookie) { set beresp.uncacheable = true; set beresp.ttl = 120s; return (deliver); } if (beresp.http.Cache-Control ~ "private") { return (pass(10s)); } }
