# A name has the address of another entry, which says the contrary.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
acl local { "localhost"; ! "127.0.0.1"; }
sub vcl_recv { if (client.ip ~ local) { return (pass); } }
