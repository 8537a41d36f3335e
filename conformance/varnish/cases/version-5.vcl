# There is no such version.
vcl 5.0;
backend default { .host = "127.0.0.1"; }
