# Without any backend nothing can be fetched.
vcl 4.1;
sub vcl_recv { return (synth(200)); }
