# Bans by a header of the stored page.
vcl 4.0;
backend default { .host = "127.0.0.1"; }
sub vcl_recv {
    if (req.method == "BAN" && req.http.X-Tags) {
        ban("obj.http.X-Tags ~ " + req.http.X-Tags);
        return (synth(200, "Banned"));
    }
}
sub vcl_deliver { unset resp.http.X-Tags; }
