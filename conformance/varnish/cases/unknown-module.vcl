# A module that nobody has.
vcl 4.1;
import nosuchthing;
backend default { .host = "127.0.0.1"; }
