//! Tells the error log when memory gets short, and when that is over.

use std::time::Duration;

use super::decide::{Limit, Stage};

/// The stage that was logged, and when.
#[derive(Debug, Default)]
pub struct Speech {
    said: Stage,
    /// When memory was last that short, since the start.
    last: Duration,
    /// The worst stage since then.
    since: Stage,
}

/// The facts for a line.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// How short memory is.
    pub stage: Stage,
    /// The nearest limit.
    pub limit: Limit,
    /// What pages may use, and what the configuration gives them; bytes.
    pub pages: (u64, u64),
    /// How many requests and connections wait.
    pub waiting: u64,
}

impl Speech {
    /// The line to be logged, if any, at `now` since the start. A stage that comes and goes is logged once.
    pub fn line(&mut self, facts: &Facts, now: Duration) -> Option<String> {
        if facts.stage > self.said {
            *self = Self { said: facts.stage, last: now, since: Stage::Ample };
            return Some(text(facts));
        }
        if facts.stage == self.said {
            (self.last, self.since) = (now, Stage::Ample);
            return None;
        }
        self.since = self.since.max(facts.stage);
        if now.saturating_sub(self.last) < OVER {
            return None;
        }
        *self = Self { said: self.since, last: now, since: Stage::Ample };
        Some(text(&Facts { stage: self.said, ..*facts }))
    }
}

fn text(facts: &Facts) -> String {
    let Facts { stage, limit, pages: (now, wanted), waiting } = facts;
    let megabytes = |bytes: &u64| bytes >> 20;
    let what = match stage {
        Stage::Ample => "that is enough again".to_owned(),
        Stage::Less => format!("pages may take {} MB, not {} MB", megabytes(now), megabytes(wanted)),
        Stage::Full => "pages have left, and nothing is stored".to_owned(),
        Stage::Waiting => format!("requests wait, {waiting} now, and pages may take {} MB", megabytes(now)),
    };
    format!("{} MB of {} MB of memory are in use: {what}", megabytes(&limit.used), megabytes(&limit.cap))
}

/// How long a stage must be left before it counts as over.
const OVER: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_said_when_it_is_entered_and_when_it_is_over() {
        let mut speech = Speech::default();
        for (seconds, stage, line) in [
            (0, Stage::Ample, None),
            (1, Stage::Less, Some("50 MB of 57 MB of memory are in use: pages may take 20 MB, not 28 MB")),
            (2, Stage::Ample, None),
            (3, Stage::Less, None),
            (
                4,
                Stage::Waiting,
                Some("50 MB of 57 MB of memory are in use: requests wait, 7 now, and pages may take 20 MB"),
            ),
            (5, Stage::Full, None),
            (6, Stage::Waiting, None),
            (7, Stage::Less, None),
            (8, Stage::Full, None),
            (15, Stage::Ample, None),
            (16, Stage::Ample, Some("50 MB of 57 MB of memory are in use: pages have left, and nothing is stored")),
            (25, Stage::Ample, None),
            (26, Stage::Ample, Some("50 MB of 57 MB of memory are in use: that is enough again")),
            (99, Stage::Ample, None),
        ] {
            let limit = Limit { cap: 57 << 20, used: 50 << 20 };
            let facts = Facts { stage, limit, pages: (20 << 20, 28 << 20), waiting: 7 };
            assert_eq!(speech.line(&facts, Duration::from_secs(seconds)).as_deref(), line, "at {seconds} s");
        }
    }
}
