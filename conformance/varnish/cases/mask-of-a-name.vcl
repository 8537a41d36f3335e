# The bits behind the mask of a name's address.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
acl near { "localhost"/8; }
sub vcl_recv { if (client.ip ~ near) { return (pass); } }
