//! The scripted answers of a case, turned into those of the origins.

use larder_testkit::{Answer, FastCgiEnd, FastCgiReply, Route, Then};

use crate::case::{Entry, unescape};

/// Which requests an entry is for.
pub fn route(entry: &Entry) -> Route {
    Route { path: entry.name.clone(), when: entry.option("when").map(str::to_owned) }
}

/// Whether an entry is for the origin with this number, from 1.
pub fn is_for(entry: &Entry, number: usize) -> bool {
    entry.option("on").is_none_or(|on| on == number.to_string())
}

/// An HTTP answer. Its connection closes unless the head says where the body ends.
pub fn answer(entry: &Entry, fill: &dyn Fn(&str) -> String) -> Result<Answer, String> {
    let text = fill(&entry.text);
    let then = if entry.has("hang") { Then::Hang } else { Then::Close };
    if entry.has("raw") {
        return Ok(Answer { head: unescape(&text)?, body: Vec::new(), then });
    }
    let (mut head, body) = head_and_body(&text, entry)?;
    let lower = head.to_ascii_lowercase();
    let is_delimited = ["content-length:", "transfer-encoding:"].iter().any(|name| lower.contains(name))
        || lower.starts_with("http/1.1 304")
        || lower.starts_with("http/1.1 204");
    let then = if is_delimited && !entry.has("close") && !entry.has("hang") { Then::Keep } else { then };
    head = head.replace("Content-Length: *", &format!("Content-Length: {}", body.len()));
    Ok(Answer { head: unescape(&head)?, body, then })
}

/// A FastCGI reply.
pub fn reply(entry: &Entry, fill: &dyn Fn(&str) -> String) -> Result<FastCgiReply, String> {
    let text = fill(&entry.text);
    let mut stdout = Vec::new();
    if entry.has("raw") {
        stdout = unescape(&text)?;
    } else if !text.is_empty() {
        let (head, body) = head_and_body(&text, entry)?;
        stdout.extend_from_slice(&unescape(
            &head.replace("Content-Length: *", &format!("Content-Length: {}", body.len())),
        )?);
        stdout.extend_from_slice(&body);
    }
    let mut reply = FastCgiReply::new(stdout);
    if let Some(line) = entry.option("stderr") {
        reply = reply.stderr(&line.replace('_', " "));
    }
    if let Some(bytes) = entry.option("split") {
        reply = reply.split(bytes.parse().map_err(|_| format!("{bytes:?} is no number"))?);
    }
    if entry.has("die") {
        reply = reply.end(FastCgiEnd::Die);
    } else if entry.has("hang") {
        reply = reply.end(FastCgiEnd::Hang);
    }
    Ok(reply)
}

/// Head lines get their CRLF and the empty line; the body is what follows, or a pattern with `size=`.
fn head_and_body(text: &str, entry: &Entry) -> Result<(String, Vec<u8>), String> {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let head = head.lines().map(|line| format!("{line}\r\n")).collect::<String>() + "\r\n";
    let body = match entry.option("size").map(str::parse::<usize>) {
        Some(Ok(size)) => (0..size).map(|at| b'a' + u8::try_from(at % 26).unwrap_or(0)).collect(),
        Some(Err(error)) => return Err(error.to_string()),
        None => unescape(body)?,
    };
    Ok((head, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(options: &[&str], text: &str) -> Entry {
        Entry {
            name: "/a".into(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            text: text.into(),
        }
    }

    #[test]
    fn an_answer_keeps_its_connection_only_when_it_says_its_end() {
        for (options, text, wire, then) in [
            (
                &[][..],
                "HTTP/1.1 200 OK\nContent-Length: *\n\nabc",
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
                Then::Keep,
            ),
            (
                &["close"],
                "HTTP/1.1 200 OK\nContent-Length: *\n\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                Then::Close,
            ),
            (&[], "HTTP/1.1 200 OK\n\nabc", "HTTP/1.1 200 OK\r\n\r\nabc", Then::Close),
            (&["raw"], "junk\\r", "junk\r", Then::Close),
        ] {
            let answer = answer(&entry(options, text), &str::to_owned).unwrap();
            let sent = [answer.head, answer.body].concat();
            assert_eq!((larder_testkit::text_of(&sent).as_str(), answer.then), (wire, then), "{text}");
        }
    }
}
