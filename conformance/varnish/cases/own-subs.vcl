# Subs of our own, called from two steps.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub tidy { unset req.http.X-Debug; }
sub vcl_recv { call tidy; }
sub vcl_deliver { call tidy; }
