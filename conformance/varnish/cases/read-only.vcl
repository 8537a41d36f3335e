# A variable that can only be read.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_recv { set client.ip = "192.0.2.1"; }
