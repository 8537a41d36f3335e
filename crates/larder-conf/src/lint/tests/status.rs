use super::{each_is_silent, each_says, http, said};

#[test]
fn counters_that_everybody_may_read() {
    let open = "everybody may read what is counted here";
    each_says(&[
        ("location /api { larder_status; }", open),
        ("location /api { api; }", open),
        ("location /api { api write=off; allow 10.0.0.0/8; }", open),
        ("location = /metrics { larder_metrics; }", open),
        ("location /in { location /in/api { larder_status; } }", open),
        // Of the page alone.
        ("location /api { if ($args) { return 404; } larder_status; }", open),
    ]);
    each_is_silent(&[
        "location /api { larder_status; allow 127.0.0.1; deny all; }",
        "deny 192.0.2.1; location /api { larder_status; }",
        "location /api { larder_status; auth_basic a; auth_basic_user_file f; }",
        "location /api { larder_status; auth_request /who; } location = /who { return 204; }",
        "location /api { larder_status; satisfy any; allow 127.0.0.1; deny all; auth_basic a; auth_basic_user_file f; }",
        "location /api { larder_status; internal; }",
        "location @api { larder_status; }",
        "location /5c7f0a9be1 { larder_status; }",
        "location /api { if ($http_x_key != secret) { return 404; } larder_status; }",
        "location = /basic_status { stub_status; }",
    ]);
    for (listen, count) in [
        ("127.0.0.1:8081", 0),
        ("[::1]:8081", 0),
        ("unix:/run/status.sock", 0),
        ("10.0.0.1:8081", 0),
        ("8081", 1),
        ("192.0.2.1:8081", 1),
        ("127.0.0.1:8081; listen 8082", 1),
    ] {
        let text = format!("server {{ listen {listen}; location /api {{ larder_status; }} }}");
        assert_eq!(said(&http(&text)).len(), count, "{listen}");
    }
}

#[test]
fn a_dashboard_at_one_path() {
    let closed = "deny all;";
    let one = "\"larder_status\" answers nothing but \"/one\" here";
    each_says(&[(&format!("location = /one {{ larder_status; {closed} }}"), one)]);
    each_is_silent(&[
        &format!("location /one {{ larder_status; {closed} }}"),
        &format!("location ^~ /one {{ larder_status; {closed} }}"),
        &format!("location ~ ^/one {{ larder_status; {closed} }}"),
        &format!("location = /one {{ larder_metrics; {closed} }}"),
    ]);
}
