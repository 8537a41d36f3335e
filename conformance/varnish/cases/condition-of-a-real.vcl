# A number with a fraction is none.
vcl 4.1;
import std;
backend default { .host = "127.0.0.1"; }
sub vcl_recv { if (std.random(0, 1)) { return (pass); } }
