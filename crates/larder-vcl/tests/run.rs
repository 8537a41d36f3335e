//! VCL from its text to what comes of it: read, checked, compiled and run against a request that is a table.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::path::Path;

use larder_source::MemoryLoader;
use larder_vcl::functions::replace::{GROUPS_MAX, Match, replace};
use larder_vcl::modules;
use larder_vcl::policy::{Header, Place, Policy, Property, RegexId};
use larder_vcl::program::{Callee, Named, Program};
use larder_vcl::run::{Failure, Held, Host, Machine, Text, Texts, Value};
use larder_vcl::steps::Step;
use larder_vcl::types::Type;
use larder_vcl::vars::{Headers, Variable};
use larder_vcl::{Fate, Options, compile, load};

/// A request: its variables and headers by name, and all that was said.
struct Request {
    policy: Policy,
    values: BTreeMap<String, String>,
    said: Vec<String>,
}

impl Request {
    fn key(&self, place: Place) -> String {
        match place {
            Place::Variable(variable) => variable.rule().name.to_owned(),
            Place::Header(header) => {
                format!(
                    "{}.{}",
                    header.of.rule().name,
                    self.policy.headers[header.name.0 as usize].to_ascii_lowercase()
                )
            }
        }
    }

    fn regex(&self, regex: RegexId) -> Result<pcre2::bytes::Regex, Failure> {
        let pattern = &self.policy.regexes[regex.0 as usize].pattern;
        pcre2::bytes::Regex::new(pattern).map_err(|error| Failure::host(error.to_string()))
    }

    fn shown(value: Value, texts: &Texts<'_>) -> String {
        match value {
            Value::Text(text) => String::from_utf8_lossy(texts.bytes(text)).into_owned(),
            Value::Int(number) => number.to_string(),
            Value::Real(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            other => format!("{other:?}"),
        }
    }
}

impl Host for Request {
    fn get(&mut self, place: Place, texts: &mut Texts<'_>) -> Result<Value, Failure> {
        let ty = match place {
            Place::Variable(variable) => variable.rule().ty,
            Place::Header(_) => Type::String,
        };
        let value = self.values.get(&self.key(place)).cloned();
        let number = || value.as_deref().and_then(|value| value.parse::<f64>().ok()).unwrap_or(0.0);
        Ok(match ty {
            Type::Int => Value::Int(number() as i64),
            Type::Duration | Type::Time | Type::Real => Value::Real(number()),
            Type::Bool => Value::Bool(value.as_deref() == Some("true")),
            Type::Ip => {
                let address = value.as_deref().unwrap_or("0.0.0.0:0").parse();
                Value::Ip(address.map_err(|_| Failure::host("no address"))?)
            }
            _ => match value {
                None => Value::Text(None),
                Some(value) => Value::Text(Some(texts.keep(value.as_bytes())?)),
            },
        })
    }

    fn held(&self, place: Place) -> Held<'_> {
        match place {
            Place::Header(_) => Held::Text(self.values.get(&self.key(place)).map(String::as_bytes)),
            Place::Variable(_) => Held::Not,
        }
    }

    fn set(&mut self, place: Place, value: Value, texts: &mut Texts<'_>) -> Result<(), Failure> {
        let value = Self::shown(value, texts);
        self.values.insert(self.key(place), value);
        Ok(())
    }

    fn set_line(&mut self, header: Header, line: &[u8]) -> Result<(), Failure> {
        let line = String::from_utf8_lossy(line);
        let value = line.strip_suffix("\r\n").and_then(|line| line.split_once(": ")).map(|(_, value)| value);
        let value = value.ok_or_else(|| Failure::host("no line"))?;
        self.values.insert(self.key(Place::Header(header)), value.to_owned());
        Ok(())
    }

    fn append(&mut self, body: Variable, value: Value, texts: &mut Texts<'_>) -> Result<(), Failure> {
        self.said.push(format!("{} += {}", body.rule().name, Self::shown(value, texts)));
        Ok(())
    }

    fn unset(&mut self, place: Place) -> Result<(), Failure> {
        self.values.remove(&self.key(place));
        Ok(())
    }

