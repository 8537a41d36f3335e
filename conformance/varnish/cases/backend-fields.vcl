# All that is said of a backend.
vcl 4.1;
backend default {
    .host = "127.0.0.1"; .port = "8080"; .host_header = "example.com";
    .connect_timeout = 1s; .first_byte_timeout = 60s; .between_bytes_timeout = 10s; .max_connections = 100;
    .proxy_header = 2;
    .probe = { .request = "HEAD / HTTP/1.1" "Host: example.com" "Connection: close"; .expected_response = 204; .initial = 2; }
}
