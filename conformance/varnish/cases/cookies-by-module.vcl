# The same by the module.
vcl 4.1;
import cookie;
backend default { .host = "127.0.0.1"; }
sub vcl_recv {
    cookie.parse(req.http.Cookie);
    cookie.keep("session,cart");
    cookie.filter_re("^_ga");
    set req.http.Cookie = cookie.get_string();
}