    fn matches(&self, regex: RegexId, subject: &[u8]) -> Result<bool, Failure> {
        self.regex(regex)?.is_match(subject).map_err(|error| Failure::host(error.to_string()))
    }

    fn substitute(
        &mut self,
        regex: RegexId,
        all: bool,
        subject: Option<Text>,
        with: Option<Text>,
        texts: &mut Texts<'_>,
    ) -> Result<Option<Text>, Failure> {
        let regex = self.regex(regex)?;
        let find = |subject: &[u8], from: usize| {
            let mut found = Match::default();
            let mut locations = regex.capture_locations();
            if regex.captures_read_at(&mut locations, subject, from)?.is_none() {
                return Ok::<_, pcre2::Error>(None);
            }
            (0..GROUPS_MAX).for_each(|group| found[group] = locations.get(group));
            Ok(Some(found))
        };
        let mut out = Vec::new();
        let is_found = replace(texts.bytes(subject), texts.bytes(with), all, find, &mut out)
            .map_err(|error| Failure::host(error.to_string()))?;
        Ok(if is_found { Some(texts.keep(&out)?) } else { None })
    }

    fn name(&mut self, kind: Named, number: u32, texts: &mut Texts<'_>) -> Result<Option<Text>, Failure> {
        let name = match kind {
            Named::Acl => &self.policy.acls[number as usize].name,
            Named::Backend => &self.policy.backends[number as usize].name,
            Named::Probe | Named::Storage => return Ok(None),
        };
        Ok(Some(texts.keep(name.as_bytes())?))
    }

    fn property(&mut self, property: Property, of: Value, _texts: &mut Texts<'_>) -> Result<Value, Failure> {
        Err(Failure::host(format!("{property:?} of {of:?}")))
    }

    fn call(&mut self, callee: Callee, args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
        let Callee::Function(id) = callee else { return Err(Failure::host("no objects here")) };
        match modules::pure(id) {
            Some(function) => function(args, texts),
            None => {
                let name = id.function().name;
                let args: Vec<String> = args.iter().map(|arg| Self::shown(*arg, texts)).collect();
                self.said.push(format!("{}.{name}({})", id.module(), args.join(", ")));
                Ok(Value::Nothing)
            }
        }
    }

    fn hash_data(&mut self, text: &[u8]) -> Result<(), Failure> {
        self.said.push(format!("hash {}", String::from_utf8_lossy(text)));
        Ok(())
    }

    fn synthetic(&mut self, body: Value, texts: &mut Texts<'_>) -> Result<(), Failure> {
        self.said.push(format!("body {}", Self::shown(body, texts)));
        Ok(())
    }

    fn ban(&mut self, expression: &[u8]) -> Result<(), Failure> {
        self.said.push(format!("ban {}", String::from_utf8_lossy(expression)));
        Ok(())
    }
}

/// A VCL, compiled.
fn compiled(vcl: &str) -> (Policy, Program) {
    let mut loader = MemoryLoader::new();
    loader.add("main.vcl", vcl);
    let is_regex = |pattern: &str| pcre2::bytes::Regex::new(pattern).map(drop).map_err(|error| error.to_string());
    let loaded = match load(Path::new("main.vcl"), &Options::default(), &mut loader, &is_regex) {
        Ok(loaded) => loaded,
        Err(failed) => panic!("{}", larder_vcl::render(&failed.diagnostics, &failed.sources)),
    };
    let named = |name: &str| if name == "localhost" { vec![IpAddr::from([127, 0, 0, 1])] } else { Vec::new() };
    let program = compile(&loaded.policy, &named).expect("its names have addresses");
    (loaded.policy, program)
}

