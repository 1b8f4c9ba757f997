//! Panel: one quantity of all runs over time.

use std::fmt::Write;

use super::scale::Scale;

/// Edges of the plotted area, and its distance from the panel's top.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 852.0;
const TITLE: f64 = 24.0;
const HEIGHT: f64 = 126.0;
/// Most labels of the time axis.
const MOST_LABELS: f64 = 8.0;

/// A quantity over time.
pub(super) struct Panel<'a> {
    title: &'static str,
    unit: &'static str,
    /// End of the time axis, in seconds.
    until: f64,
    lines: Vec<Line<'a>>,
    /// A dotted line across.
    limit: Option<f64>,
    scale: Scale,
}

/// The line of one run.
pub(super) struct Line<'a> {
    /// (seconds, value), in order of time.
    pub(super) points: &'a [(f64, f64)],
    /// Whether a value holds until the next one.
    pub(super) is_stepped: bool,
}

// === impl Panel ===

impl<'a> Panel<'a> {
    /// A panel with a scale for all its values.
    pub(super) fn new(
        title: &'static str,
        unit: &'static str,
        until: f64,
        lines: Vec<Line<'a>>,
        limit: Option<f64>,
    ) -> Self {
        let values = lines.iter().flat_map(|line| line.points.iter().map(|(_, value)| *value));
        let scale = Scale::of(values.chain(limit));
        Self { title, unit, until, lines, limit, scale }
    }

    /// Draws the panel, with its top at `top`.
    pub(super) fn draw(&self, svg: &mut String, top: f64) {
        let _ =
            writeln!(svg, "  <text class=\"num\" x=\"{LEFT}\" y=\"{:.0}\">{}</text>", top + 14.0, self.title);
        for tick in self.scale.ticks() {
            let y = self.y(top, tick);
            let _ = writeln!(
                svg,
                "  <path class=\"grid\" d=\"M{LEFT} {y:.1}H{RIGHT}\"/>\
                 <text class=\"num end\" x=\"{:.0}\" y=\"{:.1}\">{tick}{}</text>",
                LEFT - 8.0,
                y + 4.5,
                self.unit
            );
        }
        if let Some(limit) = self.limit {
            let _ =
                writeln!(svg, "  <path class=\"limit\" d=\"M{LEFT} {:.1}H{RIGHT}\"/>", self.y(top, limit));
        }
        for (index, line) in self.lines.iter().enumerate() {
            let _ = writeln!(svg, "  <path class=\"run run{index}\" d=\"{}\"/>", self.path(top, line));
        }
    }

    /// Draws the labels of the time axis, which all panels share.
    pub(super) fn draw_time_axis(&self, svg: &mut String, top: f64) {
        let minutes = self.until / 60.0;
        let step = (minutes / MOST_LABELS / 5.0).ceil().max(1.0) * 5.0;
        let mut minute = 0.0;
        while minute <= minutes {
            let x = self.x(minute * 60.0);
            let y = top + 8.0;
            let _ =
                writeln!(svg, "  <text class=\"num middle\" x=\"{x:.1}\" y=\"{y:.0}\">{minute} min</text>");
            minute += step;
        }
    }

    fn path(&self, top: f64, line: &Line<'_>) -> String {
        let mut path = String::new();
        for (at, value) in line.points {
            let (x, y) = (self.x(*at), self.y(top, *value));
            let _ = match (path.is_empty(), line.is_stepped) {
                (true, _) => write!(path, "M{x:.1} {y:.1}"),
                (false, true) => write!(path, "H{x:.1}V{y:.1}"),
                (false, false) => write!(path, "L{x:.1} {y:.1}"),
            };
        }
        if line.is_stepped && !path.is_empty() {
            let _ = write!(path, "H{RIGHT}");
        }
        path
    }

    fn x(&self, at: f64) -> f64 {
        LEFT + (RIGHT - LEFT) * (at / self.until).min(1.0)
    }

    fn y(&self, top: f64, value: f64) -> f64 {
        top + TITLE + HEIGHT * (1.0 - self.scale.place(value))
    }
}
