//! DecisionTable: one row per decision, for reading in a terminal.
//!
//! Repeated rows are folded into one, so that an idle night is not a thousand lines. A changed spec
//! has a line of its own between the rows.

use std::io::{self, Write};

use autoscaler::scaling::decider::ScaleResult;
use autoscaler::scaling::replay::ReplayedDecision;

use crate::load::simulate::decision_writer::DecisionWriter;
use crate::load::simulate::spec_change::spec_change;
use crate::load::simulate::summary::SimulationSummary;
use autoscaler::scaling::decision_reason::DecisionReason;
use autoscaler::scaling::readable::{ClockTime, CompactNumber};

/// Writes a row immediately, unless it may be folded.
#[derive(Default)]
pub(super) struct DecisionTable {
    summary: SimulationSummary,
    last: Option<ReplayedDecision>,
    /// Rows not written because they differ from the last written one only in time.
    folded: u64,
}

// === impl DecisionTable ===

impl DecisionWriter for DecisionTable {
    fn write(&mut self, decision: &ReplayedDecision, out: &mut dyn Write) -> io::Result<()> {
        self.summary.count(decision);
        if self.last.as_ref().is_some_and(|last| differs_only_in_time(last, decision)) {
            self.folded += 1;
        } else {
            self.unfold(out)?;
            self.write_heading(decision, out)?;
            row(decision, out)?;
        }
        self.last = Some(decision.clone());
        Ok(())
    }

    fn end(&mut self, out: &mut dyn Write) -> io::Result<()> {
        self.unfold(out)?;
        if self.last.is_some() {
            writeln!(out)?;
        }
        writeln!(out, "{}", self.summary)
    }
}

impl DecisionTable {
    /// Writes the lines before a row: the column names, or the changes of the spec.
    fn write_heading(&self, decision: &ReplayedDecision, out: &mut dyn Write) -> io::Result<()> {
        let Some(last) = &self.last else {
            return columns(["time", "stable", "panic", "ready", "desired", "mode", "burst", "reason"], out);
        };
        let changes = spec_change(last, decision);
        if changes.is_empty() { Ok(()) } else { writeln!(out, "{:>9}  spec: {changes}", "") }
    }

    fn unfold(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match (&self.last, std::mem::take(&mut self.folded)) {
            (_, 0) | (None, _) => Ok(()),
            (Some(last), 1) => row(last, out),
            (Some(last), folded) => {
                writeln!(out, "{:>9}  … {folded} similar rows, until {}", "", ClockTime(last.t))
            }
        }
    }
}

fn row(decision: &ReplayedDecision, out: &mut dyn Write) -> io::Result<()> {
    let cell =
        |show: fn(&ScaleResult) -> String| decision.result.as_ref().map_or_else(|| "-".to_owned(), show);
    columns(
        [
            &ClockTime(decision.t).to_string(),
            &cell(|v| format!("{:.2}", CompactNumber(v.averages.stable))),
            &cell(|v| format!("{:.2}", CompactNumber(v.averages.panic))),
            &decision.ready.to_string(),
            &cell(|v| v.desired.to_string()),
            if decision.panicking { "panic" } else { "stable" },
            &cell(|v| v.excess_burst_capacity.to_string()),
            &DecisionReason::from(decision).to_string(),
        ],
        out,
    )
}

fn columns(cells: [&str; 8], out: &mut dyn Write) -> io::Result<()> {
    let [time, stable, panic, ready, desired, mode, burst, reason] = cells;
    writeln!(
        out,
        "{time:>9} {stable:>10} {panic:>10} {ready:>6} {desired:>8}  {mode:<6} {burst:>8}  {reason}"
    )
}

fn differs_only_in_time(last: &ReplayedDecision, next: &ReplayedDecision) -> bool {
    *last == ReplayedDecision { t: last.t, calm: last.calm, ..next.clone() }
}