/// What a VCL makes of a request at a step: its verdict, then what it said, then the values that changed.
fn outcome(vcl: &str, step: Step, request: &[(&str, &str)]) -> String {
    let (policy, program) = compiled(vcl);
    let before: BTreeMap<String, String> =
        request.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let mut host = Request { policy, values: before.clone(), said: Vec::new() };
    let mut machine = Machine::default();
    let start = program.of_step(step).expect("each step has a sub");
    let mut shown = match machine.run(&program, start, 10_000, &mut host) {
        Err(failure) => format!("fails: {failure}"),
        Ok(verdict) => {
            let action = verdict.action.map_or("end".to_owned(), |action| format!("{action:?}").to_lowercase());
            let values = machine.values(verdict).iter().map(|value| match value {
                Value::Text(text) => String::from_utf8_lossy(machine.bytes(&program, *text)).into_owned(),
                Value::Int(number) => number.to_string(),
                Value::Real(number) => number.to_string(),
                other => format!("{other:?}"),
            });
            values.fold(action, |shown, value| shown + " " + &value)
        }
    };
    for said in &host.said {
        let _ = write!(shown, "; {said}");
    }
    for (name, value) in &host.values {
        if before.get(name) != Some(value) {
            let _ = write!(shown, "; {name}={value}");
        }
    }
    for name in before.keys().filter(|name| !host.values.contains_key(*name)) {
        let _ = write!(shown, "; no {name}");
    }
    shown
}

/// The outcome of `vcl_recv` with this body, for `GET /a?b=1` of `Host: example.com` from 10.1.2.3.
fn recv(body: &str, more: &[(&str, &str)]) -> String {
    let vcl =
        format!("vcl 4.1;\nimport std;\nbackend default {{ .host = \"127.0.0.1\"; }}\nsub vcl_recv {{ {body} }}\n");
    let usual = [
        ("req.method", "GET"),
        ("req.url", "/a?b=1"),
        ("req.proto", "HTTP/1.1"),
        ("req.http.host", "example.com"),
        ("client.ip", "10.1.2.3:1234"),
    ];
    outcome(&vcl, Step::Recv, &[&usual, more].concat())
}

#[test]
fn what_the_vcl_leaves_to_it_the_builtin_one_decides() {
    for (more, expected) in [
        (&[][..], "hash"),
        (&[("req.http.host", "Example.COM")], "hash; req.http.host=example.com"),
        (&[("req.http.cookie", "a=1")], "pass"),
        (&[("req.http.authorization", "Basic x")], "pass"),
        (&[("req.method", "POST")], "pass"),
        (&[("req.method", "BREW")], "synth 501 ; req.http.connection=close"),
    ] {
        assert_eq!(recv("", more), expected, "{more:?}");
    }
    let vcl = "vcl 4.1; backend default none;";
    assert_eq!(outcome(vcl, Step::Recv, &[("req.method", "GET"), ("req.proto", "HTTP/1.1")]), "synth 400 ");
    let request = [("req.url", "/a"), ("req.http.host", "example.com")];
    assert_eq!(outcome(vcl, Step::Hash, &request), "lookup; hash /a; hash example.com");
    assert_eq!(
        outcome(vcl, Step::Hash, &[("req.url", "/a"), ("server.ip", "1.2.3.4:80")]),
        "lookup; hash /a; hash 1.2.3.4"
    );
    assert_eq!(outcome(vcl, Step::Deliver, &[]), "deliver");
    assert_eq!(outcome(vcl, Step::Init, &[]), "ok");
}

