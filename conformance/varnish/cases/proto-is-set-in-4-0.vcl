# The version of HTTP can be set in VCL 4.0.
vcl 4.0;
backend default { .host = "127.0.0.1"; }
sub vcl_recv { set req.proto = "HTTP/1.1"; }
