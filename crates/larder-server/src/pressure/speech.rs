//! What the error log is told of memory: each stage when it is entered, and when it is over for good.

use std::time::Duration;

use super::decide::{Limit, Stage};

/// What has been said, and when.
#[derive(Debug, Default)]
pub struct Speech {
    said: Stage,
    /// When it was last as far as what was said, since the start.
    last: Duration,
    /// The furthest since then.
    since: Stage,
}

/// What a line is made of.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// How far it has come.
    pub stage: Stage,
    /// What limits most.
    pub limit: Limit,
    /// What pages may take, of what the configuration gives them.
    pub pages: (u64, u64),
    /// Requests and connections that wait.
    pub waiting: u64,
}

impl Speech {
    /// The line to be written, if any, so long after the start. A stage that comes and goes is said once.
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

/// How long a stage has to be left to be over.
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
