//! Hostile origins, of HTTP and of FastCGI.
//!
//! The bytes of a case are sent in answer to one request. Beside what `case.rs` says, a line may be
//!
//! - `!close`: the origin closes; else it waits for the next request on the connection;
//! - `!late`: what follows leaves when the client has read its answer;
//! - `!HEAD`, `!POST`, first: the method of the request, if it is not GET;
//! - `@stdout`, `@stderr`, `@end` or `@KIND`: a record with what follows as its content, and perhaps `id=2`, `version=2`,
//!   `padding=3`, or `len+5`, a length that is not that of the content.
//!
//! `{body}` is the page that the request would get, `{len}` its length, `{len+5}` a lie about it, `{evil}` what nobody
//! may ever see. Expected is what the client of the request gets: `502`, `200 page`, `200 cut`, `200 other`; then whether
//! the next one who asks gets a `fresh` page or a `hit`.

use larder_testkit::Framing;

use super::case::{Case, all, bytes_of};
use super::ledger::{Act, Plan, ids_in, innocent_page};
use super::world::{Pages, World};

#[test]
fn hostile_answers_hurt_nobody() {
    let (answers, records) = (all("answers"), all("records"));
    let count = answers.len() + records.len();
    assert!(count >= 100, "{count} raw answers");
    World::new().plays(&answers, &["cached", "stream"]);
    World::new().plays(&records, &["php"]);
}

impl World {
    fn plays(&self, cases: &[Case], places: &[&'static str]) {
        self.play(cases, places, |case, place| play(self, case, place));
    }
}

fn play(world: &World, case: &Case, place: &'static str) -> Result<String, String> {
    let pages = Pages::of("", place);
    let target = &pages.targets[0].1;
    let id = pages.ids().concat();
    let page = innocent_page(&id, target);
    let word = |word: &str| match word.strip_prefix("len") {
        Some("") => Some(page.len().to_string().into_bytes()),
        Some(by) => Some((page.len() as i64 + by.parse::<i64>().ok()?).to_string().into_bytes()),
        None if word == "body" => Some(page.clone()),
        None => pages.word(word),
    };
    let method = case.text.strip_prefix('!').and_then(|text| text.lines().next()).unwrap_or("GET");
    let method = if ["HEAD", "POST"].contains(&method) { method } else { "GET" };
    world.ledger.expect(&id, Plan::Raw(acts(&case.text, &word)));

    let mut client = world.client();
    let request = format!("{method} {target} HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n");
    client.send(request.as_bytes()).map_err(|error| error.to_string())?;
    let first = client.read_response(method).map_err(|error| format!("no answer: {error}"))?;
    let rest = client.read_to_end().unwrap_or_default();
    if !rest.is_empty() {
        return Err(format!("bytes behind the answer: {}", rest.escape_ascii()));
    }
    let all = [format!("{:?}", first.fields).as_bytes(), &first.body].concat();
    if let Some(other) = ids_in(&all).into_iter().find(|other| *other != id) {
        return Err(format!("the answer has another's id {other}"));
    }
    let what = match first.framing {
        Framing::Cut => "cut ",
        _ if first.status != 200 || method == "HEAD" => "",
        _ if first.body == page => "page ",
        _ => "other ",
    };
    world.origin(place).send_late();
    world.serves(place)?;

    world.ledger.expect(&id, Plan::Page);
    let request = format!("GET {target} HTTP/1.1\r\nHost: site.test\r\nConnection: close\r\n\r\n");
    let mut next = world.client();
    next.send(request.as_bytes()).map_err(|error| error.to_string())?;
    let second = next.read_response("GET").map_err(|error| format!("no second answer: {error}"))?;
    let is_fresh = world.ledger.was_asked(&id);
    let is_whole = second.status == 200 && second.body == page && second.framing != Framing::Cut;
    let is_stored = !is_fresh && second.body == first.body && second.status == first.status && what != "cut ";
    if !is_whole && !is_stored {
        let Framing::Cut = second.framing else {
            return Err(format!("the next one got {} {}", second.status, second.body.escape_ascii()));
        };
        return Err("the next one got half a page".to_owned());
    }
    world.serves(place)?;
    Ok(format!("{} {what}{}", first.status, if is_fresh { "fresh" } else { "hit" }))
}

/// What an origin does.
fn acts(text: &str, word: &impl Fn(&str) -> Option<Vec<u8>>) -> Vec<Act> {
    let (mut acts, mut is_late) = (Vec::new(), false);
    let mut rest = text;
    while !rest.is_empty() {
        let first = rest.lines().next().unwrap_or_default();
        let command = first.strip_prefix(['!', '@']);
        let after = if command.is_some() { &rest[first.len() + 1..] } else { rest };
        let end = after.find("\n!").into_iter().chain(after.find("\n@")).min().map_or(after.len(), |at| at + 1);
        let end = if after.starts_with(['!', '@']) { 0 } else { end };
        let content = bytes_of(&after[..end], word);
        rest = &after[end..];
        match command {
            Some("close") => acts.push(Act::Close),
            Some("late") => is_late = true,
            _ => {}
        }
        let bytes = match first.strip_prefix('@') {
            Some(line) => record_of(line, content),
            None => content,
        };
        if !bytes.is_empty() {
            acts.push(if is_late { Act::Late(bytes) } else { Act::Send(bytes) });
            is_late = false;
        }
    }
    acts
}

/// A record as its line asks for it.
fn record_of(line: &str, content: Vec<u8>) -> Vec<u8> {
    let mut words = line.split(' ');
    let kind = match words.next().unwrap_or_default() {
        "stdout" => 6,
        "stderr" => 7,
        "end" => 3,
        number => number.parse().expect("the kind of a record"),
    };
    let content = if kind == 3 && content.is_empty() { vec![0; 8] } else { content };
    let (mut version, mut id, mut padding, mut len) = (1_u8, 1_u16, 0_u8, content.len() as i64);
    for word in words {
        match word.split_once('=') {
            Some(("version", value)) => version = value.parse().expect("a version"),
            Some(("id", value)) => id = value.parse().expect("an id"),
            Some(("padding", value)) => padding = value.parse().expect("a padding"),
            _ => len += word.strip_prefix("len").and_then(|by| by.parse::<i64>().ok()).expect("len+N"),
        }
    }
    let ([id_high, id_low], [high, low]) = (id.to_be_bytes(), (len as u16).to_be_bytes());
    let head = [version, kind, id_high, id_low, high, low, padding, 0];
    [&head[..], &content, &vec![0; padding.into()]].concat()
}
