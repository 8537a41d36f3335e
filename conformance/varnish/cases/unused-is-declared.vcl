# What is there on purpose, though nothing refers to it.
vcl 4.1;
backend default { .host = "127.0.0.1"; }
acl later { "localhost"; }
unused later;
