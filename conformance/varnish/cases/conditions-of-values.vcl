# A header, a number and a duration are conditions.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_recv { if (req.http.X && !req.restarts) { return (pass); } }
sub vcl_backend_response { if (beresp.ttl) { set beresp.http.X = "fresh"; } }
