# What a sub does is allowed in each step that calls it, or not.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub tidy { unset req.http.X-Debug; }
sub vcl_recv { call tidy; }
sub vcl_backend_fetch { call tidy; }
