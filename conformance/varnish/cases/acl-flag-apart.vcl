# The sign of a flag touches its name.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
acl local + log { "127.0.0.1"; }
sub vcl_recv { if (client.ip ~ local) { return (pass); } }
