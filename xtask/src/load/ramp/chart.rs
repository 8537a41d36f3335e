//! A small drawer of line graphs: panels below each other that share one axis, as SVG for light and dark pages.

use std::fmt::Write;

const WIDTH: f64 = 780.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 116.0;
/// Above the first panel: two lines of caption.
const TOP: f64 = 78.0;
const PANEL: f64 = 150.0;
/// Between panels: the title of the next.
const GAP: f64 = 44.0;
/// Below the last panel: the axis, its name, a line.
const BOTTOM: f64 = 74.0;
/// Labels at the ends of lines are no nearer to each other than this.
const LABEL_APART: f64 = 14.0;

/// Colours that keep their contrast on both grounds and are told apart without red and green.
const STYLE: &str = "
svg { font: 12px system-ui, -apple-system, 'Segoe UI', sans-serif; }
.ground { fill: #ffffff; } text { fill: #24292f; } .quiet { fill: #57606a; } .grid { stroke: #d8dee4; }
polyline.ours { stroke: #0969da; } polyline.theirs { stroke: #bc4c00; } text.ours { fill: #0969da; } text.theirs { fill: #bc4c00; }
circle.ours { fill: #0969da; } circle.theirs { fill: #bc4c00; }
polyline { fill: none; stroke-width: 2; stroke-linejoin: round; } .dashed { stroke-dasharray: 5 4; }
.title { font-weight: 600; }
@media (prefers-color-scheme: dark) {
.ground { fill: #0d1117; } text { fill: #e6edf3; } .quiet { fill: #9198a1; } .grid { stroke: #30363d; }
polyline.ours { stroke: #58a6ff; } polyline.theirs { stroke: #f0883e; } text.ours { fill: #58a6ff; } text.theirs { fill: #f0883e; }
circle.ours { fill: #58a6ff; } circle.theirs { fill: #f0883e; }
}
";

/// How values become heights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// From zero.
    Linear,
    /// From a power of ten to another.
    Log,
}

/// One line of a panel.
pub struct Line {
    /// What stands at its end.
    pub label: String,
    /// Which of the two colours.
    pub is_ours: bool,
    /// Whether it is the lesser of two lines of one colour.
    pub is_dashed: bool,
    /// Across and up, both above zero where the axis is logarithmic.
    pub points: Vec<(f64, f64)>,
}

/// One graph.
pub struct Panel {
    /// What is drawn, with its unit.
    pub title: String,
    /// How.
    pub scale: Scale,
    /// The lines.
    pub lines: Vec<Line>,
}

/// Draws `panels` over one logarithmic axis.
pub fn draw(axis: &str, caption: &[String; 2], panels: &[Panel], foot: &str) -> String {
    let height = TOP + panels.len() as f64 * (PANEL + GAP) + BOTTOM - GAP;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\">\n<title>{}</title>\n<style>{STYLE}</style>\n<rect class=\"ground\" width=\"100%\" height=\"100%\" rx=\"6\"/>\n",
        escaped(&caption[0])
    );
    text(&mut out, LEFT, 20.0, "title", "start", &caption[0]);
    text(&mut out, LEFT, 36.0, "quiet", "start", &caption[1]);

    let mut across: Vec<f64> =
        panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.points).map(|point| point.0).collect();
    across.sort_by(f64::total_cmp);
    across.dedup();
    let x_range = match (across.first(), across.last()) {
        (Some(first), Some(last)) if first < last => (*first, *last),
        (Some(only), _) => (only / 2.0, only * 2.0),
        (None, _) => (1.0, 10.0),
    };
    let x = |value: f64| LEFT + (WIDTH - LEFT - RIGHT) * between(value.ln(), x_range.0.ln(), x_range.1.ln());

    for (number, panel) in panels.iter().enumerate() {
        let top = TOP + number as f64 * (PANEL + GAP);
        draw_panel(&mut out, panel, top, &across, &x);
    }
    let below = height - BOTTOM;
    for value in &across {
        text(&mut out, x(*value), below + 16.0, "quiet", "middle", &short(*value));
    }
    text(&mut out, (LEFT + WIDTH - RIGHT) / 2.0, below + 36.0, "", "middle", axis);
    text(&mut out, LEFT, below + 60.0, "quiet", "start", foot);
    out.push_str("</svg>\n");
    out
}

fn draw_panel(out: &mut String, panel: &Panel, top: f64, across: &[f64], x: &dyn Fn(f64) -> f64) {
    text(out, LEFT, top - 8.0, "title", "start", &panel.title);
    let values = || panel.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let ticks = match panel.scale {
        Scale::Linear => linear_ticks(values().fold(0.0, f64::max)),
        Scale::Log => log_ticks(values().filter(|value| *value > 0.0)),
    };
    let (low, high) = (ticks.first().copied().unwrap_or(0.0), ticks.last().copied().unwrap_or(1.0));
    let y = |value: f64| {
        let part = match panel.scale {
            Scale::Linear => between(value, low, high),
            Scale::Log => between(value.max(low).ln(), low.ln(), high.ln()),
        };
        top + PANEL * (1.0 - part)
    };
    for tick in &ticks {
        let at = y(*tick);
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>",
            WIDTH - RIGHT
        );
        text(out, LEFT - 8.0, at + 4.0, "quiet", "end", &short(*tick));
    }
    for value in across {
        let _ = writeln!(
            out,
            "<line class=\"grid\" x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"{1}\" y2=\"{2}\"/>",
            x(*value),
            top + PANEL,
            top + PANEL + 4.0
        );
    }
    for line in &panel.lines {
        let class = line.class();
        let points: Vec<String> =
            line.points.iter().map(|(across, up)| format!("{:.1},{:.1}", x(*across), y(*up))).collect();
        let dashed = if line.is_dashed { " dashed" } else { "" };
        let _ = writeln!(out, "<polyline class=\"{class}{dashed}\" points=\"{}\"/>", points.join(" "));
        for (across, up) in &line.points {
            let _ =
                writeln!(out, "<circle class=\"{class}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.6\"/>", x(*across), y(*up));
        }
    }
    let mut ends: Vec<(f64, &Line)> =
        panel.lines.iter().filter_map(|line| Some((y(line.points.last()?.1), line))).collect();
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let heights = spread(ends.iter().map(|end| end.0).collect(), top + PANEL);
    for (height, (_, line)) in heights.iter().zip(&ends) {
        text(out, WIDTH - RIGHT + 8.0, height + 4.0, line.class(), "start", &line.label);
    }
}

impl Line {
    fn class(&self) -> &'static str {
        if self.is_ours { "ours" } else { "theirs" }
    }
}

/// Where `value` is on the way from `low` to `high`.
fn between(value: f64, low: f64, high: f64) -> f64 {
    if high > low { (value - low) / (high - low) } else { 0.5 }
}

/// Moves sorted heights apart, down first and then up from `lowest`.
fn spread(mut heights: Vec<f64>, lowest: f64) -> Vec<f64> {
    for at in 1..heights.len() {
        heights[at] = heights[at].max(heights[at - 1] + LABEL_APART);
    }
    let mut limit = lowest;
    for height in heights.iter_mut().rev() {
        *height = height.min(limit);
        limit = *height - LABEL_APART;
    }
    heights
}

/// Round values from zero to at least `most`, four to six of them.
fn linear_ticks(most: f64) -> Vec<f64> {
    let most = if most > 0.0 { most } else { 1.0 };
    let power = 10f64.powf((most / 5.0).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|times| times * power).into_iter().find(|step| most / step <= 5.0);
    let step = step.unwrap_or(power * 10.0);
    (0..=(most / step).ceil() as u32).map(|number| f64::from(number) * step).collect()
}

/// Powers of ten around `values`.
fn log_ticks(values: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(0.0, f64::max);
    if high == 0.0 {
        return vec![0.1, 1.0];
    }
    let first = low.log10().floor() as i32;
    let last = (high.log10().ceil() as i32).max(first + 1);
    (first..=last).map(|power| 10f64.powi(power)).collect()
}

/// A number as people write it beside an axis.
fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    match text.split_once('.') {
        None if text.len() > 3 => {
            let (front, back) = text.split_at(text.len() - 3);
            format!("{front},{back}")
        }
        _ => text.to_string(),
    }
}

