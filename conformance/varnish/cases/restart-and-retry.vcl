# Once more, on both sides.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_deliver { if (resp.status == 503 && req.restarts < 2) { set req.hash_always_miss = true; return (restart); } }
sub vcl_backend_response { if (beresp.status >= 500 && bereq.retries == 0) { return (retry); } if (bereq.is_bgfetch && beresp.status >= 500) { return (abandon); } }
