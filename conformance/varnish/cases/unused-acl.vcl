# So is an ACL.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
acl never { "localhost"; }
