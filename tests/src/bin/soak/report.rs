//! What was measured, and against which bound.

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
    what: String,
    value: String,
    bound: String,
    met: bool,
}

// === impl Report ===

impl Report {
    /// The rows that follow are of this scenario.
    pub(crate) fn begin(&mut self, scenario: String) {
        self.scenario = scenario;
    }

    /// A number of things that must not be more than `bound`.
    pub(crate) fn count(&mut self, what: &str, value: usize, bound: usize) {
        self.row(what, value.to_string(), format!("at most {bound}"), value <= bound);
    }

    /// Something that must be exactly so.
    pub(crate) fn exactly(&mut self, what: &str, value: i64, bound: i64) {
        self.row(what, value.to_string(), format!("{bound}"), value == bound);
    }

    /// Milliseconds that must not be more than `bound`.
    pub(crate) fn time(&mut self, what: &str, ms: f64, bound: f64) {
        self.row(what, format!("{ms:.1} ms"), format!("at most {bound:.0} ms"), ms <= bound);
    }

    /// A ratio that must not be more than `bound`.
    pub(crate) fn ratio(&mut self, what: &str, value: f64, bound: f64) {
        self.row(what, format!("{value:.2}"), format!("at most {bound:.2}"), value <= bound);
    }

    /// Something to be seen, without a bound.
    pub(crate) fn note(&mut self, what: &str, value: String) {
        self.row(what, value, String::new(), true);
    }

    /// The scenario did not come to its end.
    pub(crate) fn broken(&mut self, error: &anyhow::Error) {
        self.row("it came to its end", format!("{error:#}"), String::new(), false);
    }

    pub(crate) fn is_met(&self) -> bool {
        self.rows.iter().all(|row| row.met)
    }

    fn row(&mut self, what: &str, value: String, bound: String, met: bool) {
        println!("  {what}: {value} {bound}{}", if met { "" } else { "  MISSED" });
        self.rows.push(Row { scenario: self.scenario.clone(), what: what.to_owned(), value, bound, met });
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            let Row { scenario, what, value, bound, met } = row;
            let mark = if *met { "" } else { "  MISSED" };
            writeln!(f, "{scenario:<10} {what:<58} {value:>12}  {bound}{mark}")?;
        }
        let missed = self.rows.iter().filter(|row| !row.met).count();
        match missed {
            0 => writeln!(f, "\nverdict: ok"),
            missed => writeln!(f, "\nverdict: FAILED. Bounds missed: {missed}"),
        }
    }
}
