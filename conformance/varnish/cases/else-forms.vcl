# All spellings of else if.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
sub vcl_recv {
    if (req.url == "/a") { return (pass); } elseif (req.url == "/b") { return (pass); } elsif (req.url == "/c") { return (pass); } elif (req.url == "/d") { return (pass); } else if (req.url == "/e") { return (pass); } else { return (hash); }
}
