# The length of a body is not for a VCL to say.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_deliver { unset resp.http.Content-Length; }
