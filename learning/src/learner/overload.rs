//! Overload: what the seconds show in which requests pile up in the pods.

use crate::curve::Sums;
use crate::tuning::TUNING;

/// The overloaded seconds since the last change.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overload {
    seconds: u32,
    /// Those of them with a load that starts a panic.
    piled_up: u32,
    /// The pods in these seconds.
    sums: Sums,
    /// Requests that arrived in them.
    arrivals: f64,
    all_arrivals: Arrivals,
}

/// Requests that arrive at all pods, overloaded or not.
#[derive(Clone, Copy, Debug, Default)]
struct Arrivals {
    /// Those of the present block.
    block: f64,
    seconds: u32,
    /// Mean of a second of about the last minute, without the present block: the load that the
    /// pods follow.
    usual: Option<f64>,
    /// How much a block exceeded that, at most. It fades.
    excess: f64,
}

// === impl Overload ===

impl Overload {
    /// Adds the requests of a second, in any state of the pods.
    pub(super) fn add_arrivals(&mut self, arrivals: f64) {
        self.all_arrivals.add(arrivals);
    }

    /// Adds a second in which pods are overloaded. `piles_up` is whether their load starts a panic.
    pub(super) fn add(&mut self, pods: &Sums, arrivals: f64, piles_up: bool) {
        self.seconds += 1;
        self.piled_up += u32::from(piles_up);
        self.sums.add(pods);
        self.arrivals += arrivals;
    }

    /// Discards the overloaded seconds.
    pub(super) fn clear(&mut self) {
        *self = Self { all_arrivals: self.all_arrivals, ..Self::default() };
    }

    pub(super) fn has_begun(&self) -> bool {
        self.seconds > 0
    }

    pub(super) fn is_breach(&self) -> bool {
        self.piled_up >= TUNING.steps.most_overloaded
    }

    /// The load at which pods would have had room for this overload's arrivals; `None` if too few
    /// requests ended in it. A saturated pod works on as many requests as its throughput times the
    /// time of one that does not wait: more of them wait. In a burst a pod's load grows as the
    /// arrivals do, so it must be smaller before.
    pub(super) fn edge(&self, unloaded_time: f64) -> Option<f64> {
        let edge = self.sums.throughput() * unloaded_time / self.growth();
        let enough = self.sums.completions >= TUNING.steps.least_requests;
        (enough && edge > 0.0).then_some(edge)
    }

    /// Arrivals in a burst over the usual ones. At most the factor from which on a panic starts
    /// whatever the target is.
    pub(super) fn growth(&self) -> f64 {
        let now = self.all_arrivals.excess_of(self.arrivals, self.seconds);
        1.0 + now.max(self.all_arrivals.excess).min(TUNING.evidence.overload - 1.0)
    }
}

// === impl Arrivals ===

impl Arrivals {
    fn add(&mut self, arrivals: f64) {
        self.block += arrivals;
        self.seconds += 1;
        if f64::from(self.seconds) < TUNING.evidence.block.as_secs_f64() {
            return;
        }
        self.excess = self.excess_of(self.block, self.seconds).max(self.excess * TUNING.evidence.calm);
        let mean = self.block / f64::from(self.seconds);
        let usual = self.usual.get_or_insert(mean);
        *usual += (mean - *usual) * TUNING.evidence.usual;
        (self.block, self.seconds) = (0.0, 0);
    }

    /// How much these arrivals exceed the usual ones, relatively, unless chance explains it.
    fn excess_of(&self, arrivals: f64, seconds: u32) -> f64 {
        let chance = TUNING.curve.shift_noise / arrivals.max(1.0).sqrt();
        let usual = self.usual.unwrap_or(arrivals) * f64::from(seconds);
        let excess = arrivals / usual - 1.0;
        if excess.is_finite() && excess > chance { excess } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three seconds of five pods that each end 80 requests a second.
    fn overload(arrivals: f64) -> Overload {
        let mut overload = Overload::default();
        for _ in 0..60 {
            overload.add_arrivals(300.0);
        }
        for _ in 0..TUNING.steps.most_overloaded {
            overload.add(&Sums { seconds: 5.0, completions: 400.0, ..Sums::default() }, arrivals, true);
        }
        overload
    }

    #[test]
    fn edge_is_the_requests_that_saturated_pods_work_on() {
        assert_eq!(overload(300.0).edge(0.1), Some(8.0));
        assert_eq!(overload(310.0).edge(0.1), Some(8.0), "chance");
    }

    #[test]
    fn edge_leaves_room_for_a_burst() {
        let edge = overload(600.0).edge(0.1).unwrap();
        assert!((edge - 4.0).abs() < 1e-9, "{edge}");
        assert_eq!(overload(3000.0).edge(0.1), Some(edge), "a panic starts at any target");
    }

    #[test]
    fn burst_of_a_few_minutes_ago_counts() {
        let mut overload = overload(300.0);
        for second in 0..180 {
            overload.add_arrivals(if second < 20 { 600.0 } else { 300.0 });
        }
        assert!((1.4..2.0).contains(&overload.growth()), "{}", overload.growth());
    }

    #[test]
    fn no_overloaded_second_has_no_edge() {
        let mut overload = overload(300.0);
        overload.clear();
        assert!(!overload.is_breach());
        assert_eq!(overload.edge(0.1), None);
    }
}
