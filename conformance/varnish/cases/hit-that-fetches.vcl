# What templates for Varnish 4 have in vcl_hit.
vcl 4.0;
backend default { .host = "127.0.0.1"; }
sub vcl_hit { if (obj.ttl >= 0s) { return (deliver); } return (fetch); }
