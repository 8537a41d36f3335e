# Flags of an ACL.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
acl near +log -pedantic { "127.0.0.1"/8; }
sub vcl_recv { if (client.ip ~ near) { return (pass); } }
