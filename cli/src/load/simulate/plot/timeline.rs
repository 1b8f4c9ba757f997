//! Timeline: decisions over time, in bounded memory.
//!
//! Time is divided into bins of equal width. When the bins run out, neighbours are merged and keep
//! the larger values, so that a later resampling to columns still finds every maximum.

use autoscaler::scaling::replay::ReplayedDecision;

/// Most bins: more than twice the columns of the widest plot, so that every column has a bin.
const BINS: usize = 2048;

/// Decisions over time.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    bins: Vec<Option<Bin>>,
    /// Milliseconds in a bin: a power of two.
    width: u64,
    /// Time of the first decision, in milliseconds.
    start: u64,
    /// Time from it to the last one.
    span: u64,
}

/// The plotted values of one decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub(super) stable: f64,
    pub(super) panic: f64,
    pub(super) ready: f64,
    pub(super) desired: f64,
}

/// The plotted values of one column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Column {
    /// The maximum of each value; `None` without a decision.
    pub(super) peak: Option<Sample>,
    pub(super) panicking: bool,
    pub(super) without_data: bool,
}

/// One bin: its maxima, and its last decision, which holds until the next one.
#[derive(Clone, Copy, Debug)]
struct Bin {
    all: Column,
    last: Column,
}

// === impl Timeline ===

impl Timeline {
    pub(super) fn add(&mut self, decision: &ReplayedDecision) {
        // Trace times are not negative and have milliseconds.
        let at = (decision.t * 1000.0).round() as u64;
        if self.bins.is_empty() {
            (self.start, self.width) = (at, 1);
        }
        self.span = at.saturating_sub(self.start);
        while self.span / self.width >= BINS as u64 {
            self.coarsen();
        }
        let index = (self.span / self.width) as usize;
        if self.bins.len() <= index {
            self.bins.resize(index + 1, None);
        }
        if let Some(bin) = self.bins.get_mut(index) {
            *bin = merged(*bin, Some(Bin::from(decision)));
        }
    }

    /// Resamples the whole time to `count` columns; none without decisions.
    pub(super) fn columns(&self, count: usize) -> Vec<Column> {
        let mut bins: Vec<Option<Bin>> = vec![None; if self.bins.is_empty() { 0 } else { count }];
        for (index, bin) in (0u64..).zip(&self.bins) {
            let column = index * self.width * count as u64 / (self.span + 1);
            if let Some(slot) = bins.get_mut(column as usize) {
                *slot = merged(*slot, *bin);
            }
        }
        let mut held = None;
        bins.into_iter()
            .filter_map(|bin| {
                let shown = bin.map(|bin| bin.all).or(held);
                held = bin.map(|bin| bin.last).or(held);
                shown
            })
            .collect()
    }

    /// Start of a column out of `count`, in seconds of the trace.
    pub(super) fn time_of(&self, column: usize, count: usize) -> f64 {
        let share = column as f64 / count.max(1) as f64;
        (self.start as f64 + self.span as f64 * share) / 1000.0
    }

    fn coarsen(&mut self) {
        self.bins = self.bins.chunks(2).map(|pair| pair.iter().copied().fold(None, merged)).collect();
        self.width *= 2;
    }
}

// === impl Bin ===

impl From<&ReplayedDecision> for Bin {
    fn from(decision: &ReplayedDecision) -> Self {
        let peak = decision.result.map(|result| Sample {
            stable: result.averages.stable,
            panic: result.averages.panic,
            ready: decision.ready.into(),
            desired: result.desired.into(),
        });
        let moment = Column { peak, panicking: decision.panicking, without_data: peak.is_none() };
        Self { all: moment, last: moment }
    }
}

fn merged(earlier: Option<Bin>, later: Option<Bin>) -> Option<Bin> {
    let (Some(a), Some(b)) = (earlier, later) else { return earlier.or(later) };
    let all = Column {
        peak: largest(a.all.peak, b.all.peak),
        panicking: a.all.panicking || b.all.panicking,
        without_data: a.all.without_data || b.all.without_data,
    };
    Some(Bin { all, last: b.last })
}

fn largest(a: Option<Sample>, b: Option<Sample>) -> Option<Sample> {
    let (Some(x), Some(y)) = (a, b) else { return a.or(b) };
    Some(Sample {
        stable: x.stable.max(y.stable),
        panic: x.panic.max(y.panic),
        ready: x.ready.max(y.ready),
        desired: x.desired.max(y.desired),
    })
}
