# Several backends under one balancing rule.
vcl 4.1;
import directors;
backend a { .host = "127.0.0.1"; .port = "8001"; }
backend b { .host = "127.0.0.1"; .port = "8002"; }
sub vcl_init {
    new all = directors.round_robin();
    all.add_backend(a);
    all.add_backend(b);
    new by_client = directors.hash();
    by_client.add_backend(a, 1.0);
    by_client.add_backend(b, 2);
}
sub vcl_recv {
    set req.backend_hint = all.backend();
    if (req.http.Cookie) { set req.backend_hint = by_client.backend(client.identity); }
}
