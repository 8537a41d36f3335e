# A number of bytes may be negative.
vcl 4.1;
import std;
backend default { .host = "127.0.0.1"; }
sub vcl_recv { set req.http.size = std.bytes("1k", 1KB) - 2KB; }
