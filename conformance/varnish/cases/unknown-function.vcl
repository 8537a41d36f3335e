# A function that a module does not have.
vcl 4.1;
import std;
backend default { .host = "127.0.0.1"; }
sub vcl_recv { std.nosuchthing(); }
