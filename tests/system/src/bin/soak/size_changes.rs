//! The changes of a workload's size: their writers, whether an event explains each change of Rouse,
//! and whether one writer reversed another's change.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use system_tests::timeline::{Change, TimelineEntry};

use crate::report::Report;

/// A size that returns to its former value within so many milliseconds is a conflict of writers,
/// not a change of load.
const CONFLICT_MS: f64 = 5_000.0;
/// So is a change that another writer reverses within the HPA's period.
const PERIOD_MS: f64 = 15_000.0;
/// The two expected writers. A size that went through 0 has no recorded writer and counts as
/// Rouse's.
const ROUSE: &str = "zero-scaler";
const HPA: &str = "kube-controller-manager";
/// Names in the report, public for scenarios that have bounds of their own.
pub(crate) const UNEXPECTED_WRITERS: &str = "sizes written by neither the HPA nor Rouse";
pub(crate) const UNEXPLAINED: &str = "size changes by Rouse without an event, or the reverse";

/// The sizes of a workload in the order in which they were written.
#[derive(Debug, Default)]
pub(crate) struct SizeChanges {
    written: Vec<Written>,
    /// Number of events that explain a change.
    explained: usize,
}

#[derive(Debug)]
struct Written {
    /// Unix milliseconds.
    at: f64,
    size: i32,
    by: Option<String>,
}

/// Violations of what all scenarios require. Those of several workloads or periods can be added.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SizeViolations {
    pub(crate) by_unexpected_writers: usize,
    pub(crate) unexplained: usize,
    pub(crate) flip_flops: usize,
}

// === impl SizeChanges ===

impl SizeChanges {
    pub(crate) fn of(entries: &[TimelineEntry]) -> Self {
        let written = entries.iter().filter_map(|entry| match &entry.change {
            Change::Scaled { replicas, by } => {
                Some(Written { at: entry.at_ms, size: *replicas, by: by.clone() })
            }
            _ => None,
        });
        let explained = entries.iter().filter(|entry| matches!(entry.change, Change::EventReported { .. }));
        Self { written: written.collect(), explained: explained.count() }
    }

    pub(crate) fn changes(&self) -> usize {
        self.written.len()
    }

    pub(crate) fn largest(&self) -> i32 {
        self.written.iter().map(|written| written.size).max().unwrap_or(0)
    }

    /// When a size of at least `size` was first written, in Unix milliseconds.
    pub(crate) fn reached(&self, size: i32) -> Option<f64> {
        self.written.iter().find(|written| written.size >= size).map(|written| written.at)
    }

    /// The size at a time in Unix milliseconds.
    pub(crate) fn at(&self, ms: f64) -> Option<i32> {
        self.written.iter().take_while(|written| written.at <= ms).last().map(|written| written.size)
    }

    /// Sizes that were reversed: a, b, a within seconds, or up by one writer and down by the other
    /// within an HPA period.
    pub(crate) fn flip_flops(&self) -> usize {
        let back = |three: &&[Written]| match three {
            [a, b, c] => {
                let (reversed, apart) = ((b.size > a.size) != (c.size > b.size), c.at - b.at);
                let other_writer = b.by.is_some() && c.by.is_some() && b.by != c.by;
                (a.size == c.size && apart < CONFLICT_MS) || (reversed && other_writer && apart < PERIOD_MS)
            }
            _ => false,
        };
        self.written.windows(3).filter(back).count()
    }

    /// Changes that neither the HPA nor Rouse wrote.
    pub(crate) fn by_unexpected_writers(&self) -> usize {
        let unexpected = |by: &str| ![ROUSE, HPA].contains(&by);
        self.written.iter().filter(|written| written.by.as_deref().is_some_and(unexpected)).count()
    }

    /// The difference between the number of Rouse's changes and the number of events that explain
    /// them.
    fn unexplained(&self) -> usize {
        let by_rouse = self.written.iter().filter(|written| written.by.as_deref() != Some(HPA)).count();
        by_rouse.abs_diff(self.explained)
    }

    /// The number of writes by each writer, as text.
    pub(crate) fn writers(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for written in &self.written {
            *counts.entry(written.by.as_deref().unwrap_or("not recorded")).or_default() += 1;
        }
        counts.iter().map(|(by, count)| format!("{by} {count}")).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn violations(&self) -> SizeViolations {
        SizeViolations {
            by_unexpected_writers: self.by_unexpected_writers(),
            unexplained: self.unexplained(),
            flip_flops: self.flip_flops(),
        }
    }

    /// Adds the writers and the violations to the report.
    pub(crate) fn add_to(&self, report: &mut Report) {
        report.note("writers of the size", self.writers());
        self.violations().add_to(report, "");
    }
}

// === impl SizeViolations ===

impl SizeViolations {
    /// Adds the violations to the report, with a bound of none; each row ends with `when`.
    pub(crate) fn add_to(&self, report: &mut Report, when: &str) {
        report.count(&format!("{UNEXPECTED_WRITERS}{when}"), self.by_unexpected_writers, 0);
        report.count(&format!("{UNEXPLAINED}{when}"), self.unexplained, 0);
        report.count(&format!("sizes reversed{when}"), self.flip_flops, 0);
    }
}

impl AddAssign for SizeViolations {
    fn add_assign(&mut self, other: Self) {
        self.by_unexpected_writers += other.by_unexpected_writers;
        self.unexplained += other.unexplained;
        self.flip_flops += other.flip_flops;
    }
}
