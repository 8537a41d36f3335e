# Of text, std.ip() makes an address.
vcl 4.1;
import std;
backend default { .host = "127.0.0.1"; }
acl near { "localhost"; }
sub vcl_recv { if (std.ip(req.http.X-Real-IP, "0.0.0.0") ~ near) { return (pass); } }
