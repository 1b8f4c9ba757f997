//! What an attack did, the bounds, and the printed table.

use std::fmt;

use bench_proxies::table::{self, Table};
use hostile::AttackReport;

use crate::containers::Memory;
use crate::victim::Noticed;

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// The attack and its ports.
    pub(crate) name: String,
    pub(crate) report: AttackReport,
    pub(crate) noticed: Noticed,
    /// The median wake beside the one before all attacks; `None` when a wake failed.
    pub(crate) wake: Option<f64>,
    /// The bound on it.
    pub(crate) slower_wake: f64,
    /// Whether activators that were replaced meanwhile did not report in time.
    pub(crate) late_reports: bool,
    pub(crate) restarts: usize,
    pub(crate) memory: Option<Memory>,
}

// === impl Outcome ===

impl Outcome {
    /// The bounds that were missed.
    pub(crate) fn missed(&self) -> Vec<&'static str> {
        let checks = [
            (self.noticed.failed > 0, "requests failed"),
            (self.wake.is_none(), "no wake"),
            (self.wake.is_some_and(|ratio| ratio > self.slower_wake), "slow wakes"),
            (self.late_reports, "late reports"),
            (self.restarts > 0, "restarts"),
            (self.memory.as_ref().is_none_or(|memory| memory.share() > 1.0), "memory"),
            (self.report.sent + self.report.opened + self.report.refused == 0, "no attack"),
        ];
        checks.into_iter().filter(|(missed, _)| *missed).map(|(_, name)| name).collect()
    }

    fn cells(&self) -> Vec<String> {
        let memory = self.memory.as_ref().map(|memory| {
            format!(
                "{} {} ({:.0} %)",
                memory.container,
                table::bytes(memory.most as f64),
                memory.share() * 100.0
            )
        });
        vec![
            self.name.clone(),
            table::count(self.report.held as f64),
            table::count((self.report.refused + self.report.ended) as f64),
            table::count(self.report.sent as f64),
            table::count(self.noticed.requests as f64),
            self.noticed.failed.to_string(),
            format!("{:.0} ms", self.noticed.slowest),
            self.wake_ratio(),
            self.restarts.to_string(),
            memory.unwrap_or_default(),
            self.result(),
        ]
    }

    fn wake_ratio(&self) -> String {
        self.wake.map_or("failed".to_owned(), |ratio| format!("{ratio:.2}"))
    }

    fn result(&self) -> String {
        let missed = self.missed();
        if missed.is_empty() { "ok".to_owned() } else { format!("MISSED: {}", missed.join(", ")) }
    }
}

/// A line while further attacks follow.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: wake × {}, {}", self.name, self.wake_ratio(), self.result())
    }
}

/// All lines as a table.
pub(crate) fn table(outcomes: &[Outcome]) -> Table {
    let headings = [
        "attack",
        "held",
        "turned away",
        "sent",
        "victim's requests",
        "failed",
        "slowest",
        "wake ×",
        "restarts",
        "fullest container",
        "",
    ];
    let mut table = Table::new(&headings);
    for outcome in outcomes {
        table.row(outcome.cells());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome() -> Outcome {
        Outcome {
            name: "idle activator:9090".to_owned(),
            report: AttackReport { opened: 10, ..AttackReport::default() },
            noticed: Noticed { requests: 200, failed: 0, slowest: 9.0 },
            wake: Some(2.0),
            slower_wake: 2.0,
            late_reports: false,
            restarts: 0,
            memory: Some(Memory { container: "activator".to_owned(), most: 10, limit: 10 }),
        }
    }

    #[test]
    fn meets_bounds_at_their_values() {
        assert_eq!(outcome().missed(), Vec::<&str>::new());
        assert!(table(&[outcome()]).to_string().contains("idle activator:9090"));
    }

    #[test]
    fn names_each_missed_bound() {
        let bad = Outcome {
            report: AttackReport::default(),
            noticed: Noticed { failed: 1, ..Noticed::default() },
            wake: Some(2.1),
            late_reports: true,
            restarts: 1,
            memory: Some(Memory { container: "activator".to_owned(), most: 11, limit: 10 }),
            ..outcome()
        };
        let missed = ["requests failed", "slow wakes", "late reports", "restarts", "memory", "no attack"];
        assert_eq!(bad.missed(), missed);
        assert_eq!(Outcome { wake: None, ..outcome() }.missed(), ["no wake"]);
    }
}
