# A field that backends do not have.
vcl 4.1;
backend default { .host = "127.0.0.1"; .weight = 3; }
