//! The last hour, in steps of ten seconds.

use std::collections::VecDeque;

use larder_http::Time;
use serde_json::{Map, Value, json};

use super::point::Span;

/// How long a step is, seconds.
pub const STEP_SECS: u64 = 10;
/// How many steps are kept.
const STEPS: usize = 360;

/// What is kept of a step, in the order of [`NAMES`]; `None` where there was nothing.
type Step = [Option<f64>; NAMES.len()];

/// What is told of each step: rates a second, a share, seconds.
const NAMES: [&str; 7] = ["requests", "origin", "share", "cache_p99", "origin_p99", "client_errors", "server_errors"];

/// The steps, the oldest first.
#[derive(Debug, Default)]
pub struct Hour {
    steps: VecDeque<Step>,
    end: Time,
}

impl Hour {
    /// Adds a step, which ends now.
    pub fn add(&mut self, span: &Span<'_>, now: Time) {
        if self.steps.len() >= STEPS {
            self.steps.pop_front();
        }
        self.end = now;
        self.steps.push_back([
            span.per_second(|point| point.sums.requests),
            span.per_second(|point| point.origin_requests),
            span.share(),
            span.cache_quantile(0.99),
            span.origin_quantile(0.99),
            span.per_second(|point| point.sums.client_errors),
            span.per_second(|point| point.sums.server_errors),
        ]);
    }

    /// All of it. Each list has as many entries as there are steps, up to `end`; before the process began there is nothing.
    pub fn to_json(&self) -> Value {
        let missing = STEPS - self.steps.len();
        let lists = NAMES.iter().enumerate().map(|(place, name)| {
            let known = self.steps.iter().map(|step| step[place]);
            ((*name).to_owned(), std::iter::repeat_n(None, missing).chain(known).collect::<Vec<_>>().into())
        });
        let mut told: Map<String, Value> = lists.collect();
        told.insert("seconds".to_owned(), json!(STEP_SECS));
        told.insert("end".to_owned(), json!(self.end.0 as f64 / 1000.0));
        told.into()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::point::Point;
    use super::*;

    #[test]
    fn the_last_hour_is_kept_and_no_more() {
        let mut hour = Hour::default();
        let point = |at: u64, requests: u64| {
            let mut point = Point { at: Duration::from_secs(at), ..Point::default() };
            point.sums.requests = requests;
            point
        };
        hour.add(&Span::new(&point(0, 0), &point(10, 50)), Time(10_000));
        let told = hour.to_json();
        let requests = told["requests"].as_array().unwrap();
        assert_eq!((requests.len(), &requests[359], &requests[358]), (360, &json!(5.0), &Value::Null));
        assert_eq!((&told["share"][359], &told["end"], &told["seconds"]), (&Value::Null, &json!(10.0), &json!(10)));
        for step in 0..400 {
            hour.add(&Span::new(&point(0, 0), &point(10, step * 10)), Time(20_000));
        }
        let told = hour.to_json();
        let requests = told["requests"].as_array().unwrap();
        assert_eq!((requests.len(), &requests[0], &requests[359]), (360, &json!(40.0), &json!(399.0)));
    }
}
