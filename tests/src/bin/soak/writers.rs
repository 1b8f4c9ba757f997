//! Who changed sizes, and whether anybody took back what another had just written.

use std::collections::BTreeMap;

use system_tests::timeline::{Entry, Happening};

use crate::report::Report;

/// A size that goes back to what it was within so many milliseconds was a fight, not a change of load.
const FIGHT_MS: f64 = 5_000.0;

/// Sizes in the order in which they were written.
#[derive(Debug, Default)]
pub(crate) struct Sizes(Vec<(f64, i32, Option<String>)>);

// === impl Sizes ===

impl Sizes {
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let sizes = entries.iter().filter_map(|entry| match &entry.what {
            Happening::Scaled { replicas, by } => Some((entry.at_ms, *replicas, by.clone())),
            _ => None,
        });
        Self(sizes.collect())
    }

    pub(crate) fn changes(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn most(&self) -> i32 {
        self.0.iter().map(|(_, size, _)| *size).max().unwrap_or(0)
    }

    /// The moment at which a size of at least `size` was first written, in Unix milliseconds.
    pub(crate) fn reached(&self, size: i32) -> Option<f64> {
        self.0.iter().find(|(_, written, _)| *written >= size).map(|(at, ..)| *at)
    }

    /// The size that was in force at a moment, in Unix milliseconds.
    pub(crate) fn at(&self, ms: f64) -> Option<i32> {
        self.0.iter().take_while(|(at, ..)| *at <= ms).last().map(|(_, size, _)| *size)
    }

    /// Sizes that were taken back at once: a, b, a within seconds.
    pub(crate) fn flip_flops(&self) -> usize {
        let back = |three: &&[(f64, i32, Option<String>)]| match three {
            [(_, a, _), (then, ..), (now, b, _)] => a == b && now - then < FIGHT_MS,
            _ => false,
        };
        self.0.windows(3).filter(back).count()
    }

    /// Who wrote how often, in words.
    pub(crate) fn writers(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (.., by) in &self.0 {
            *counts.entry(by.as_deref().unwrap_or("not said")).or_default() += 1;
        }
        counts.iter().map(|(by, count)| format!("{by} {count}")).collect::<Vec<_>>().join(", ")
    }

    /// Adds who wrote to the report, and that nobody fought.
    pub(crate) fn tell(&self, report: &mut Report) {
        report.note("writers of the size", self.writers());
        report.count("sizes taken back within 5 s", self.flip_flops(), 0);
    }
}
