//! Overload: what the seconds show in which requests pile up in the pods.

use std::time::Duration;

use crate::curve::Sums;
use crate::tuning;

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
    backlog: Backlog,
}

/// Requests in the pods that are no load, because they wait for others.
#[derive(Clone, Copy, Debug, Default)]
struct Backlog {
    /// Requests in all pods, and those that arrive in a second: means of about the last panic
    /// window.
    load: f64,
    arrivals: f64,
    /// Pods of the first minute, out of overloads: those that a panic starts are as slow.
    cold: Sums,
    /// The first and the last second of the present overload.
    began: Option<Duration>,
    last: Duration,
    /// The largest factor of the present overload. Pods that drain have a smaller one, and the pods
    /// of a panic stay.
    factor: f64,
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

    /// Adds a second of the pods that have just started.
    pub(super) fn add_cold(&mut self, pods: &Sums) {
        if self.backlog.began.is_none() {
            self.backlog.cold.add(pods);
        }
    }

    /// Adds the requests in all pods, in a second that [`add_arrivals`](Self::add_arrivals) has.
    /// `overloaded` has the time of a request that does not wait, in a second in which others do.
    pub(super) fn add_load(&mut self, load: f64, arrivals: f64, overloaded: Option<f64>, at: Duration) {
        self.backlog.add(load, arrivals);
        self.backlog.update(overloaded, at);
    }

    /// The requests in the pods over those that the arrivals would be at twice the time of a
    /// request that does not wait; at least 1. In an overload the concurrency is mostly backlog,
    /// and pods for all of it start when it has been served. Pods for twice the arrivals serve it
    /// as well. 1 from the thirtieth second on: what lasts is load.
    pub(super) fn backlog(&self) -> f64 {
        self.backlog.factor.max(1.0)
    }

    /// Discards the overloaded seconds.
    pub(super) fn clear(&mut self) {
        *self = Self { all_arrivals: self.all_arrivals, backlog: self.backlog, ..Self::default() };
    }

    pub(super) fn has_begun(&self) -> bool {
        self.seconds > 0
    }

    pub(super) fn is_breach(&self) -> bool {
        self.piled_up >= tuning::steps::MOST_OVERLOADED
    }

    /// The load at which pods would have had room for this overload's arrivals; `None` if too few
    /// requests ended in it. A saturated pod works on as many requests as its throughput times the
    /// time of one that does not wait: more of them wait. In a burst a pod's load grows as the
    /// arrivals do, so it must be smaller before.
    pub(super) fn edge(&self, unloaded_time: f64) -> Option<f64> {
        let edge = self.sums.throughput() * unloaded_time / self.growth();
        let enough = self.sums.completions >= tuning::steps::LEAST_REQUESTS;
        (enough && edge > 0.0).then_some(edge)
    }

    /// Arrivals in a burst over the usual ones. At most the factor from which on a panic starts
    /// whatever the target is.
    pub(super) fn growth(&self) -> f64 {
        let now = self.all_arrivals.excess_of(self.arrivals, self.seconds);
        1.0 + now.max(self.all_arrivals.excess).min(tuning::evidence::OVERLOAD - 1.0)
    }
}

// === impl Backlog ===

impl Backlog {
    fn add(&mut self, load: f64, arrivals: f64) {
        self.load += (load - self.load) * tuning::evidence::USUAL;
        self.arrivals += (arrivals - self.arrivals) * tuning::evidence::USUAL;
    }

    fn update(&mut self, overloaded: Option<f64>, at: Duration) {
        if overloaded.is_some() {
            self.began.get_or_insert(at);
            self.last = at;
        }
        if at.saturating_sub(self.last) >= tuning::evidence::BLOCK {
            self.began = None;
        }
        let is_short = |began| at.saturating_sub(began) < tuning::evidence::BACKLOG;
        if !self.began.is_some_and(is_short) {
            self.factor = 1.0;
        } else if let Some(unloaded_time) = overloaded.filter(|_| self.cold.is_known()) {
            let time = unloaded_time.max(self.cold.mean_time());
            let factor = self.load / (tuning::evidence::OVERLOAD * self.arrivals * time);
            self.factor = if factor.is_finite() { self.factor.max(factor) } else { self.factor };
        }
    }
}

// === impl Arrivals ===

impl Arrivals {
    fn add(&mut self, arrivals: f64) {
        self.block += arrivals;
        self.seconds += 1;
        if f64::from(self.seconds) < tuning::evidence::BLOCK.as_secs_f64() {
            return;
        }
        self.excess = self.excess_of(self.block, self.seconds).max(self.excess * tuning::evidence::CALM);
        let mean = self.block / f64::from(self.seconds);
        let usual = self.usual.get_or_insert(mean);
        *usual += (mean - *usual) * tuning::evidence::USUAL;
        (self.block, self.seconds) = (0.0, 0);
    }

    /// How much these arrivals exceed the usual ones, relatively, unless chance explains it.
    fn excess_of(&self, arrivals: f64, seconds: u32) -> f64 {
        let chance = tuning::curve::SHIFT_NOISE / arrivals.max(1.0).sqrt();
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
        for _ in 0..tuning::steps::MOST_OVERLOADED {
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

    /// The backlog at each of these seconds of an overload, in which 1,200 requests are in the
    /// pods, 600 arrive in a second, and one takes 0.1 s if it does not wait, `cold` in new pods.
    fn backlog(cold: f64, seconds: &[u64]) -> Vec<f64> {
        let mut overload = Overload::default();
        let completions = if cold > 0.0 { 600.0 } else { 0.0 };
        overload.add_cold(&Sums { seconds: 10.0, completions, time: completions * cold, ..Sums::default() });
        let mut add = |second, unloaded| {
            overload.add_load(1200.0, 600.0, unloaded, Duration::from_secs(second));
            overload.backlog()
        };
        (0..100).for_each(|second| assert_eq!(add(second, None), 1.0));
        let all: Vec<_> = (0..40).map(|second| (second, add(100 + second, Some(0.1)))).collect();
        let at = |second: &u64| all.iter().find(|(at, _)| at == second).unwrap().1;
        seconds.iter().map(at).map(|backlog| (backlog * 1000.0).round() / 1000.0).collect()
    }

    #[test]
    fn backlog_starts_pods_for_twice_the_arrivals_until_it_has_lasted_for_thirty_seconds() {
        assert_eq!(backlog(0.1, &[0, 29, 30, 39]), [10.0, 10.0, 1.0, 1.0]);
    }

    #[test]
    fn backlog_starts_more_pods_if_new_ones_are_slow() {
        assert_eq!(backlog(0.25, &[0]), [4.0]);
        assert_eq!(backlog(0.0, &[0]), [1.0], "no new pod was seen");
    }

    #[test]
    fn no_overloaded_second_has_no_edge() {
        let mut overload = overload(300.0);
        overload.clear();
        assert!(!overload.is_breach());
        assert_eq!(overload.edge(0.1), None);
    }
}
