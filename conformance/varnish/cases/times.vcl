# Times are computed and formatted.
vcl 4.1;
import std;
backend default { .host = "127.0.0.1"; }
sub vcl_deliver { set resp.http.Expires = now + 1h; set resp.http.X-Day = std.strftime(now, "%Y-%m-%d"); if (std.time(resp.http.Last-Modified, now) < now - 1w) { set resp.http.X-Old = "1"; } }
