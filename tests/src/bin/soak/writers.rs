//! Who changed sizes, whether each change of ours was told by one event, and whether anybody took back what another had just written.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use system_tests::timeline::{Entry, Happening};

use crate::report::Report;

/// A size that goes back to what it was within so many milliseconds was a fight, not a change of load.
const FIGHT_MS: f64 = 5_000.0;
/// So was a change that another writer turned round within the HPA's period.
const PERIOD_MS: f64 = 15_000.0;
/// The two that may write; a size that went through 0 has no writer, and is ours as well.
const OURS: &str = "zero-scaler";
const THE_HPA: &str = "kube-controller-manager";
/// What the report calls them. Public for the scenarios that have bounds of their own.
pub(crate) const BY_STRANGERS: &str = "sizes written by others than the HPA and us";
pub(crate) const UNTOLD: &str = "our changes of size without their event, or the reverse";

/// Sizes in the order in which they were written.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    written: Vec<Written>,
    /// Changes that events told of.
    explained: usize,
}

#[derive(Debug)]
struct Written {
    /// Unix milliseconds.
    at: f64,
    size: i32,
    by: Option<String>,
}

/// How often somebody did with sizes what nobody should. That of several workloads or times can be added.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conduct {
    pub(crate) by_strangers: usize,
    pub(crate) untold: usize,
    pub(crate) flip_flops: usize,
}

// === impl Sizes ===

impl Sizes {
    pub(crate) fn of(entries: &[Entry]) -> Self {
        let written = entries.iter().filter_map(|entry| match &entry.what {
            Happening::Scaled { replicas, by } => {
                Some(Written { at: entry.at_ms, size: *replicas, by: by.clone() })
            }
            _ => None,
        });
        let explained = entries.iter().filter(|entry| matches!(entry.what, Happening::Explained { .. }));
        Self { written: written.collect(), explained: explained.count() }
    }

    pub(crate) fn changes(&self) -> usize {
        self.written.len()
    }

    pub(crate) fn most(&self) -> i32 {
        self.written.iter().map(|written| written.size).max().unwrap_or(0)
    }

    /// The moment at which a size of at least `size` was first written, in Unix milliseconds.
    pub(crate) fn reached(&self, size: i32) -> Option<f64> {
        self.written.iter().find(|written| written.size >= size).map(|written| written.at)
    }

    /// The size that was in force at a moment, in Unix milliseconds.
    pub(crate) fn at(&self, ms: f64) -> Option<i32> {
        self.written.iter().take_while(|written| written.at <= ms).last().map(|written| written.size)
    }

    /// Sizes that were taken back at once: a, b, a within seconds, or up by one writer and down by the other within a period.
    pub(crate) fn flip_flops(&self) -> usize {
        let back = |three: &&[Written]| match three {
            [a, b, c] => {
                let (turned, apart) = ((b.size > a.size) != (c.size > b.size), c.at - b.at);
                let others = b.by.is_some() && c.by.is_some() && b.by != c.by;
                (a.size == c.size && apart < FIGHT_MS) || (turned && others && apart < PERIOD_MS)
            }
            _ => false,
        };
        self.written.windows(3).filter(back).count()
    }

    /// Changes that neither the HPA nor we wrote.
    pub(crate) fn by_strangers(&self) -> usize {
        let stranger = |by: &str| ![OURS, THE_HPA].contains(&by);
        self.written.iter().filter(|written| written.by.as_deref().is_some_and(stranger)).count()
    }

    /// By how many our changes and the events that tell of them differ.
    fn untold(&self) -> usize {
        let ours = self.written.iter().filter(|written| written.by.as_deref() != Some(THE_HPA)).count();
        ours.abs_diff(self.explained)
    }

    /// Who wrote how often, in words.
    pub(crate) fn writers(&self) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for written in &self.written {
            *counts.entry(written.by.as_deref().unwrap_or("not said")).or_default() += 1;
        }
        counts.iter().map(|(by, count)| format!("{by} {count}")).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn conduct(&self) -> Conduct {
        Conduct { by_strangers: self.by_strangers(), untold: self.untold(), flip_flops: self.flip_flops() }
    }

    /// Adds who wrote to the report, that each told of it, and that nobody fought.
    pub(crate) fn tell(&self, report: &mut Report) {
        report.note("writers of the size", self.writers());
        self.conduct().tell(report, "");
    }
}

// === impl Conduct ===

impl Conduct {
    /// Adds to the report that there was nothing of it; each line ends with `when`.
    pub(crate) fn tell(&self, report: &mut Report, when: &str) {
        report.count(&format!("{BY_STRANGERS}{when}"), self.by_strangers, 0);
        report.count(&format!("{UNTOLD}{when}"), self.untold, 0);
        report.count(&format!("sizes taken back{when}"), self.flip_flops, 0);
    }
}

impl AddAssign for Conduct {
    fn add_assign(&mut self, other: Self) {
        self.by_strangers += other.by_strangers;
        self.untold += other.untold;
        self.flip_flops += other.flip_flops;
    }
}
