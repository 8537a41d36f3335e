# A redirect through vcl_synth.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_recv { if (req.http.X-Forwarded-Proto !~ "(?i)https") { return (synth(750)); } }
sub vcl_synth { if (resp.status == 750) { set resp.status = 301; set resp.http.Location = "https://" + req.http.Host + req.url; return (deliver); } }