#[test]
fn statements_do_what_they_say() {
    for (body, expected) in [
        (
            "set req.http.x = \"a\" + req.url + 1 + 2.5 + 3s + true; return (hash);",
            "hash; req.http.x=a/a?b=112.5003.000true",
        ),
        ("set req.http.x = req.http.none; return (hash);", "hash; req.http.x="),
        ("set req.http.x = \"a\"; set req.http.x += \"b\" + \"c\"; return (hash);", "hash; req.http.x=abc"),
        ("unset req.http.host; return (hash);", "hash; no req.http.host"),
        ("unset req.http.host; unset req.http.none; return (hash);", "hash; no req.http.host"),
        (
            "set req.http.x = \"1\"; unset req.http.x; unset req.http.host; set req.http.y = \"2\"; return (hash);",
            "hash; req.http.y=2; no req.http.host",
        ),
        ("unset req.grace; unset req.http.host; unset req.http.x; return (hash);", "hash; no req.http.host"),
        ("if (!req.http.x) { unset req.http.x; unset req.http.host; } return (hash);", "hash; no req.http.host"),
        ("set req.grace = 10s; set req.grace += 1m; set req.grace *= 2; return (hash);", "hash; req.grace=140"),
        ("set req.url = regsub(req.url, \"\\?.*\", \"\"); return (hash);", "hash; req.url=/a"),
        ("set req.url = regsuball(\"/aXbXc\", \"X(.)\", \"<\\1\\1>\"); return (hash);", "hash; req.url=/a<bb><cc>"),
        ("set req.url = regsub(req.http.none, \"x\", \"y\"); return (hash);", "hash; req.url="),
        ("set req.url = regsub(req.url, \"x\", \"y\"); return (hash);", "hash"),
        ("set req.http.x = regsub(req.http.x, \"x\", \"y\"); return (hash);", "hash; req.http.x="),
        (
            "set req.http.x = std.tolower(\"AbC\") + std.querysort(\"/?b&a\"); return (hash);",
            "hash; req.http.x=abc/?a&b",
        ),
        ("set req.http.x = req.url.upper(); return (hash);", "hash; req.http.x=/A?B=1"),
        ("set req.http.x = (1 + 2) * 3 - 4 / 2 % 2; return (hash);", "hash; req.http.x=9"),
        ("ban(\"req.url == \" + req.url); return (hash);", "hash; ban req.url == /a?b=1"),
        ("std.log(\"a\" + req.url); return (hash);", "hash; std.log(a/a?b=1)"),
        ("return (synth(750, \"to \" + req.url));", "synth 750 to /a?b=1"),
        ("return (synth(404));", "synth 404 "),
        ("return (fail(\"no\"));", "fail no"),
        ("{ { return (pass); } }", "pass"),
        ("set req.http.x = 1 / std.integer(\"0\"); return (hash);", "fails: division by zero"),
        ("if (std.integer(\"x\") > 1) { return (pass); }", "fails: std.integer(): conversion failed"),
    ] {
        assert_eq!(recv(body, &[]), expected, "{body}");
    }
}

