# A purge from a list of networks.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
acl may_purge { "localhost"; "192.0.2.0"/24; ! "192.0.2.7"; "2001:db8::"/32; }
sub vcl_recv {
    if (req.method == "PURGE") {
        if (client.ip !~ may_purge) { return (synth(405, "Not allowed")); }
        return (purge);
    }
}
