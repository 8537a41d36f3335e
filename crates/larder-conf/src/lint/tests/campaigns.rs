//! Conditions that send arguments of campaigns past a cache whose profile ignores them.

use super::{http, said};

/// The warnings about a cached location with a profile, behind these lines of `http` and of the server.
fn with_profile(outside: &str, inside: &str) -> Vec<String> {
    let profile = if inside.contains("larder_profile") { "" } else { "larder_profile wordpress;" };
    said(&http(&format!(
        "{outside} server {{ listen 80; server_name a.test; {profile} {inside}
         location / {{ fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_cache_bypass $skip; fastcgi_no_cache $skip; }} }}"
    )))
}

#[test]
fn who_comes_from_a_campaign_is_let_past_by_rules_of_a_time_without_profiles() {
    for (outside, inside) in [
        ("", "set $skip 0; if ($query_string != \"\") { set $skip 1; }"),
        ("", "set $skip 0; if ($request_method = POST) { set $skip 1; } if ($args) { set $skip 1; }"),
        ("", "set $skip 0; if ($is_args) { set $skip 1; }"),
        ("", "set $skip 0; if ($args ~ .) { set $skip 1; }"),
        ("", "set $skip 0; if ($request_uri ~ \"\\?\") { set $skip 1; }"),
        ("", "set $skip 0; if ($query_string ~* \"utm_\") { set $skip yes; }"),
        ("map $query_string $skip { \"\" 0; default 1; }", ""),
        ("map $request_uri $skip { ~\\? 1; }", ""),
    ] {
        let found = with_profile(outside, inside);
        let [one] = &found[..] else { panic!("{outside} {inside}: {found:?}") };
        assert!(one.starts_with("visitors with ?utm_source=news and the like are never answered"), "{one}");
    }
}

#[test]
fn what_means_other_arguments_is_no_mistake() {
    for (outside, inside) in [
        ("", "set $skip 0;"),
        ("", "set $skip 0; if ($arg_s) { set $skip 1; }"),
        ("", "set $skip 0; if ($query_string != \"\") { set $other 1; }"),
        ("", "set $skip 0; if ($query_string != \"\") { set $skip 0; }"),
        ("", "set $skip 0; if ($query_string = \"\") { set $skip 1; }"),
        ("", "set $skip 0; if ($args ~ \"(^|&)s=\") { set $skip 1; }"),
        ("", "set $skip 0; if ($request_uri ~ /wp-admin/) { set $skip 1; }"),
        ("", "set $skip 0; if ($request_uri ~ page) { set $skip 1; }"),
        ("", "set $skip 0; if ($args) { set $skip 1; } if ($args ~ ^utm_) { set $skip 0; }"),
        ("", "larder_profile off; set $skip 0; if ($args) { set $skip 1; }"),
        ("map $args $skip { default 0; ~preview 1; }", ""),
        ("map $uri $skip { default 1; }", ""),
    ] {
        let found = with_profile(outside, inside);
        assert!(!found.iter().any(|one| one.contains("utm_source")), "{outside} {inside}: {found:?}");
    }
}
