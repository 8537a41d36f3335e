//! Hostile clients that speak HTTP/2, in front of origins that do not.
//!
//! Each line of a case is a field of the head, `NAME = VALUE`; behind an empty line is the body. `:method`, `:scheme`,
//! `:path` and `:authority` are there without a line of their own, unless `-NAME =` leaves one out.

use larder_testkit::{Frame, FrameKind, RawHttp2, request_block};

use super::case::{Case, all, bytes_of};
use super::ledger::{Plan, ids_in};
use super::world::{PLACES, Pages, World};

#[test]
fn hostile_requests_of_http2_hurt_nobody() {
    let world = World::new();
    world.play(&all("http2"), &PLACES, |case, place| play(&world, case, place));
}

/// Plays one request: its status, or `reset CODE`, or `close`.
fn play(world: &World, case: &Case, place: &'static str) -> Result<String, String> {
    let pages = Pages::of(&case.text, place);
    for id in pages.ids() {
        world.ledger.expect(&id, Plan::Page);
    }
    let fill = |text: &str| {
        let bytes = bytes_of(&format!("{text}\\"), &|word| pages.word(word));
        String::from_utf8(bytes).expect("fields of these cases are UTF-8")
    };
    let (head, body) = case.text.split_once("\n\n").unwrap_or((&case.text, ""));
    let body = bytes_of(body, &|word| pages.word(word));
    let (len, more) = (body.len().to_string(), (body.len() + 5).to_string());
    let head = head.replace("{rest}", &len).replace("{rest+5}", &more);
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in head.lines() {
        let (name, value) = line.split_once('=').expect("NAME = VALUE");
        fields.push((fill(name.strip_suffix(' ').unwrap_or(name)), fill(value.strip_prefix(' ').unwrap_or(value))));
    }
    let usual = [(":method", "GET"), (":scheme", "http"), (":path", &pages.targets[0].1), (":authority", "site.test")];
    for (name, value) in usual.into_iter().rev() {
        // `-:path =` leaves it out.
        if !fields.iter().any(|(have, _)| have.trim_start_matches('-') == name) {
            fields.insert(0, (name.to_owned(), value.to_owned()));
        }
    }
    fields.retain(|(name, _)| !name.starts_with('-'));
    let block: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();

    let open = || -> std::io::Result<_> {
        let mut client = RawHttp2::open(world.site.setup().other_address(), &[])?;
        let flags = if body.is_empty() { 5 } else { 4 };
        client.send_frame(&Frame::new(FrameKind::Headers, flags, 1, request_block(&block)))?;
        if !body.is_empty() {
            client.send_frame(&Frame::new(FrameKind::Data, 1, 1, body.clone()))?;
        }
        client.answer(1)
    };
    let answered = match open() {
        Ok(answer) => {
            if let Some(other) = ids_in(&answer.body).iter().find(|id| !pages.ids().contains(id)) {
                return Err(format!("the answer has another's id {other}"));
            }
            match (answer.status, answer.reset) {
                (_, Some(code)) => format!("reset {code}"),
                (status, None) => status.map_or("a status".to_owned(), |status| status.to_string()),
            }
        }
        Err(_) => "close".to_owned(),
    };
    world.stands(place, &pages)?;
    Ok(answered)
}