fn text(out: &mut String, x: f64, y: f64, class: &str, anchor: &str, words: &str) {
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
        escaped(words)
    );
}

fn escaped(words: &str) -> String {
    words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_values() {
        for (most, ticks) in [
            (100.0, vec![0.0, 20.0, 40.0, 60.0, 80.0, 100.0]),
            (19_000.0, vec![0.0, 5000.0, 10_000.0, 15_000.0, 20_000.0]),
            (3.0, vec![0.0, 1.0, 2.0, 3.0]),
            (0.0, vec![0.0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        ] {
            let found: Vec<String> = linear_ticks(most).into_iter().map(short).collect();
            assert_eq!(found, ticks.into_iter().map(short).collect::<Vec<_>>(), "{most}");
        }
        for (values, ticks) in
            [(vec![0.3, 45.0], vec![0.1, 1.0, 10.0, 100.0]), (vec![1.0], vec![1.0, 10.0]), (vec![], vec![0.1, 1.0])]
        {
            let found: Vec<String> = log_ticks(values.iter().copied()).into_iter().map(short).collect();
            assert_eq!(found, ticks.into_iter().map(short).collect::<Vec<_>>(), "{values:?}");
        }
    }

    #[test]
    fn labels_do_not_touch() {
        for (heights, lowest, spread_heights) in [
            (vec![10.0, 12.0, 60.0], 100.0, vec![10.0, 24.0, 60.0]),
            (vec![95.0, 99.0], 100.0, vec![86.0, 100.0]),
            (vec![], 100.0, vec![]),
        ] {
            assert_eq!(spread(heights.clone(), lowest), spread_heights, "{heights:?}");
        }
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [(0.1, "0.1"), (1.0, "1"), (1000.0, "1,000"), (20_000.0, "20,000"), (0.25, "0.25")] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn one_step_can_be_drawn() {
        for points in [vec![(5.0, 1.0)], vec![(1.0, 0.0), (2.0, 0.0)], vec![]] {
            let line = Line { label: "x".into(), is_ours: true, is_dashed: false, points: points.clone() };
            let panel = Panel { title: "t".into(), scale: Scale::Log, lines: vec![line] };
            let drawn = draw("a", &["b".into(), "c".into()], &[panel], "d");
            assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{points:?}: {drawn}");
        }
    }
}
