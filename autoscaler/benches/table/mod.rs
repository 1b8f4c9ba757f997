//! Result table of the benchmarks: measured value, bound, and comparison.

use std::process::ExitCode;

/// Comparison of a measurement with its bound.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoundResult {
    Met,
    /// Above the bound by no more than the noise of a shared machine.
    Noisy,
    Missed,
    /// The row has no bound.
    Unbounded,
}

/// A row of the table.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) measured: f64,
    pub(crate) bound: Option<f64>,
    pub(crate) unit: &'static str,
    /// Factor by which shared-machine noise may exceed the bound.
    pub(crate) noise: f64,
}

// === impl Row ===

impl Row {
    pub(crate) fn compare(&self) -> BoundResult {
        match self.bound {
            None => BoundResult::Unbounded,
            Some(bound) if self.measured <= bound => BoundResult::Met,
            Some(bound) if self.measured <= bound * self.noise => BoundResult::Noisy,
            Some(_) => BoundResult::Missed,
        }
    }

    fn print(&self) {
        let measured = format!("{:.0} {}", self.measured, self.unit);
        let bound = self.bound.map_or_else(String::new, |bound| format!("{bound:.0} {}", self.unit));
        let result = match self.compare() {
            BoundResult::Met => "met",
            BoundResult::Noisy => "above, within noise",
            BoundResult::Missed => "MISSED",
            BoundResult::Unbounded => "",
        };
        println!("{:<62}{measured:>12}{bound:>12}   {result}", self.name);
    }
}

/// Prints the rows; fails if a bound is missed.
pub(crate) fn print_rows(rows: &[Row]) -> ExitCode {
    rows.iter().for_each(Row::print);
    let missed = rows.iter().any(|row| row.compare() == BoundResult::Missed);
    if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
