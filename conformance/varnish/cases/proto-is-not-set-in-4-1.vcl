# In VCL 4.1 it cannot.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_recv { set req.proto = "HTTP/1.1"; }
