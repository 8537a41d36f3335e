# The first line says the version.
backend default { .host = "127.0.0.1"; }
