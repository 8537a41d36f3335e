# What is upgraded goes through a pipe.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_recv { if (req.http.Upgrade ~ "(?i)websocket") { return (pipe); } }
sub vcl_pipe { if (req.http.upgrade) { set bereq.http.upgrade = req.http.upgrade; set bereq.http.connection = req.http.connection; } }
