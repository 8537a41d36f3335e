//! Hostile clients that speak HTTP/1.

use larder_testkit::Client;

use super::case::{Case, all, bytes_of};
use super::ledger::{Plan, ids_in, new_id};
use super::world::{PLACES, Pages, World, is_silent, is_update};

/// Larder answers another request on the connection.
const OPEN: &str = "open";
/// Larder wants more of the request.
const WAITS: &str = "waits";
/// The most answers that a case may ask for.
const ANSWERS_MAX: usize = 12;

#[test]
fn hostile_requests_hurt_nobody() {
    let world = World::new();
    let cases = all("requests");
    assert!(cases.len() >= 300, "{} raw requests", cases.len());
    world.play(&cases, &PLACES, |case, place| {
        let found = play(&world, case, place, &case.expected_at(place))?;
        // Who asked whether larder was waiting gave it what it waited for.
        if is_update() && found.contains(WAITS) { play(&world, case, place, &found) } else { Ok(found) }
    });
}

/// Plays one request, or several on one connection: what was answered, as `200 400 close`.
///
/// Behind the answers: `close`, larder closed; `open`, it answers another request on the connection; `waits`, it wants
/// more of the request, and what it answers to an end instead.
fn play(world: &World, case: &Case, place: &'static str, wanted: &str) -> Result<String, String> {
    let pages = Pages::of(&case.text, place);
    for id in pages.ids() {
        world.ledger.expect(&id, Plan::Page);
    }
    let bytes = bytes_of(&case.text, &|word| pages.word(word));
    let mut client = world.client();
    // It may close before it has read all.
    drop(client.send(&bytes));

    let mut answers: Vec<String> = Vec::new();
    let mut shown = Vec::new();
    let mut methods = methods(&case.text).into_iter();
    let mut method = methods.next().unwrap_or_default();
    let end = loop {
        let next = wanted.split(' ').nth(answers.len()).unwrap_or("close");
        if next == WAITS || !is_update() && next == OPEN || answers.len() == ANSWERS_MAX {
            break next.to_owned();
        }
        match client.read_response(&method) {
            Ok(response) => {
                answers.push(response.status.to_string());
                if response.status >= 200 {
                    method = methods.next().unwrap_or_default();
                }
                shown.extend(format!("{:?}", response.fields).into_bytes());
                shown.extend(&response.body);
            }
            Err(error) if is_silent(&error) && is_update() => break ask_end(world, &mut client),
            Err(error) if is_silent(&error) => return Err(format!("{answers:?} and then silence, not {wanted:?}")),
            Err(_) => break "close".to_owned(),
        }
    };
    if let Some(other) = ids_in(&shown).iter().find(|id| !pages.ids().contains(id)) {
        return Err(format!("the answer has another's id {other}"));
    }
    let is_waiting = end == WAITS;
    if end == OPEN && !is_update() {
        answers_another(world, &mut client)?;
    }
    answers.push(end);
    if is_waiting {
        drop(client.finish());
        while let (true, Ok(response)) = (answers.len() < ANSWERS_MAX, client.read_response(&method)) {
            answers.push(response.status.to_string());
        }
    }
    world.stands(place, &pages)?;
    Ok(answers.join(" "))
}

/// The methods of a case's requests, in order.
fn methods(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.contains("{page") || line.contains("{id}"));
    let first = lines.map(|line| line.split([' ', '\\']).next().unwrap_or_default());
    // Behind a body that ends without a line end.
    first.map(|word| word.trim_start_matches(|letter: char| !letter.is_ascii_uppercase()).to_owned()).collect()
}

/// The same client asks for another page on its connection, and gets just that.
fn answers_another(world: &World, client: &mut Client) -> Result<(), String> {
    world.visit(client, &format!("/cached/{}", new_id()), true)?;
    match client.read_to_end() {
        Ok(rest) if !rest.is_empty() => Err(format!("bytes behind the last answer: {}", rest.escape_ascii())),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Finds out what a silent larder waits for.
fn ask_end(world: &World, client: &mut Client) -> String {
    if answers_another(world, client).is_ok() { OPEN.to_owned() } else { WAITS.to_owned() }
}
