//! What a purge was answered.

/// On which nodes it is known. Nodes go by their numbers from 0; the one of number 0 is called `web1`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// It is in the log.
    Log {
        /// How many nodes there are.
        of: usize,
        /// Those that are away.
        away: Vec<usize>,
        /// Those that have not read so far.
        behind: Vec<usize>,
    },
    /// On the node alone that was asked.
    Alone,
    /// That was not said.
    Nothing,
}

impl Told {
    /// Reads the last line of a text, or a member of JSON.
    pub fn of(answer: &str) -> Told {
        match answer.split_once("\"cluster\":") {
            Some((_, json)) => of_json(json),
            None => answer.lines().rev().find_map(of_line).unwrap_or(Told::Nothing),
        }
    }

    /// Whether all of so many nodes know it.
    pub fn is_everywhere(&self, nodes: usize) -> bool {
        matches!(self, Told::Log { of, away, behind } if *of == nodes && away.is_empty() && behind.is_empty())
    }
}

/// `Known on 3 of 5 nodes; away: web1 since 12 s; not yet: web2`.
fn of_line(line: &str) -> Option<Told> {
    let rest = line.strip_prefix("Known on ")?;
    if rest.starts_with("this node alone") {
        return Some(Told::Alone);
    }
    let mut parts = rest.split("; ");
    let of = parts.next()?.split(' ').nth(2)?.parse().ok()?;
    let (mut away, mut behind) = (Vec::new(), Vec::new());
    for part in parts {
        let (list, names) = part.split_once(": ")?;
        let numbers = names.split(", ").map(number).collect::<Option<Vec<_>>>()?;
        match list {
            "away" => away = numbers,
            "not yet" => behind = numbers,
            _ => return None,
        }
    }
    Some(Told::Log { of, away, behind })
}

/// The number of the node in `web3 since 12 s`; one of another name, as a second of the same name has, is none.
fn number(name: &str) -> Option<usize> {
    name.split(' ').next()?.strip_prefix("web")?.parse::<usize>().ok()?.checked_sub(1)
}

/// `{"away":[{"node":"web3","seconds":12}],"behind":["web2"],"known":3,"nodes":5,"unsent":null}`
fn of_json(json: &str) -> Told {
    let names = |list: &str| {
        let (_, rest) = json.split_once(&format!("\"{list}\":["))?;
        let (items, _) = rest.split_once(']')?;
        let words = items.split('"').filter(|word| word.starts_with("web"));
        words.map(number).collect::<Option<Vec<_>>>()
    };
    let of = || {
        let (_, rest) = json.split_once("\"nodes\":")?;
        rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let read = || Some(Told::Log { of: of()?, away: names("away")?, behind: names("behind")? });
    match json.contains("\"unsent\":null") {
        true => read().unwrap_or(Told::Nothing),
        false if json.contains("\"unsent\":\"") => Told::Alone,
        false => Told::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read() {
        let log = |of, away: &[usize], behind: &[usize]| Told::Log { of, away: away.into(), behind: behind.into() };
        for (answer, told) in [
            ("Purged: 1 page\nKnown on 5 of 5 nodes\n", log(5, &[], &[])),
            ("Known on 1 of 1 node\n", log(1, &[], &[])),
            ("Known on 4 of 5 nodes; away: web3 since 12 s\n", log(5, &[2], &[])),
            (
                "Known on 1 of 4 nodes; away: web1 since 2 min, web4 since 2 h; not yet: web2, web5\n",
                log(4, &[0, 3], &[1, 4]),
            ),
            ("Known on 4 of 5 nodes; not yet: web3~1234\n", Told::Nothing),
            ("Known on this node alone: redis://a:1 is full. The others are told when that is mended.\n", Told::Alone),
            ("Purged: 1 page\n", Told::Nothing),
            (
                "{\"cluster\":{\"away\":[{\"node\":\"web3\",\"seconds\":12}],\"behind\":[\"web2\"],\"known\":3,\"nodes\":5,\"unsent\":null},\"purged\":1}",
                log(5, &[2], &[1]),
            ),
            ("{\"cluster\":{\"away\":[],\"behind\":[],\"known\":5,\"nodes\":5,\"unsent\":null}}", log(5, &[], &[])),
            ("{\"cluster\":{\"away\":[],\"behind\":[],\"known\":1,\"nodes\":1,\"unsent\":\"away\"}}", Told::Alone),
            ("{\"cluster\":null}", Told::Nothing),
        ] {
            assert_eq!(Told::of(answer), told, "{answer}");
        }
        assert!(log(5, &[], &[]).is_everywhere(5) && !log(4, &[], &[]).is_everywhere(5));
    }
}
