# A module is imported before its functions are used.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_recv { std.log("a"); }
import std;
