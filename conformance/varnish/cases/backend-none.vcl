# A VCL that answers everything itself says so.
vcl 4.1;
backend default none;
sub vcl_recv { return (synth(200)); }
