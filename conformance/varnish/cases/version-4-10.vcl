# The version is no number.
vcl 4.10;
backend default { .host = "127.0.0.1"; }
