# A host that nobody knows.
vcl 4.1;
backend default { .host = "nobody.invalid"; }
