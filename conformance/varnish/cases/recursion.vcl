# Subs do not call each other in a circle.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub a { call b; }
sub b { call a; }
sub vcl_recv { call a; }
