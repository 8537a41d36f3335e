# The step of a 304, with a sub of its own.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_backend_refresh { return (merge); }
