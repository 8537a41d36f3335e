//! The last answers to a probe, and what they say about a backend: Varnish's `cache_backend_probe.c`.

use std::time::Duration;

use larder_vcl::policy::Probe;

/// What happened when a backend was probed: the letters of Varnish's list, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It was reached by IPv4.
    Ipv4,
    /// It was reached by IPv6.
    Ipv6,
    /// Its Unix socket was reached.
    Unix,
    /// The request could not be sent.
    SendFailed,
    /// The request was sent.
    Sent,
    /// The answer could not be read to its end.
    ReceiveFailed,
    /// The answer was read.
    Received,
    /// The answer was a good one.
    Happy,
}

impl Event {
    /// All of them.
    pub const ALL: [Event; 8] = [
        Self::Ipv4,
        Self::Ipv6,
        Self::Unix,
        Self::SendFailed,
        Self::Sent,
        Self::ReceiveFailed,
        Self::Received,
        Self::Happy,
    ];

    /// Its letter, and its name.
    pub fn shown(self) -> (char, &'static str) {
        match self {
            Self::Ipv4 => ('4', "Good IPv4"),
            Self::Ipv6 => ('6', "Good IPv6"),
            Self::Unix => ('U', "Good UNIX"),
            Self::SendFailed => ('x', "Error Xmit"),
            Self::Sent => ('X', "Good Xmit"),
            Self::ReceiveFailed => ('r', "Error Recv"),
            Self::Received => ('R', "Good Recv"),
            Self::Happy => ('H', "Happy"),
        }
    }
}

/// What came of one probe.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// What happened.
    pub events: Vec<Event>,
    /// How long a whole answer took.
    pub took: Duration,
    /// The first line of the answer, or why there is none.
    pub said: String,
}

/// The last answers.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// How many of them count.
    pub size: u32,
    /// How many of those have to be good.
    pub threshold: u32,
    /// How many of those are.
    pub good: u32,
    /// Which of the last 64 probes had each event: the newest is the lowest bit. In the order of [`Event::ALL`].
    pub history: [u64; Event::ALL.len()],
    /// What came of the last probe.
    pub last: Answer,
    /// How long good answers took, the last ones above all.
    pub average: Duration,
    /// How many good answers the average is of, [`AVERAGED_MAX`] at most.
    averaged: f64,
}

/// Over how many answers the average goes.
const AVERAGED_MAX: f64 = 4.0;

impl Window {
    /// One in which the first answers are taken to be as the probe says.
    pub fn new(probe: &Probe) -> Self {
        let mut window = Self {
            size: probe.window,
            threshold: probe.threshold,
            good: 0,
            history: [0; Event::ALL.len()],
            last: Answer::default(),
            average: Duration::ZERO,
            averaged: 0.0,
        };
        for _ in 0..probe.initial.min(probe.threshold) {
            window.add(Answer { events: vec![Event::Happy], ..Answer::default() });
        }
        window.averaged = 0.0;
        window
    }

    /// Adds what came of a probe.
    pub fn add(&mut self, answer: Answer) {
        for (event, history) in Event::ALL.iter().zip(&mut self.history) {
            *history = *history << 1 | u64::from(answer.events.contains(event));
        }
        if answer.events.contains(&Event::Happy) {
            self.averaged = (self.averaged + 1.0).min(AVERAGED_MAX);
            let (last, average) = (answer.took.as_secs_f64(), self.average.as_secs_f64());
            let average = average + (last - average) / self.averaged;
            self.average = Duration::try_from_secs_f64(average).unwrap_or_default();
        }
        let [.., happy] = self.history;
        let counted = 1_u64.checked_shl(self.size).map_or(u64::MAX, |above| above - 1);
        self.good = (happy & counted).count_ones();
        self.last = answer;
    }

    /// Which of the last 64 answers were good, the newest in the lowest bit.
    pub fn happy(&self) -> u64 {
        let [.., happy] = self.history;
        happy
    }

    /// Whether enough of the answers were good.
    pub fn is_healthy(&self) -> bool {
        self.good >= self.threshold
    }

    /// The letters of what happened last, and `-` for what did not.
    pub fn letters(&self) -> String {
        let all = Event::ALL.iter().zip(&self.history);
        all.map(|(event, history)| if history & 1 == 1 { event.shown().0 } else { '-' }).collect()
    }
}

#[cfg(test)]
pub mod tests {
    use larder_vcl::policy::ProbeRequest;

    use super::*;

    /// A probe that looks at this many answers, wants this many good ones, and begins with this many.
    pub fn probe(window: u32, threshold: u32, initial: u32) -> Probe {
        Probe {
            name: None,
            span: larder_conf::Span::NOWHERE,
            request: ProbeRequest::Url(b"/".to_vec()),
            expected_response: 200,
            timeout: Duration::from_secs(2),
            interval: Duration::from_secs(5),
            window,
            threshold,
            initial,
            expect_close: true,
        }
    }

    /// A good answer after this many milliseconds, or a bad one.
    pub fn answer(good: Option<u64>) -> Answer {
        let events =
            if good.is_some() { vec![Event::Ipv4, Event::Sent, Event::Received, Event::Happy] } else { vec![] };
        Answer { events, took: Duration::from_millis(good.unwrap_or(0)), said: String::new() }
    }

    #[test]
    fn a_backend_is_healthy_while_enough_of_its_last_answers_are_good() {
        // Window, threshold, initial; answers, G for good; the health before them and after each, + for healthy.
        for (sizes, answers, expected) in [
            ((8, 3, 2), "G", "-+"),
            ((8, 3, 3), "bbbbbbbb", "++++++---"),
            ((8, 3, 0), "GGGG", "---++"),
            ((4, 2, 2), "bbb", "+++-"),
            ((1, 1, 0), "GbG", "-+-+"),
            ((3, 3, 2), "GbGGG", "-+---+"),
            ((64, 64, 63), "GG", "-++"),
            ((2, 1, 99), "bb", "++-"),
        ] {
            let (window, threshold, initial) = sizes;
            let mut window = Window::new(&probe(window, threshold, initial));
            let mut found = String::from(if window.is_healthy() { '+' } else { '-' });
            for each in answers.chars() {
                window.add(answer((each == 'G').then_some(1)));
                found.push(if window.is_healthy() { '+' } else { '-' });
            }
            assert_eq!(found, expected, "{sizes:?} {answers}");
        }
    }

    #[test]
    fn letters_and_times_are_those_of_varnish() {
        let mut window = Window::new(&probe(8, 3, 0));
        assert_eq!((window.letters().as_str(), window.average), ("--------", Duration::ZERO));
        for (took, average) in [(Some(8), 8), (Some(4), 6), (None, 6), (Some(6), 6), (Some(2), 5), (Some(9), 6)] {
            window.add(answer(took));
            assert_eq!(window.average, Duration::from_millis(average), "{took:?}");
        }
        assert_eq!(window.letters(), "4---X-RH");
        assert_eq!((window.good, window.history[7]), (5, 0b11_0111));
        window.add(Answer { events: vec![Event::Unix, Event::SendFailed], ..Answer::default() });
        assert_eq!(window.letters(), "--Ux----");
    }
}
