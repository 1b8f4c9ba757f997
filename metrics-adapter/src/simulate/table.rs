//! Table: one row a decision, for people.
//!
//! Rows that repeat the one before are folded into one, so that an idle night is not a thousand lines; a new spec stands
//! between the rows.

use std::io::{self, Write};

use autoscaler::decider::Verdict;
use autoscaler::replay::Outcome;

use super::summary::Summary;
use super::{Report, spec_change};
use crate::readable::{Clock, Number};
use crate::reason::Reason;

/// Writes a row at once, unless it may be folded.
#[derive(Default)]
pub(super) struct Table {
    summary: Summary,
    last: Option<Outcome>,
    /// Rows like the last one written, but for the time, that were not.
    folded: u64,
}

// === impl Table ===

impl Report for Table {
    fn outcome(&mut self, outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
        self.summary.count(outcome);
        if self.last.as_ref().is_some_and(|last| looks_like(last, outcome)) {
            self.folded += 1;
        } else {
            self.unfold(out)?;
            self.head(outcome, out)?;
            row(outcome, out)?;
        }
        self.last = Some(outcome.clone());
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

impl Table {
    /// What stands before a row: the names of the columns, or what changed in the spec.
    fn head(&self, outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
        let Some(last) = &self.last else {
            return columns(["time", "stable", "panic", "ready", "desired", "mode", "burst", "why"], out);
        };
        let changes = spec_change::between(last, outcome);
        if changes.is_empty() { Ok(()) } else { writeln!(out, "{:>9}  spec: {changes}", "") }
    }

    fn unfold(&mut self, out: &mut dyn Write) -> io::Result<()> {
        match (&self.last, std::mem::take(&mut self.folded)) {
            (_, 0) | (None, _) => Ok(()),
            (Some(last), 1) => row(last, out),
            (Some(last), folded) => {
                writeln!(out, "{:>9}  … {folded} more like it, until {}", "", Clock(last.t))
            }
        }
    }
}

fn row(outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let cell = |show: fn(&Verdict) -> String| outcome.verdict.as_ref().map_or_else(|| "-".to_owned(), show);
    columns(
        [
            &Clock(outcome.t).to_string(),
            &cell(|v| format!("{:.2}", Number(v.averages.stable))),
            &cell(|v| format!("{:.2}", Number(v.averages.panic))),
            &outcome.ready.to_string(),
            &cell(|v| v.desired.to_string()),
            if outcome.panicking { "panic" } else { "stable" },
            &cell(|v| v.excess_burst_capacity.to_string()),
            &Reason::from(outcome).to_string(),
        ],
        out,
    )
}

fn columns(cells: [&str; 8], out: &mut dyn Write) -> io::Result<()> {
    let [time, stable, panic, ready, desired, mode, burst, why] = cells;
    writeln!(out, "{time:>9} {stable:>10} {panic:>10} {ready:>6} {desired:>8}  {mode:<6} {burst:>8}  {why}")
}

/// Whether a reader would see no difference but time.
fn looks_like(last: &Outcome, next: &Outcome) -> bool {
    *last == Outcome { t: last.t, calm: last.calm, ..next.clone() }
}
