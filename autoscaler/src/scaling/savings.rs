//! Savings: what a workload did not use because it was at zero, against one pod at all times.
//!
//! ```text
//!            at zero                  pods wanted                  one ready
//!  Running ───────────► AtZero ───────────────────► Starting ───────────────► Running
//!     ▲                   ▲  + time, from the end of    │ - time of each starting pod
//!     │                   │    the last pods on         │
//!     │                   └─────────────────────────────┘ at zero again
//! ```
//!
//! Input: what the zero-scaler observes of a workload whenever it reconciles it. Output: the
//! totals, which it writes into the status of the PodAutoscaler, with the start of the present
//! phase. So the totals need a write only when the phase changes, and a reader adds the present
//! phase itself.
//!
//! The result is rounded down, three times: a period at zero counts only from the end of the pods'
//! termination grace period, the baseline is one pod even if minReplicas is larger, and the time in
//! which pods start is subtracted for each pod, although one would have run anyway.

/// What one pod requests of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodRequests {
    /// Thousandths of a CPU.
    pub cpu_milli: i64,
    /// Mebibytes of memory, rounded down.
    pub memory_mib: i64,
}

/// Resources over time; negative where starts took more than zero saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceTime {
    pub pod_seconds: i64,
    /// Seconds of a thousandth of a CPU.
    pub cpu_milli_seconds: i64,
    /// Seconds of a mebibyte of memory.
    pub memory_mib_seconds: i64,
}

/// Where a workload is between zero and its pods. Times are Unix milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavingsPhase {
    /// Pods serve.
    Running,
    /// No pod is wanted.
    AtZero {
        /// When the size became 0.
        since: i64,
    },
    /// Pods are wanted after zero, and none was ready yet.
    Starting {
        /// When the size became larger than 0.
        since: i64,
        /// How many.
        pods: i64,
    },
}

/// The savings of one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savings {
    /// When the account began, in Unix milliseconds.
    pub since: i64,
    /// The phases that are over.
    pub total: ResourceTime,
    /// Wakes since the account began.
    pub wakes: i64,
    /// The present phase.
    pub phase: SavingsPhase,
    /// What one pod requests in the present phase.
    pub requests: PodRequests,
    /// Longest time, in seconds, that pods take to end after the size became 0.
    pub grace_seconds: i64,
}

/// One observation of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SavingsObservation {
    /// Unix milliseconds.
    pub now: i64,
    /// The size of the target.
    pub replicas: u32,
    /// Whether a size of 0 is a saving: requests wake the workload.
    pub wakes_on_request: bool,
    /// Ready pods.
    pub ready: u32,
    pub requests: PodRequests,
    /// The pods' termination grace period, in seconds.
    pub grace_seconds: i64,
}

// === impl ResourceTime ===

impl ResourceTime {
    /// This many seconds of one pod with these requests.
    fn of(pod_seconds: i64, requests: PodRequests) -> Self {
        Self {
            pod_seconds,
            cpu_milli_seconds: pod_seconds.saturating_mul(requests.cpu_milli),
            memory_mib_seconds: pod_seconds.saturating_mul(requests.memory_mib),
        }
    }

    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            pod_seconds: self.pod_seconds.saturating_add(other.pod_seconds),
            cpu_milli_seconds: self.cpu_milli_seconds.saturating_add(other.cpu_milli_seconds),
            memory_mib_seconds: self.memory_mib_seconds.saturating_add(other.memory_mib_seconds),
        }
    }
}

// === impl Savings ===

impl Savings {
    /// An account that begins with this observation.
    pub fn new(observed: &SavingsObservation) -> Self {
        let running = Self {
            since: observed.now,
            total: ResourceTime::default(),
            wakes: 0,
            phase: SavingsPhase::Running,
            requests: observed.requests,
            grace_seconds: observed.grace_seconds,
        };
        running.after(observed)
    }

    /// The account after an observation. Equal to this one while the phase stays the same.
    #[must_use]
    pub fn after(&self, observed: &SavingsObservation) -> Self {
        let is_at_zero = observed.replicas == 0 && observed.wakes_on_request;
        let pods = i64::from(observed.replicas);
        match self.phase {
            SavingsPhase::AtZero { .. } if is_at_zero => *self,
            SavingsPhase::Running | SavingsPhase::Starting { .. } if is_at_zero => {
                self.enter(SavingsPhase::AtZero { since: observed.now }, observed)
            }
            SavingsPhase::AtZero { .. } if pods == 0 => self.enter(SavingsPhase::Running, observed),
            SavingsPhase::AtZero { .. } => {
                let starting = SavingsPhase::Starting { since: observed.now, pods };
                let woken = self.enter(starting, observed);
                Self { wakes: woken.wakes.saturating_add(1), ..woken }
            }
            SavingsPhase::Starting { .. } if observed.ready > 0 || pods == 0 => {
                self.enter(SavingsPhase::Running, observed)
            }
            SavingsPhase::Starting { since, pods: before } => {
                Self { phase: SavingsPhase::Starting { since, pods: before.max(pods) }, ..*self }
            }
            SavingsPhase::Running => *self,
        }
    }

    /// All until `now`, the present phase included.
    pub fn at(&self, now: i64) -> ResourceTime {
        let passed = |since: i64| now.saturating_sub(since).max(0);
        let pod_seconds = match self.phase {
            SavingsPhase::Running => 0,
            SavingsPhase::AtZero { since } => {
                (passed(since) / 1000).saturating_sub(self.grace_seconds).max(0)
            }
            SavingsPhase::Starting { since, pods } => {
                // Rounded up, for it is subtracted.
                let seconds = passed(since).saturating_add(999) / 1000;
                0i64.saturating_sub(seconds.saturating_mul(pods))
            }
        };
        self.total.plus(ResourceTime::of(pod_seconds, self.requests))
    }