#[test]
fn a_header_matters_if_some_way_reads_it_or_leaves_it() {
    let (read, stays) = (Fate { is_read: true, stays: false }, Fate { is_read: false, stays: true });
    let (both, neither) = (Fate { is_read: true, stays: true }, Fate::default());
    for (body, fate) in [
        ("", stays),
        ("unset resp.http.x-one;", neither),
        ("unset resp.http.X-ONE;", neither),
        ("unset resp.http.a; unset resp.http.x-one; unset resp.http.b;", neither),
        ("unset resp.http.a; unset resp.http.b;", stays),
        ("set resp.http.x-one = \"1\";", neither),
        ("set resp.http.x-one = \"1\" + resp.status; if (resp.http.x-one) { unset resp.http.a; }", neither),
        ("set resp.http.x-one += \"1\";", read),
        ("if (resp.http.x-one) { unset resp.http.x-one; }", both),
        ("if (!resp.http.x-one || req.http.a) { set resp.http.a = \"1\"; } unset resp.http.x-one;", read),
        ("if (resp.http.x-one ~ \"a\") { set resp.http.a = \"1\"; } unset resp.http.x-one;", read),
        ("if (resp.http.x-one == \"a\") { set resp.http.a = \"1\"; } unset resp.http.x-one;", read),
        ("set resp.http.a = resp.http.x-one; unset resp.http.x-one;", read),
        ("if (req.http.x-one) { unset resp.http.x-one; }", stays),
        ("if (req.http.a) { unset resp.http.x-one; } else { set resp.http.x-one = \"1\"; }", neither),
        ("if (req.http.a) { return (deliver); } unset resp.http.x-one;", stays),
        ("if (req.http.a) { return (restart); } unset resp.http.x-one;", neither),
        ("if (req.http.a) { return (synth(404)); } unset resp.http.x-one;", neither),
        ("call own; unset resp.http.x-one;", read),
        ("unset resp.http.x-one; call own;", neither),
        ("header.append(resp.http.x-one, \"1\"); unset resp.http.x-one;", read),
        ("header.append(resp.http.a, \"1\"); unset resp.http.x-one;", neither),
        ("std.rollback(resp); unset resp.http.x-one;", read),
    ] {
        let own = "sub own { if (resp.http.x-one) { unset resp.http.a; } else { return; } }";
        let vcl = format!(
            "vcl 4.1; import std; import header; backend default none; {own}
             sub vcl_recv {{ header.append(req.http.a, std.tolower(\"A\")); }}
             sub vcl_backend_fetch {{ if (bereq.http.a) {{ return (fetch); }} }}
             sub vcl_miss {{ if (req.http.none) {{ call never; }} }} sub never {{ set req.http.a = \"1\"; }}
             sub vcl_synth {{ if (req.http.none) {{ call own; }} }} sub vcl_deliver {{ {body} }}"
        );
        let (policy, program) = compiled(&vcl);
        let is_it = |header: larder_vcl::policy::Header| {
            header.of == Headers::Resp && policy.headers[header.name.0 as usize].eq_ignore_ascii_case("X-One")
        };
        assert_eq!(program.fate(Step::Deliver, is_it), fate, "{body}");
    }
}

#[test]
fn conditions_hold_as_in_varnish() {
    for (condition, holds) in [
        ("true", true),
        ("req.http.host", true),
        ("req.http.none", false),
        ("!req.http.none", true),
        ("req.http.none == \"\"", false),
        ("req.http.none != \"\"", true),
        ("req.http.none == req.http.none2", false),
        ("req.http.none != req.http.none2", true),
        ("req.http.none.lower()", false),
        ("req.http.none + \"\" == \"\"", true),
        ("req.http.none + req.http.none2", false),
        ("req.http.none + req.http.host", true),
        ("req.http.host == \"example.com\"", true),
        ("req.http.host ~ \"^EXAMPLE\"", false),
        ("req.http.host ~ \"(?i)^EXAMPLE\"", true),
        ("req.http.host !~ \"x\"", false),
        ("req.http.none ~ \"^$\"", true),
        ("req.url < \"/b\"", true),
        ("req.restarts == 0", true),
        ("req.restarts", false),
        ("req.restarts + 1 > 0 && req.url", true),
        ("client.ip ~ local", true),
        ("client.ip !~ local", false),
        ("client.ip == \"10.1.2.3\"", true),
        ("false || req.http.none || req.url", true),
        ("req.url && (false || req.http.none)", false),
        ("!(req.url && req.http.none)", true),
        ("!(req.url && req.http.host ~ \"^x\")", true),
        ("req.http.host !~ \"^x\" && req.url !~ \"x\"", true),
        ("1s + 1m > 60s", true),
        ("std.duration(\"1h\", 1s) == 60m", true),
        ("std.fnmatch(\"/[a-c]*\", req.url)", true),
    ] {
        let acl = "acl local { \"localhost\"; \"10.0.0.0\"/8; ! \"10.9.0.0\"/16; }";
        let vcl = format!(
            "vcl 4.1; import std; backend default none; {acl} sub vcl_recv {{
                if ({condition}) {{ return (synth(200)); }} else {{ return (synth(404)); }}
                if (client.ip ~ local) {{ std.log(\"never\"); }} }}"
        );
        let request = [("req.url", "/a"), ("req.http.host", "example.com"), ("client.ip", "10.1.2.3:1")];
        let expected = if holds { "synth 200 " } else { "synth 404 " };
        assert_eq!(outcome(&vcl, Step::Recv, &request), expected, "{condition}");
    }
}

#[test]
fn conditions_within_conditions_lead_where_they_say() {
    // With which of a, b and c it holds: their bits are 1, 2 and 4.
    let conditions = [
        ("A && B && C", "7"),
        ("A || B || C", "1234567"),
        ("(A && B) || C", "34567"),
        ("A && (B || C)", "357"),
        ("(A || B) && C", "567"),
        ("A || (B && C)", "13567"),
        ("!(A && B) || C", "0124567"),
        ("!(A || !B) && !C", "2"),
        ("!((A && B) || (B && C))", "01245"),
        ("A && (B || (C && A))", "357"),
        ("(A || (B && !C)) && (C || !A)", "257"),
    ];
    for (condition, holds) in conditions {
        for bits in 0..8u8 {
            let is_there = ["a", "b", "c"].map(|name| (name, bits & (1 << (name.as_bytes()[0] - b'a')) != 0));
            let request: Vec<(String, String)> = is_there
                .iter()
                .filter(|(_, is_there)| *is_there)
                .map(|(name, _)| (format!("req.http.{name}"), "1".to_owned()))
                .collect();
            let request: Vec<(&str, &str)> = request.iter().map(|(name, value)| (&**name, &**value)).collect();
            for each in ["req.http.NAME", "req.http.NAME == \"1\"", "req.http.NAME ~ \"1\"", "!(!req.http.NAME)"] {
                let word = |name: &str| format!("({})", each.replace("NAME", name));
                let written: String = condition
                    .chars()
                    .map(|char| match char {
                        'A' | 'B' | 'C' => word(&char.to_ascii_lowercase().to_string()),
                        char => char.to_string(),
                    })
                    .collect();
                let vcl = format!(
                    "vcl 4.1; backend default none; sub vcl_recv {{ if ({written}) {{ return (synth(200)); }} return (synth(404)); }}"
                );
                let expected = if holds.contains(&bits.to_string()) { "synth 200 " } else { "synth 404 " };
                assert_eq!(outcome(&vcl, Step::Recv, &request), expected, "{written} with {request:?}");
            }
        }
    }
}

#[test]
fn subs_call_each_other_and_come_back() {
    let vcl = "vcl 4.1; import std; backend default none;
        sub inner { if (req.url == \"/leave\") { return; } std.log(\"inner\"); if (req.url == \"/pass\") { return (pass); } }
        sub outer { call inner; std.log(\"outer\"); }
        sub vcl_recv { std.log(\"first\"); }
        sub vcl_recv { call outer; if (req.url == \"/a\") { set req.http.a = \"1\"; }
            elseif (req.url == \"/b\") { set req.http.b = \"1\"; } elif (req.url == \"/c\") { set req.http.c = \"1\"; }
            else { set req.http.d = \"1\"; } return (hash); }";
    for (url, expected) in [
        ("/pass", "pass; std.log(first); std.log(inner)"),
        ("/leave", "hash; std.log(first); std.log(outer); req.http.d=1"),
        ("/a", "hash; std.log(first); std.log(inner); std.log(outer); req.http.a=1"),
        ("/b", "hash; std.log(first); std.log(inner); std.log(outer); req.http.b=1"),
        ("/c", "hash; std.log(first); std.log(inner); std.log(outer); req.http.c=1"),
    ] {
        assert_eq!(outcome(vcl, Step::Recv, &[("req.url", url)]), expected, "{url}");
    }
}

#[test]
fn texts_that_grow_without_end_fail_the_request() {
    let double = "set req.http.x = req.http.x + req.http.x;".repeat(12);
    let body = format!("set req.http.x = \"0123456789\"; {double} return (hash);");
    assert!(recv(&body, &[]).starts_with("fails: the texts made for one request take more than 10000 bytes"));
}

#[test]
fn names_of_hosts_have_addresses_that_fit_their_masks() {
    for (declaration, expected) in [
        ("backend default { .host = \"nobody\"; }", "the host \"nobody\" of the backend \"default\" has no address"),
        ("acl a { \"nobody\"; }", "\"nobody\" has no address"),
        ("acl a { (\"nobody\"); }", ""),
        ("acl a { \"localhost\"; }", ""),
        ("acl a { \"localhost\"/32; }", ""),
        ("acl a { \"localhost\"/8; }", "\"localhost\" is 127.0.0.1, of which bits behind the first 8 are not zero"),
        ("acl a -pedantic { \"localhost\"/8; }", ""),
        ("acl a { \"localhost\"/64; }", "\"localhost\" is 127.0.0.1, which has less than 64 bits"),
    ] {
        let backend = if declaration.starts_with("backend") { "" } else { "backend default none;" };
        let mut loader = MemoryLoader::new();
        loader.add("main.vcl", format!("vcl 4.1; {backend} {declaration}"));
        let options = Options { allows_unused: true, ..Options::default() };
        let loaded = load(Path::new("main.vcl"), &options, &mut loader, &|_| Ok(())).expect("it is sound");
        let named = |name: &str| if name == "localhost" { vec![IpAddr::from([127, 0, 0, 1])] } else { Vec::new() };
        let errors = compile(&loaded.policy, &named).err().unwrap_or_default();
        let told: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
        assert_eq!(told.join("; "), expected, "{declaration}");
    }
}
