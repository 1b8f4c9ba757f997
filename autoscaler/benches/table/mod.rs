//! The table that the benchmarks end with: what was measured, what it may be, and whether it is.

use std::process::ExitCode;

/// How a measurement compares with its bound.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Kept,
    /// Above the bound by no more than the noise of a shared machine.
    Noisy,
    Missed,
    /// There is no bound.
    Reported,
}

/// One line.
pub(crate) struct Row {
    pub(crate) what: &'static str,
    pub(crate) measured: f64,
    pub(crate) bound: Option<f64>,
    pub(crate) unit: &'static str,
    /// Factor by which the bound may be missed.
    pub(crate) noise: f64,
}

// === impl Row ===

impl Row {
    pub(crate) fn verdict(&self) -> Verdict {
        match self.bound {
            None => Verdict::Reported,
            Some(bound) if self.measured <= bound => Verdict::Kept,
            Some(bound) if self.measured <= bound * self.noise => Verdict::Noisy,
            Some(_) => Verdict::Missed,
        }
    }

    fn print(&self) {
        let measured = format!("{:.0} {}", self.measured, self.unit);
        let bound = self.bound.map_or_else(String::new, |bound| format!("{bound:.0} {}", self.unit));
        let verdict = match self.verdict() {
            Verdict::Kept => "kept",
            Verdict::Noisy => "above, within noise",
            Verdict::Missed => "MISSED",
            Verdict::Reported => "",
        };
        println!("{:<62}{measured:>12}{bound:>12}   {verdict}", self.what);
    }
}

/// Prints the lines; fails if a bound is missed.
pub(crate) fn print_rows(rows: &[Row]) -> ExitCode {
    rows.iter().for_each(Row::print);
    let missed = rows.iter().any(|row| row.verdict() == Verdict::Missed);
    if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
