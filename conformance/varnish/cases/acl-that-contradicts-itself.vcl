# The same address is in the ACL and not.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
acl local { "127.0.0.1"; ! "127.0.0.1"; }
sub vcl_recv { if (client.ip ~ local) { return (pass); } }
