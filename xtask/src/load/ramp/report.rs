//! Steps into lines, a table and a graph.

use super::super::kind::Kind;
use super::chart::{self, Line, Panel, Scale};
use std::fmt::Write;
use std::time::Duration;

/// What came of one step on one server.
#[derive(Debug)]
pub struct Step {
    /// Which server.
    pub server: Kind,
    /// How many people.
    pub users: usize,
    /// How long was counted.
    pub time: Duration,
    /// CPU time of the server.
    pub cpu: Duration,
    /// Right answers.
    pub answers: u64,
    /// New connections, each with a full handshake.
    pub connections: u64,
    /// Requests that brought no right answer, and connections that did not come about.
    pub failures: u64,
    /// What half, 95 %, 99 % and all of the answers took at most, a new connection's handshake included.
    pub waits: [Duration; 4],
}

/// Above the lines.
pub const HEADING: &str = "\
server         users     req/s   conn/s      p50      p95      p99  longest   CPU %  CPU us/req  failures";

impl Step {
    fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.time.as_secs_f64()
    }

    fn cpu_percent(&self) -> f64 {
        100.0 * self.cpu.as_secs_f64() / self.time.as_secs_f64()
    }

    fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.answers.max(1) as f64
    }

    fn waits_ms(&self) -> [f64; 4] {
        self.waits.map(|wait| wait.as_secs_f64() * 1e3)
    }

    /// For the terminal.
    pub fn line(&self) -> String {
        let [p50, p95, p99, longest] = self.waits_ms();
        format!(
            "{:<13} {:>6} {:>9.0} {:>8.0} {p50:>6.2}ms {p95:>6.2}ms {p99:>6.2}ms {longest:>6.1}ms {:>7.1} {:>11.1} {:>9}",
            self.server.name(),
            self.users,
            self.per_second(self.answers),
            self.per_second(self.connections),
            self.cpu_percent(),
            self.cpu_us(),
            self.failures
        )
    }
}

/// The table: a line a step and server.
pub fn csv(steps: &[Step]) -> String {
    let mut out = String::from(
        "server,users,seconds,requests,requests_per_second,connections_per_second,p50_ms,p95_ms,p99_ms,longest_ms,cpu_percent,cpu_us_per_request,failures\n",
    );
    for step in steps {
        let [p50, p95, p99, longest] = step.waits_ms();
        let _ = writeln!(
            out,
            "{},{},{:.3},{},{:.1},{:.1},{p50:.3},{p95:.3},{p99:.3},{longest:.3},{:.1},{:.2},{}",
            step.server.name(),
            step.users,
            step.time.as_secs_f64(),
            step.answers,
            step.per_second(step.answers),
            step.per_second(step.connections),
            step.cpu_percent(),
            step.cpu_us(),
            step.failures
        );
    }
    out
}

/// The graph: requests, waits and CPU time over the number of people.
pub fn svg(steps: &[Step], caption: &[String; 2]) -> String {
    let mut servers: Vec<Kind> = Vec::new();
    for step in steps {
        if !servers.contains(&step.server) {
            servers.push(step.server);
        }
    }
    let line = |server: Kind, suffix: &str, is_dashed: bool, value: &dyn Fn(&Step) -> f64| Line {
        label: format!("{}{suffix}", server.name()),
        is_ours: server.is_larder(),
        is_dashed,
        points: steps
            .iter()
            .filter(|step| step.server == server)
            .map(|step| (step.users as f64, value(step)))
            .collect(),
    };
    let all = |value: &dyn Fn(&Step) -> f64| servers.iter().map(|server| line(*server, "", false, value)).collect();
    let mut waits: Vec<Line> =
        servers.iter().map(|server| line(*server, " p99", false, &|step| step.waits_ms()[2])).collect();
    waits.extend(servers.iter().map(|server| line(*server, " p50", true, &|step| step.waits_ms()[0])));
    let panels = [
        Panel {
            title: "Requests a second".into(),
            scale: Scale::Linear,
            lines: all(&|step| step.per_second(step.answers)),
        },
        Panel {
            title: "Wait for an answer, ms (half get it within p50, 99 % within p99)".into(),
            scale: Scale::Log,
            lines: waits,
        },
        Panel {
            title: "CPU of the server, % of one core".into(),
            scale: Scale::Linear,
            lines: all(&Step::cpu_percent),
        },
    ];
    let requests: u64 = steps.iter().map(|step| step.answers).sum();
    let failures: Vec<String> = servers
        .iter()
        .map(|server| {
            let failures: u64 = steps.iter().filter(|step| step.server == *server).map(|step| step.failures).sum();
            format!("{} {failures}", server.name())
        })
        .collect();
    let foot = format!("Failed requests: {} (of {requests} in all)", failures.join(", "));
    chart::draw("People on the site at a time", caption, &panels, &foot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(server: Kind, users: usize) -> Step {
        Step {
            server,
            users,
            time: Duration::from_secs(2),
            cpu: Duration::from_millis(500),
            answers: 1000,
            connections: 50,
            failures: 0,
            waits: [1, 2, 3, 4].map(Duration::from_millis),
        }
    }

    #[test]
    fn a_step_is_a_line_of_numbers() {
        let csv = csv(&[step(Kind::Larder, 10)]);
        let (heading, line) = csv.trim_end().split_once('\n').expect("a heading and a line");
        assert_eq!(line, "larder,10,2.000,1000,500.0,25.0,1.000,2.000,3.000,4.000,25.0,500.00,0");
        assert_eq!(heading.split(',').count(), line.split(',').count());
    }

    #[test]
    fn the_graph_has_both_servers_and_says_that_nothing_failed() {
        let steps = [1, 10].map(|users| [step(Kind::Larder, users), step(Kind::Nginx, users)]);
        let svg = svg(&steps.into_iter().flatten().collect::<Vec<_>>(), &["a & b".into(), "c".into()]);
        assert_eq!(svg.matches("<polyline").count(), 2 + 4 + 2);
        for text in ["a &amp; b", "larder p99", "nginx p50", "Failed requests: larder 0, nginx 0 (of 4000 in all)"] {
            assert!(svg.contains(text), "{text}");
        }
        assert!(!svg.contains("NaN"));
    }
}
