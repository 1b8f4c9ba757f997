//! Laws for any sequence of operations: a window gives the same result as a plain list of its
//! samples.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// Far from zero, otherwise arbitrary.
const START_MS: i64 = 1_600_000_000_000;

/// A reference window by definition: it keeps every sample since the last reset and computes from
/// the list.
struct Samples {
    aggregation: Aggregation,
    window: i64,
    granularity: i64,
    /// Bucket and value.
    list: Vec<(i64, f64)>,
    first: Option<i64>,
    last: Option<i64>,
}

// === impl Samples ===

impl Samples {
    fn n(&self) -> i64 {
        (self.window + self.granularity - 1) / self.granularity
    }

    fn bucket(&self, second: i64) -> i64 {
        second - second % self.granularity
    }

    fn record(&mut self, second: i64, value: f64) {
        let bucket = self.bucket(second);
        let last = self.last.unwrap_or(i64::MIN / 2);
        if last - bucket >= self.window {
            return;
        }
        if bucket - last >= self.window {
            self.list.clear();
            self.first = None;
        }
        // A window resized when empty has no start, and another value in its last bucket does not
        // set it.
        if bucket != last {
            self.first = Some(self.first.map_or(bucket, |first| first.min(bucket)));
        }
        self.last = Some(last.max(bucket));
        self.list.push((bucket, value));
    }

    fn is_empty(&self, second: i64) -> bool {
        self.last.is_none_or(|last| self.bucket(second) - last > self.window)
    }

    /// (age in buckets at `second` or at the last write, whichever is later; value) of the samples
    /// in the window.
    fn visible(&self, second: i64) -> Vec<(i64, f64)> {
        let end = self.last.unwrap_or_default().max(self.bucket(second));
        let age = |bucket: i64| (end - bucket) / self.granularity;
        self.list.iter().map(|&(b, v)| (age(b), v)).filter(|&(age, _)| age < self.n()).collect()
    }

    fn average(&self, second: i64) -> f64 {
        match self.aggregation {
            Aggregation::Linear => self.plain_average(second),
            Aggregation::WeightedExponential => self.weighted_average(second),
        }
    }

    fn plain_average(&self, second: i64) -> f64 {
        let Some(last) = self.last else { return 0.0 };
        let gap = (self.bucket(second) - last).max(0);
        if gap >= self.window {
            return 0.0;
        }
        let written = self.first.map_or(i64::MAX, |first| (last - first) / self.granularity + 1);
        let divisor = written.min(self.n() - gap / self.granularity);
        self.visible(second).iter().map(|(_, value)| value).sum::<f64>() / divisor as f64
    }

    fn weighted_average(&self, second: i64) -> f64 {
        if self.is_empty(second) {
            return 0.0;
        }
        let newest = (1.0 - 0.0001_f64.powf(1.0 / self.n() as f64)).max(0.2);
        let weight = |age: i64| newest * (1.0 - newest).powf(age as f64);
        self.visible(second).iter().map(|&(age, value)| value * weight(age)).sum()
    }

    fn resize(&mut self, window: i64, second: i64) {
        if window == self.window {
            return;
        }
        // Keeps only samples inside the window, as if the old window had been full.
        self.list = if self.is_empty(second) { vec![] } else { self.at_last() };
        self.first =
            self.last.filter(|_| !self.is_empty(second)).map(|last| last - (self.n() - 1) * self.granularity);
        self.window = window;
        self.list = self.at_last();
    }

    fn at_last(&self) -> Vec<(i64, f64)> {
        let oldest = self.last.unwrap_or_default() - self.n() * self.granularity;
        self.list.iter().copied().filter(|&(bucket, _)| bucket > oldest).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Record(f64),
    Average,
    IsEmpty,
    Resize(u64),
}

/// An operation and the milliseconds by which the clock moves before it: mostly about a second
/// forward, sometimes back, or across the edge of a window of this length.
fn op(window: u64) -> impl Strategy<Value = (i64, Op)> {
    let window_ms = window as i64 * 1000;
    let step = prop_oneof![
        4 => Just(0_i64),
        8 => 0..2500_i64,
        2 => -2500..0_i64,
        1 => -2 * window_ms..2 * window_ms,
        1 => (-2..3_i64).prop_map(move |seconds| window_ms + seconds * 1000),
        1 => (-2..3_i64).prop_map(move |seconds| -window_ms + seconds * 1000),
    ];
    let op = prop_oneof![
        8 => (-50.0..1000.0_f64).prop_map(Op::Record),
        1 => Just(Op::Record(0.0)),
        5 => Just(Op::Average),
        1 => Just(Op::IsEmpty),
        1 => (1..40_u64).prop_map(Op::Resize),
    ];
    (step, op)
}

fn ops() -> impl Strategy<Value = (u64, Vec<(i64, Op)>)> {
    (1..30_u64).prop_flat_map(|window| (Just(window), prop::collection::vec(op(window), 1..120)))
}

/// Mostly seconds near each other, sometimes near the largest one, or any.
fn any_second() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 1_600_000_000..1_600_000_300_u64, 2 => u64::MAX - 300..=u64::MAX, 1 => any::<u64>()]
}

