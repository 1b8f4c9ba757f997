//! Plot: load, panic and pods over time, in characters.
//!
//! ```text
//!  decisions ─► Timeline (bounded, maxima kept) ─► columns ─► panels of load and pods, times
//! ```
//!
//! There are two panels, because load and pods have different scales. Each panel has an area and a
//! line over it, which are distinguishable without colours; only a terminal gets colours. A column
//! shows the maximum of its time, so a short spike keeps its height. A column without a decision
//! repeats the last one.

mod canvas;
mod panel;
mod timeline;

use std::io::{self, Write};

use autoscaler::scaling::replay::ReplayedDecision;
use canvas::{Cell, Ink, write_row};
use timeline::{Column, Timeline};

use crate::load::simulate::decision_writer::DecisionWriter;
use crate::load::simulate::summary::SimulationSummary;
use autoscaler::scaling::readable::ClockTime;

/// Narrowest plot (the legend fits) and widest plot, in columns.
const MIN_COLUMNS: usize = 48;
const MAX_COLUMNS: usize = 400;
/// Columns between two labels of the time axis.
const TIME_STEP: usize = 18;

/// Collects decisions, and draws them at the end.
pub(super) struct Plot {
    /// Columns for the data.
    columns: usize,
    coloured: bool,
    timeline: Timeline,
    summary: SimulationSummary,
}

// === impl Plot ===

impl Plot {
    /// A plot of this width in columns, clamped to the limits.
    pub(super) fn new(width: usize, coloured: bool) -> Self {
        let columns = width.clamp(MIN_COLUMNS, MAX_COLUMNS) - canvas::MARGIN;
        Self { columns, coloured, timeline: Timeline::default(), summary: SimulationSummary::default() }
    }

    fn draw(&self, columns: &[Column], out: &mut dyn Write) -> io::Result<()> {
        self.panel("load", ["stable average", "panic average"], columns, |s| (s.stable, s.panic), out)?;
        self.band("panic", columns, |c| c.panicking, ('█', Ink::Panic), out)?;
        if columns.iter().any(|c| c.without_data) {
            self.band("no data", columns, |c| c.without_data, ('×', Ink::Frame), out)?;
        }
        self.panel("pods", ["ready", "desired"], columns, |s| (s.ready, s.desired), out)?;
        self.times(out)
    }

    fn panel(
        &self,
        title: &str,
        [area, line]: [&str; 2],
        columns: &[Column],
        values: impl Fn(&timeline::Sample) -> (f64, f64),
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut legend = canvas::text(&format!("  █ {area}   ─ {line}"));
        for cell in &mut legend {
            cell.ink = match cell.glyph {
                '█' => Ink::Area,
                '─' => Ink::Line,
                _ => Ink::Text,
            };
        }
        write_row(title, "", &legend, self.coloured, out)?;
        let values: Vec<_> = columns.iter().map(|column| column.peak.as_ref().map(&values)).collect();
        panel::draw(&values, |label, axis, cells| write_row(label, axis, cells, self.coloured, out))
    }

    fn band(
        &self,
        name: &str,
        columns: &[Column],
        is_on: impl Fn(&Column) -> bool,
        (glyph, ink): (char, Ink),
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let cells: Vec<_> = columns
            .iter()
            .map(|column| if is_on(column) { Cell { glyph, ink } } else { Cell::default() })
            .collect();
        write_row(name, "", &cells, self.coloured, out)
    }

    /// Draws the time axis, with labels where their columns begin.
    fn times(&self, out: &mut dyn Write) -> io::Result<()> {
        let steps = (self.columns / TIME_STEP).max(1);
        let mut line = String::new();
        for step in 0..=steps {
            let column = step * self.columns / steps;
            let time = ClockTime(self.timeline.time_of(column, self.columns).round()).to_string();
            // The last label ends at the end of the axis.
            let begin = column.min(self.columns.saturating_sub(time.len()));
            if begin >= line.len() {
                line.push_str(&" ".repeat(begin - line.len()));
                line.push_str(&time);
            }
        }
        write_row("", "", &canvas::text(&line), self.coloured, out)
    }
}

impl DecisionWriter for Plot {
    fn write(&mut self, decision: &ReplayedDecision, _: &mut dyn Write) -> io::Result<()> {
        self.summary.count(decision);
        self.timeline.add(decision);
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let columns = self.timeline.columns(self.columns);
        if !columns.is_empty() {
            self.draw(&columns, out)?;
            writeln!(out)?;
        }
        writeln!(out, "{}", self.summary)
    }
}

#[cfg(test)]
mod tests;
