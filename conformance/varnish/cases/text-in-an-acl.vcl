# Only an address is in an ACL.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
acl near { "localhost"; }
sub vcl_recv { if (req.http.X-Real-IP ~ near) { return (pass); } }
