# Bits behind the mask are a mistake.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
acl near { "127.0.0.1"/8; }
sub vcl_recv { if (client.ip ~ near) { return (pass); } }
