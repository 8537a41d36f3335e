# Marketing arguments go, and the others are sorted.
vcl 4.1;
import std;
backend default { .host = "127.0.0.1"; }
sub vcl_recv {
    if (req.url ~ "[?&](utm_[a-z]+|fbclid)=") {
        set req.url = regsuball(req.url, "(utm_[a-z]+|fbclid)=[-_A-Za-z0-9+.%]+&?", "");
        set req.url = regsub(req.url, "[?&]+$", "");
    }
    set req.url = std.querysort(req.url);
}
