//! The measured values and their bounds.

use std::fmt;

/// Rows of all scenarios.
#[derive(Debug, Default)]
pub(crate) struct Report {
    scenario: String,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    scenario: String,
    name: String,
    value: String,
    bound: String,
    met: bool,
}

// === impl Report ===

impl Report {
    /// Begins the rows of a scenario.
    pub(crate) fn begin(&mut self, scenario: String) {
        self.scenario = scenario;
    }

    /// A number of at most `bound`.
    pub(crate) fn count(&mut self, name: &str, value: usize, bound: usize) {
        self.row(name, value.to_string(), format!("at most {bound}"), value <= bound);
    }

    /// A number that must equal `bound`.
    pub(crate) fn exactly(&mut self, name: &str, value: i64, bound: i64) {
        self.row(name, value.to_string(), format!("{bound}"), value == bound);
    }

    /// A duration of at most `bound` milliseconds.
    pub(crate) fn time(&mut self, name: &str, ms: f64, bound: f64) {
        self.row(name, format!("{ms:.1} ms"), format!("at most {bound:.0} ms"), ms <= bound);
    }

    /// A ratio of at most `bound`.
    pub(crate) fn ratio(&mut self, name: &str, value: f64, bound: f64) {
        self.row(name, format!("{value:.2}"), format!("at most {bound:.2}"), value <= bound);
    }

    /// A value without a bound.
    pub(crate) fn note(&mut self, name: &str, value: String) {
        self.row(name, value, String::new(), true);
    }

    /// The scenario ended with an error.
    pub(crate) fn aborted(&mut self, error: &anyhow::Error) {
        self.row("scenario aborted", format!("{error:#}"), String::new(), false);
    }

    pub(crate) fn is_met(&self) -> bool {
        self.rows.iter().all(|row| row.met)
    }

    fn row(&mut self, name: &str, value: String, bound: String, met: bool) {
        println!("  {name}: {value} {bound}{}", if met { "" } else { "  MISSED" });
        self.rows.push(Row { scenario: self.scenario.clone(), name: name.to_owned(), value, bound, met });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            let Row { scenario, name, value, bound, met } = row;
            let mark = if *met { "" } else { "  MISSED" };
            writeln!(f, "{scenario:<10} {name:<58} {value:>12}  {bound}{mark}")?;
        }
        let missed = self.rows.iter().filter(|row| !row.met).count();
        match missed {
            0 => writeln!(f, "\nverdict: ok"),
            missed => writeln!(f, "\nverdict: FAILED. Bounds missed: {missed}"),
        }
    }
}
