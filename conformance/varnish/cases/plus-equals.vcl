# What is added to a variable.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_backend_response { set beresp.ttl += 10s; set beresp.http.X += "a"; set beresp.grace *= 2; }
