//! Profiles of applications: the files that operators write, and the requests that are asked about by them.

use larder_conf::profiles;
use larder_http::Fields;
use larder_server::profile::{Profile, Request, Standing};

/// A profile, a line `----`, the target of a request, and cookies in lines: what is wrong with the file has a place in it, what is
/// left of the target is a part of it, and a cookie that the file does not have is nobody's.
pub fn profile(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (file, request) = text.split_once("\n----\n").unwrap_or((&text, ""));
    let mut wrong = Vec::new();
    let written = profiles::read(file, 0, "own.profile", &mut wrong);
    let made = profiles::own("own.profile", &written, &mut wrong);
    for one in &wrong {
        let span = one.span.expect("what is wrong has a place");
        assert!(file.get(span.start as usize..span.end as usize).is_some_and(|word| !word.is_empty()), "{one:?}");
    }
    let profile = Profile::new(&made);
    let mut lines = request.lines();
    let target = lines.next().unwrap_or_default();
    let kept = profile.kept_target(target.as_bytes());
    assert!(kept.len() <= target.len() && profile.kept_target(&kept) == kept);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    assert!(!profile.has_ignored(query.as_bytes()) || kept.len() < target.len());
    let mut fields = Fields::new();
    let cookies: Vec<&str> = lines.collect();
    cookies.iter().filter(|line| line.len() < 1000).for_each(|line| fields.push(b"Cookie", line.as_bytes()));
    let url = (path.as_bytes(), query.as_bytes());
    let request = Request { fields: &fields, urls: [url, (b"", b"")] };
    if let Standing::Personal(why) = profile.standing(&request, &mut Vec::new()) {
        assert!(!why.to_string().is_empty());
    }
    let _ = profile.class(&request, &mut Vec::new()).0.name();
    fields.push(b"Cookie", b"=; nobody knows this one");
    let request = Request { fields: &fields, urls: [(b"/", b""), url] };
    if file.find('*').is_none() && !file.contains("nobody") && !file.contains("static") {
        assert!(matches!(profile.standing(&request, &mut Vec::new()), Standing::Personal(_)));
    }
}
