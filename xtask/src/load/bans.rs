//! Bans that stand while a server is measured, made over its CLI.

use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;

/// How many of them.
const COUNT: usize = 10_000;
/// How many are sent before the answers are read.
const AT_ONCE: usize = 100;

/// Makes them at the CLI of a `larder varnishd` whose folder is `folder`, and which asks for no secret. They mean no page.
pub fn make(folder: &Path) -> io::Result<()> {
    let place = fs::read_to_string(folder.join("_.vsm_mgt/_.cli"))?;
    let address = place.lines().next().unwrap_or_default().replace(' ', ":");
    let mut cli = TcpStream::connect(address)?;
    answer(&mut cli)?;
    for first in (0..COUNT).step_by(AT_ONCE) {
        let orders: String =
            (first..first + AT_ONCE).map(|number| format!("ban req.url ~ ^/nothing/{number}$\n")).collect();
        cli.write_all(orders.as_bytes())?;
        (0..AT_ONCE).try_for_each(|_| answer(&mut cli))?;
    }
    Ok(())
}

/// Reads an answer, which has to be a good one: a status and a length in a line of 13 bytes, the text, and a line break.
fn answer(cli: &mut TcpStream) -> io::Result<()> {
    let mut line = [0; 13];
    cli.read_exact(&mut line)?;
    let line = String::from_utf8_lossy(&line);
    let mut words = line.split_whitespace();
    let (status, length) = (words.next(), words.next().and_then(|length| length.parse::<usize>().ok()));
    let mut text = vec![0; length.unwrap_or(0) + 1];
    cli.read_exact(&mut text)?;
    match status {
        Some("200") => Ok(()),
        _ => Err(io::Error::other(format!("the CLI says: {}", String::from_utf8_lossy(&text).trim_end()))),
    }
}