    /// Ends the present phase and begins the next one.
    fn enter(&self, phase: SavingsPhase, observed: &SavingsObservation) -> Self {
        Self {
            total: self.at(observed.now),
            phase,
            requests: observed.requests,
            grace_seconds: observed.grace_seconds,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const REQUESTS: PodRequests = PodRequests { cpu_milli: 250, memory_mib: 128 };

    fn observed(seconds: i64, replicas: u32, ready: u32) -> SavingsObservation {
        SavingsObservation {
            now: seconds * 1000,
            replicas,
            wakes_on_request: true,
            ready,
            requests: REQUESTS,
            grace_seconds: 30,
        }
    }

    fn after(observations: &[SavingsObservation]) -> Savings {
        let (first, rest) = observations.split_first().unwrap();
        rest.iter().fold(Savings::new(first), |savings, observed| savings.after(observed))
    }

    fn pod_seconds(observations: &[SavingsObservation], seconds: i64) -> i64 {
        after(observations).at(seconds * 1000).pod_seconds
    }

    #[test]
    fn time_at_zero_counts_after_the_grace_period_and_starts_are_subtracted() {
        let night = [observed(0, 2, 2), observed(100, 0, 0), observed(3700, 3, 0), observed(3710, 3, 1)];
        for (seconds, saved) in [(100, 0), (130, 0), (131, 1), (3700, 3570)] {
            assert_eq!(pod_seconds(&night[..2], seconds), saved, "{seconds}");
        }
        assert_eq!(pod_seconds(&night[..3], 3705), 3570 - 3 * 5);
        for seconds in [3710, 100_000] {
            assert_eq!(pod_seconds(&night, seconds), 3570 - 3 * 10, "{seconds}");
        }
        let savings = after(&night);
        assert_eq!((savings.wakes, savings.phase), (1, SavingsPhase::Running));
        let total = savings.at(0);
        assert_eq!((total.cpu_milli_seconds, total.memory_mib_seconds), (3540 * 250, 3540 * 128));
    }

    #[test]
    fn wakes_too_often_cost_more_than_they_save() {
        let restless: Vec<_> = (0..10)
            .flat_map(|n| [observed(n * 60, 0, 0), observed(n * 60 + 20, 1, 0), observed(n * 60 + 35, 1, 1)])
            .collect();
        assert_eq!(pod_seconds(&restless, 600), -150);
    }

    #[test]
    fn wake_that_fails_is_subtracted() {
        let failed = [observed(0, 0, 0), observed(1000, 1, 0), observed(1600, 0, 0)];
        assert_eq!(pod_seconds(&failed, 1600), 970 - 600);
        assert_eq!(pod_seconds(&failed, 2630), 970 - 600 + 1000);
    }

    #[test]
    fn starting_pods_are_counted_as_their_number_grows() {
        let crowd = [observed(0, 0, 0), observed(100, 1, 0), observed(101, 8, 0), observed(110, 8, 1)];
        assert_eq!(pod_seconds(&crowd, 110), 70 - 8 * 10);
    }

    #[test]
    fn size_that_requests_do_not_change_is_no_saving() {
        let paused = SavingsObservation { wakes_on_request: false, ..observed(10, 0, 0) };
        assert_eq!(pod_seconds(&[observed(0, 1, 1), paused], 10_000), 0);
        // Paused by hand while at zero: what was saved before stays.
        let paused = SavingsObservation { now: 1_000_000, ..paused };
        assert_eq!(pod_seconds(&[observed(0, 0, 0), paused], 10_000), 970);
    }

    #[test]
    fn unchanged_phase_leaves_the_account_as_it_is() {
        for (replicas, ready) in [(0, 0), (1, 1)] {
            let begun = Savings::new(&observed(0, replicas, ready));
            assert_eq!(begun.after(&observed(500, replicas, ready)), begun);
        }
    }

    fn any_observation() -> impl Strategy<Value = SavingsObservation> {
        (any::<i64>(), 0u32..4, any::<bool>(), 0u32..3, any::<[i64; 3]>()).prop_map(
            |(now, replicas, wakes_on_request, ready, [cpu_milli, memory_mib, grace_seconds])| {
                let requests = PodRequests { cpu_milli: cpu_milli.max(0), memory_mib: memory_mib.max(0) };
                let grace_seconds = grace_seconds.max(0);
                SavingsObservation { now, replicas, wakes_on_request, ready, requests, grace_seconds }
            },
        )
    }

    proptest! {
        /// Whatever clocks do: no overflow, and never more than the time that passed.
        #[test]
        fn savings_never_exceed_the_time_at_zero(
            steps in prop::collection::vec((0i64..100_000, 0u32..3, 0u32..2), 1..40),
        ) {
            let mut now = 0;
            let mut savings: Option<Savings> = None;
            for (passed, replicas, ready) in steps {
                now += passed;
                let observed = SavingsObservation { now, ..observed(0, replicas, ready.min(replicas)) };
                savings = Some(savings.map_or_else(|| Savings::new(&observed), |s| s.after(&observed)));
            }
            prop_assert!(savings.unwrap().at(now).pod_seconds <= now / 1000);
        }

        #[test]
        fn any_observations_are_accepted(steps in prop::collection::vec(any_observation(), 1..20), now: i64) {
            let savings = after(&steps);
            savings.at(now);
            prop_assert!(savings.wakes <= 20);
        }
    }
}