/// Lengths, few of them huge, because those make large rings.
fn any_length() -> impl Strategy<Value = u64> {
    prop_oneof![100 => 0..200_u64, 1 => any::<u64>()]
}

fn check(
    aggregation: Aggregation,
    granularity: u64,
    length: u64,
    ops: &[(i64, Op)],
) -> Result<(), TestCaseError> {
    let seconds = Duration::from_secs;
    let mut window = Window::with_granularity(aggregation, seconds(length), seconds(granularity));
    let (window_s, granularity_s) = (length as i64, granularity as i64);
    let mut samples = Samples {
        aggregation,
        window: window_s,
        granularity: granularity_s,
        list: vec![],
        first: None,
        last: None,
    };
    let mut now_ms = START_MS;
    for &(step, op) in ops {
        now_ms += step;
        let (now, second) = (Duration::from_millis(now_ms as u64), now_ms / 1000);
        match op {
            Op::Record(value) => {
                window.record(now, value);
                samples.record(second, value);
            }
            Op::Average => {
                let (got, expected) = (window.average(now), samples.average(second));
                prop_assert!((got - expected).abs() <= 1e-6, "{got}, but the samples give {expected}");
            }
            Op::IsEmpty => prop_assert_eq!(window.is_empty(now), samples.is_empty(second)),
            Op::Resize(length) => {
                window.resize(seconds(length), now);
                samples.resize(length as i64, second);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn linear_window_is_the_mean_of_its_samples(
        (length, ops) in ops(),
        granularity in prop::sample::select(&[1_u64, 2, 5]),
    ) {
        check(Aggregation::Linear, granularity, length, &ops)?;
    }

    #[test]
    fn weighted_window_is_the_weighted_sum_of_its_samples(
        (length, ops) in ops(),
        granularity in prop::sample::select(&[1_u64, 2, 5]),
    ) {
        check(Aggregation::WeightedExponential, granularity, length, &ops)?;
    }

    #[test]
    fn average_is_finite_for_any_value_and_time(
        ops in prop::collection::vec((any_second(), 0..1_000_000_000_u32, prop::num::f64::ANY, any_length(), any::<bool>()), 1..30),
        weighted in any::<bool>(),
        (length, granularity) in (any_length(), any_length()),
    ) {
        let aggregation = if weighted { Aggregation::WeightedExponential } else { Aggregation::Linear };
        let seconds = Duration::from_secs;
        let mut window = Window::with_granularity(aggregation, seconds(length), seconds(granularity));
        for (second, nanos, value, length, resize) in ops {
            let now = Duration::new(second, nanos);
            window.record(now, value);
            if resize {
                window.resize(seconds(length), now);
            }
            prop_assert!(window.average(now).is_finite(), "{window:?}");
            window.is_empty(now);
        }
    }

    #[test]
    fn sliding_maximum_is_the_largest_value_in_its_slots(
        (length, granularity) in (0..40_u64, 0..4_u64),
        steps in prop::collection::vec((-3..20_i64, 0..50_u32), 1..200),
    ) {
        let mut window = MaxWindow::new(Duration::from_secs(length), Duration::from_secs(granularity));
        let slots = length.div_ceil(granularity.max(1)).max(1);
        let mut all: Vec<(u64, u32)> = Vec::new();
        let mut now = 1_600_000_000_u64;
        for (step, value) in steps {
            now = now.saturating_add_signed(step);
            // A time before the newest counts as the newest.
            let slot = (now / granularity.max(1)).max(all.last().map_or(0, |&(slot, _)| slot));
            all.push((slot, value));
            let largest = all.iter().filter(|(old, _)| slot - old < slots).map(|&(_, value)| value).max();
            prop_assert_eq!(Some(window.record(Duration::from_secs(now), value)), largest);
        }
    }
}
