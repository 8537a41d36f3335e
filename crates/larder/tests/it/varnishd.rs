//! `larder varnishd -C`: a VCL is checked as varnishd checks it.

use larder_testkit::text_of;

use crate::site::{Setup, run};

/// Exit code 0 or not, and what was said.
fn checked(setup: &Setup, words: &[&str]) -> (bool, String) {
    let folder = setup.path("").display().to_string();
    let words: Vec<String> = words.iter().map(|word| word.replace("{DIR}", folder.trim_end_matches('/'))).collect();
    let words: Vec<&str> = [&["varnishd"][..], &words.iter().map(String::as_str).collect::<Vec<_>>()].concat();
    let output = run(&words);
    (output.status.success(), text_of(&output.stderr))
}

#[test]
fn a_vcl_is_right_or_all_that_is_wrong_is_told() {
    let setup = Setup::new()
        .file("good.vcl", "vcl 4.1;\nbackend default { .host = \"127.0.0.1\"; }\ninclude \"part.vcl\";\n")
        .file("more/part.vcl", "sub vcl_recv { set req.http.X = \"1\"; }\n")
        .file(
            "bad.vcl",
            "vcl 4.1;\nbackend default { .host = \"127.0.0.1\"; .prt = \"80\"; }\nsub vcl_recv {\n    \
             if (req.url ~ \"a(b\") { set req.htp.X = \"1\"; }\n    return (lookup);\n}\n",
        );
    let (is_right, said) = checked(&setup, &["-C", "-f", "{DIR}/good.vcl", "-p", "vcl_path={DIR}/more"]);
    assert!(is_right && said.contains("good.vcl is right"), "{said}");
    let (is_right, said) = checked(&setup, &["-C", "-f", "{DIR}/good.vcl"]);
    assert!(!is_right && said.contains("cannot read \"part.vcl\""), "{said}");
    let (is_right, said) = checked(&setup, &["-C", "-f", "{DIR}/bad.vcl"]);
    assert!(!is_right, "{said}");
    for part in [
        "[error] unknown field .prt in ",
        "bad.vcl:2",
        "did you mean .port?",
        "missing closing parenthesis at its end",
        "there is no \"req.htp.X\"",
        "vcl_recv cannot return \"lookup\"",
        "help: write return (hash);",
        "bad.vcl cannot be used",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn words_of_varnishd_do_what_they_do_there() {
    let setup = Setup::new()
        .file("unused.vcl", "vcl 4.1;\nbackend default none;\nacl nobody { \"localhost\"; }\n")
        .file("unbuilt.vcl", "vcl 4.1;\nbackend default none;\nsub vcl_recv { set req.filters = \"x\"; }\n");
    for (words, is_right, part) in [
        (&["-C", "-b", "127.0.0.1:8080"][..], true, "the VCL -b is right"),
        (
            &["-C", "-b", "nobody.invalid"],
            false,
            "the host \"nobody.invalid\" of the backend \"default\" has no address",
        ),
        (&["-C", "-f", "{DIR}/unused.vcl"], false, "the ACL \"nobody\" is not used"),
        (&["-C", "-f", "{DIR}/unused.vcl", "-p", "vcc_feature=-err_unref"], true, "[warning] the ACL \"nobody\""),
        (&["-C", "-f", "{DIR}/unbuilt.vcl"], false, "set req.filters is not built yet"),
        (&["-C", "-f", "{DIR}/none.vcl"], false, "none.vcl\": No such file or directory"),
        (&["-f", "{DIR}/unused.vcl", "-M", "localhost:1", "-M", "localhost:2"], false, "only one -M can be given"),
        (&["-d", "-f", "{DIR}/unused.vcl"], false, "larder has no -d"),
        (&["-F", "-f", "{DIR}/unused.vcl", "-j", "unix,user=no-such-user", "-a", ":80"], false, "larder: "),
        (&["-f", "{DIR}/unused.vcl", "-s", "tape"], false, "there is no storage \"tape\""),
        (&["-C", "-Q"], false, "varnishd has no option \"-Q\""),
        (&["-V"], true, "varnishd (larder-"),
    ] {
        let (success, said) = checked(&setup, words);
        assert!(success == is_right && said.contains(part), "{words:?}: {said}");
    }
}

#[test]
fn a_vcl_knows_what_the_server_and_its_sockets_are_called() {
    let setup = Setup::new().file(
        "site.vcl",
        "vcl 4.1;\nbackend default none;\nsub vcl_recv { return (synth(200)); }\n\
         sub vcl_synth { set resp.body = server.identity + \" \" + local.socket + \" \" + resp.http.Server; return (deliver); }\n",
    );
    let folder = setup.path("work").display().to_string();
    let vcl = setup.path("site.vcl").display().to_string();
    let address = setup.address().to_string();
    let words =
        ["varnishd", "-F", "-f", &vcl, "-n", &folder, "-i", "front", "-T", "none", "-a", &format!("door={address}")];
    let mut server = std::process::Command::new(crate::site::binary()).args(words).spawn().expect("larder starts");
    let mut answer = String::new();
    crate::site::eventually("it serves", || {
        let Ok(mut client) = larder_testkit::Client::connect(setup.address()) else { return false };
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").expect("it takes requests");
        answer = client.read_response("GET").map(|response| text_of(&response.body)).unwrap_or_default();
        !answer.is_empty()
    });
    server.kill().expect("it runs");
    server.wait().expect("it has ended");
    assert_eq!(answer, "front door larder");
}
