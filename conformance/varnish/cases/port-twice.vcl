# A port is in .host or in .port.
vcl 4.1;
backend default { .host = "127.0.0.1:8080"; .port = "80"; }
