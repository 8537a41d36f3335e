# A sub that nobody calls is most often a name that is written wrong.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub never { return (pass); }
