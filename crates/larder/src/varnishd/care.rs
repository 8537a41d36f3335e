//! Whether a VCL that answers no requests is kept ready: its backends are probed, so that it can take over at once.

use std::time::Duration;

use tokio::time::Instant;

/// What an operator wants of a VCL, and how long it has been of no use.
#[derive(Clone, Copy, Debug)]
pub struct Care {
    /// What was said: `auto`, `cold` or `warm`.
    pub wanted: Wanted,
    /// Since when it is of no use, if it is not.
    pub idle_since: Instant,
}

/// The state of a VCL, as `vcl.state` sets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// It rests when it has been of no use for `vcl_cooldown`.
    Auto,
    /// It rests.
    Cold,
    /// It never rests.
    Warm,
}

impl Care {
    /// That of a VCL that was just loaded.
    pub fn new() -> Care {
        Care { wanted: Wanted::Auto, idle_since: Instant::now() }
    }

    /// When it will rest, if nothing happens; `None` for never, or if it does already.
    pub fn rests_at(&self, cooldown: Duration, now: Instant) -> Option<Instant> {
        let at = self.idle_since.checked_add(cooldown)?;
        (self.wanted == Wanted::Auto && at > now).then_some(at)
    }

    /// Whether it is ready, though it is of no use.
    pub fn is_warm(&self, cooldown: Duration, now: Instant) -> bool {
        self.wanted == Wanted::Warm || self.rests_at(cooldown, now).is_some()
    }
}

impl std::str::FromStr for Wanted {
    type Err = ();

    fn from_str(word: &str) -> Result<Wanted, ()> {
        match word {
            "auto" => Ok(Wanted::Auto),
            "cold" => Ok(Wanted::Cold),
            "warm" => Ok(Wanted::Warm),
            _ => Err(()),
        }
    }
}

impl Wanted {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Wanted::Auto => "auto",
            Wanted::Cold => "cold",
            Wanted::Warm => "warm",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vcl_of_no_use_rests_after_a_while_unless_told_otherwise() {
        let (began, hour) = (Instant::now(), Duration::from_secs(3600));
        let (soon, late) = (began + hour / 2, began + hour);
        for (word, is_warm_soon, is_warm_late) in [("auto", true, false), ("cold", false, false), ("warm", true, true)]
        {
            let care = Care { wanted: word.parse().unwrap(), idle_since: began };
            assert_eq!((care.is_warm(hour, soon), care.is_warm(hour, late)), (is_warm_soon, is_warm_late), "{word}");
            assert_eq!(care.rests_at(hour, soon), (word == "auto").then_some(late), "{word}");
            assert_eq!(care.wanted.word(), word);
        }
        assert!("hot".parse::<Wanted>().is_err());
    }
}
