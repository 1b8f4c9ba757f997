//! The way from the last pods to none, and what interrupts it.
//!
//! ```text
//!             idle for a stable window,          mode in force is Proxy,
//!             active for one as well             an activator answers on the Service
//!  Active ─────────────► Inactive ─────────────────────► proven ──────────► zero
//!    ▲                      │       (retention, and grace since Proxy)
//!    └──────────────────────┘ any request, or any word that is not "idle"
//! ```
//!
//! Input: what the zero-scaler observed of one workload, and its settings. Output: the next step and when to look again.
//! The zero-scaler carries a step out and asks again; nothing is remembered here. The rules are Knative's (its scaler.go),
//! with three differences: idleness is a fact that the collector vouches for and not an average of 0; grace counts from the
//! moment that activators were in the slices, never from an intention; and the proof is asked for anew right before the end.
//!
//! All times are Unix milliseconds, because they come from objects and outlive the process that wrote them.

use std::time::Duration;

use crate::settings::Settings;

/// How soon to look again after a proof that failed, or while the slices are being written.
const SOON: Duration = Duration::from_secs(1);

/// What is known of one workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// `spec.replicas` of the target.
    pub replicas: i32,
    /// Where the HPA rests: its minReplicas, at least 1.
    pub min_replicas: i32,
    /// Whether the workload asks for zero. The cluster's own switch is in the settings.
    pub scale_to_zero: bool,
    /// What the decider says; `None` while nothing is known.
    pub demand: Option<Demand>,
    /// Where the workload stands.
    pub phase: Phase,
    /// Since when it stands there.
    pub phase_since: i64,
    /// Since when activators are in the Service's slices, in Proxy mode in force; `None` when they are not.
    pub proxied_since: Option<i64>,
    /// Whether an earlier pass already reached an activator through the Service.
    pub proven_before: bool,
    /// What the probe of this pass found; `None` when there was none yet.
    pub probe: Option<bool>,
}

/// What the decider and the activators say about requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// Pods wanted.
    pub desired: u32,
    /// Since when nobody saw a request; `None` as soon as somebody did.
    pub idle_since: Option<i64>,
}

/// Where a workload stands, as its Active condition says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Pods are ready.
    Active,
    /// Pods are wanted and not ready yet.
    Activating,
    /// Idle: on the way to zero, or there.
    Inactive,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing; look again when something changes, and after `recheck` if there is one.
    Stay {
        /// What is waited for.
        why: Why,
        /// After which the answer changes although nothing else does.
        recheck: Option<Duration>,
    },
    /// Mark as inactive, which brings the activators into the path.
    GoInactive,
    /// Ask the Service who answers, then decide again with the outcome.
    ProbeActivator,
    /// Write 0.
    ScaleToZero,
    /// Leave the way to zero, or leave zero itself.
    Reactivate,
}

/// Why nothing is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Scale-to-zero is off, for the workload or the cluster.
    NotAllowed,
    /// At zero, and nobody asks.
    Sleeping,
    /// The size is not minReplicas: the HPA is still at work.
    NotAtMinimum,
    /// No decision is known.
    NoDecision,
    /// There are requests.
    Busy,
    /// Idle, but for less than the stable window.
    NotIdleLongEnough,
    /// Active for less than the stable window.
    ActiveTooShortly,
    /// Activators are not in the slices yet.
    NotProxied,
    /// The Service is not answered by an activator.
    ActivatorNotInPath,
    /// Everything holds, but grace or retention is not over.
    Grace,
}

// === impl Step ===

impl Step {
    fn wait(why: Why, recheck: Duration) -> Self {
        Self::Stay { why, recheck: Some(recheck) }
    }

    fn stay(why: Why) -> Self {
        Self::Stay { why, recheck: None }
    }
}

// === impl Why ===

impl Why {
    /// In words, for conditions.
    pub fn text(self) -> &'static str {
        match self {
            Self::NotAllowed => "scale-to-zero is off",
            Self::Sleeping => "at zero and no request is waiting",
            Self::NotAtMinimum => "the size is not minReplicas yet",
            Self::NoDecision => "no decision is known: the metrics-adapter is silent, or has no data",
            Self::Busy => "there are requests",
            Self::NotIdleLongEnough => "idle for less than the stable window",
            Self::ActiveTooShortly => "active for less than the stable window",
            Self::NotProxied => "no activator is in the Service's endpoints yet",
            Self::ActivatorNotInPath => "the Service is not answered by an activator yet",
            Self::Grace => "waiting for the grace or retention period to end",
        }
    }
}

/// The next step on the way to zero, or away from it.
pub fn step(observed: &Observed, settings: &Settings, now: i64) -> Step {
    let allowed = observed.scale_to_zero && settings.enable_scale_to_zero;
    if observed.replicas <= 0 {
        return at_zero(observed, allowed);
    }
    if !allowed {
        return leave_inactive(observed, Why::NotAllowed);
    }
    let Some(demand) = observed.demand else { return Step::stay(Why::NoDecision) };
    let Some(idle_since) = demand.idle_since.filter(|_| demand.desired == 0) else {
        return leave_inactive(observed, Why::Busy);
    };
    if observed.replicas != observed.min_replicas {
        return leave_inactive(observed, Why::NotAtMinimum);
    }
    if let Some(rest) = remaining(idle_since, settings.stable_window, now) {
        // Also when inactive: idleness that began anew means that a request came by.
        return leave_inactive_or(observed, Step::wait(Why::NotIdleLongEnough, rest));
    }
    match observed.phase {
        Phase::Active | Phase::Activating => {
            match remaining(observed.phase_since, settings.stable_window, now) {
                Some(rest) => Step::wait(Why::ActiveTooShortly, rest),
                None => Step::GoInactive,
            }
        }
        Phase::Inactive => while_inactive(observed, settings, now),
    }
}

fn at_zero(observed: &Observed, allowed: bool) -> Step {
    let wanted = observed.demand.is_some_and(|demand| demand.desired > 0 && demand.idle_since.is_none());
    if wanted || !allowed { Step::Reactivate } else { Step::stay(Why::Sleeping) }
}

fn leave_inactive(observed: &Observed, why: Why) -> Step {
    leave_inactive_or(observed, Step::stay(why))
}

fn leave_inactive_or(observed: &Observed, otherwise: Step) -> Step {
    if observed.phase == Phase::Inactive { Step::Reactivate } else { otherwise }
}

fn while_inactive(observed: &Observed, settings: &Settings, now: i64) -> Step {
    let Some(proxied_since) = observed.proxied_since else { return Step::wait(Why::NotProxied, SOON) };
    let grace = remaining(proxied_since, settings.scale_to_zero_grace_period, now);
    let retention = remaining(observed.phase_since, settings.scale_to_zero_pod_retention_period, now);
    // `None` is less than any `Some`.
    let rest = grace.max(retention);
    match (observed.probe, rest) {
        (Some(false), _) => Step::wait(Why::ActivatorNotInPath, SOON),
        (Some(true), None) => Step::ScaleToZero,
        (None, None) => Step::ProbeActivator,
        (None, Some(_)) if !observed.proven_before => Step::ProbeActivator,
        (_, Some(rest)) => Step::wait(Why::Grace, rest),
    }
}

/// What is left of `period` since `start`; `None` when it is over.
fn remaining(start: i64, period: Duration, now: i64) -> Option<Duration> {
    let passed = Duration::from_millis(u64::try_from(now.saturating_sub(start)).unwrap_or(0));
    period.checked_sub(passed).filter(|rest| !rest.is_zero())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::AutoscalerConfig;

    const NOW: i64 = 10_000_000;

    /// The fixture of Knative's scaler_test.go: grace 60 s, stable window 5 min.
    fn settings() -> Settings {
        let (mut settings, _) = Settings::resolve(&AutoscalerConfig::default(), &BTreeMap::new());
        settings.scale_to_zero_grace_period = Duration::from_secs(60);
        settings.stable_window = Duration::from_secs(300);
        settings
    }

    fn ago(seconds: i64) -> i64 {
        NOW - seconds * 1000
    }

    fn idle() -> Observed {
        Observed {
            replicas: 1,
            min_replicas: 1,
            scale_to_zero: true,
            demand: Some(Demand { desired: 0, idle_since: Some(ago(3600)) }),
            phase: Phase::Active,
            phase_since: ago(300),
            proxied_since: None,
            proven_before: false,
            probe: None,
        }
    }

    fn inactive(inactive_for: i64, proxied_for: i64, probe: Option<bool>) -> Observed {
        Observed {
            phase: Phase::Inactive,
            phase_since: ago(inactive_for),
            proxied_since: Some(ago(proxied_for)),
            proven_before: true,
            probe,
            ..idle()
        }
    }

    fn seconds(why: Why, seconds: u64) -> Step {
        Step::wait(why, Duration::from_secs(seconds))
    }

    #[test]
    fn active_workloads_wait_for_a_stable_window() {
        // Z1, Z3; Z2 is the HPA's, which has not come to rest.
        let young = Observed { phase_since: ago(299), ..idle() };
        assert_eq!(step(&young, &settings(), NOW), seconds(Why::ActiveTooShortly, 1));
        assert_eq!(step(&idle(), &settings(), NOW), Step::GoInactive);
        let large = Observed { replicas: 10, ..idle() };
        assert_eq!(step(&large, &settings(), NOW), Step::stay(Why::NotAtMinimum));
        // Activating for long with nobody waiting: the caller gave up, the pods never came.
        let stuck = Observed { phase: Phase::Activating, ..idle() };
        assert_eq!(step(&stuck, &settings(), NOW), Step::GoInactive);
    }

    #[test]
    fn inactive_workloads_wait_for_grace_and_retention() {
        let s = settings();
        // Z6
        assert_eq!(step(&inactive(60, 60, Some(true)), &s, NOW), Step::ScaleToZero);
        // Z7, Z8
        assert_eq!(step(&inactive(59, 59, Some(true)), &s, NOW), seconds(Why::Grace, 1));
        // Z9: the slices were in Proxy before the workload became inactive.
        assert_eq!(step(&inactive(59, 60, Some(true)), &s, NOW), Step::ScaleToZero);
        // Unlike Knative, a long inactivity does not stand in for a short time in Proxy.
        assert_eq!(step(&inactive(600, 5, Some(true)), &s, NOW), seconds(Why::Grace, 55));
        let retention = |seconds| Settings {
            scale_to_zero_pod_retention_period: Duration::from_secs(seconds),
            ..settings()
        };
        // Z10, Z11, Z14
        assert_eq!(step(&inactive(59, 60, Some(true)), &retention(42), NOW), Step::ScaleToZero);
        assert_eq!(step(&inactive(60, 60, Some(true)), &retention(120), NOW), seconds(Why::Grace, 60));
        assert_eq!(step(&inactive(60, 60, Some(true)), &retention(60), NOW), Step::ScaleToZero);
    }

    #[test]
    fn nothing_goes_to_zero_without_a_proof_of_this_pass() {
        let s = settings();
        assert_eq!(step(&inactive(60, 60, None), &s, NOW), Step::ProbeActivator);
        // Z16
        assert_eq!(step(&inactive(60, 60, Some(false)), &s, NOW), Step::wait(Why::ActivatorNotInPath, SOON));
        // The first proof is asked for early, so that what is wrong shows before the end.
        let unproven = Observed { proven_before: false, ..inactive(10, 10, None) };
        assert_eq!(step(&unproven, &s, NOW), Step::ProbeActivator);
        assert_eq!(step(&inactive(10, 10, None), &s, NOW), seconds(Why::Grace, 50));
        let unproxied = Observed { proxied_since: None, ..inactive(600, 0, Some(true)) };
        assert_eq!(step(&unproxied, &s, NOW), Step::wait(Why::NotProxied, SOON));
    }

    #[test]
    fn requests_end_the_way_to_zero_at_once() {
        let s = settings();
        let ready_to_go = inactive(600, 600, Some(true));
        assert_eq!(step(&ready_to_go, &s, NOW), Step::ScaleToZero);
        for demand in [
            Demand { desired: 1, idle_since: None },
            Demand { desired: 0, idle_since: None },
            Demand { desired: 1, idle_since: Some(ago(3600)) },
            // A request came and went.
            Demand { desired: 0, idle_since: Some(ago(299)) },
        ] {
            let observed = Observed { demand: Some(demand), ..ready_to_go };
            assert_eq!(step(&observed, &s, NOW), Step::Reactivate, "{demand:?}");
        }
    }

    #[test]
    fn silence_is_not_idleness_and_changes_nothing() {
        // Z25, Z26
        for observed in [inactive(600, 600, Some(true)), idle()] {
            let silent = Observed { demand: None, ..observed };
            assert_eq!(step(&silent, &settings(), NOW), Step::stay(Why::NoDecision));
        }
    }

    #[test]
    fn a_workload_that_may_not_go_to_zero_stays_or_comes_back() {
        // Z31
        let refused = Observed { scale_to_zero: false, ..idle() };
        assert_eq!(step(&refused, &settings(), NOW), Step::stay(Why::NotAllowed));
        let off = Settings { enable_scale_to_zero: false, ..settings() };
        assert_eq!(step(&inactive(600, 600, Some(true)), &off, NOW), Step::Reactivate);
        assert_eq!(step(&Observed { replicas: 0, ..idle() }, &off, NOW), Step::Reactivate);
    }

    #[test]
    fn a_sleeping_workload_wakes_on_demand_alone() {
        let asleep = Observed { replicas: 0, ..inactive(600, 600, None) };
        assert_eq!(step(&asleep, &settings(), NOW), Step::stay(Why::Sleeping));
        let silent = Observed { demand: None, ..asleep };
        assert_eq!(step(&silent, &settings(), NOW), Step::stay(Why::Sleeping));
        let asked = Observed { demand: Some(Demand { desired: 3, idle_since: None }), ..asleep };
        assert_eq!(step(&asked, &settings(), NOW), Step::Reactivate);
    }

    #[test]
    fn a_workload_above_one_rests_at_its_minimum() {
        // Z20, with the HPA resting at 2: then it may go, to zero and not to 1.
        let two = Observed { replicas: 2, min_replicas: 2, ..inactive(60, 60, Some(true)) };
        assert_eq!(step(&two, &settings(), NOW), Step::ScaleToZero);
        let ten = Observed { replicas: 10, min_replicas: 2, ..inactive(60, 60, Some(true)) };
        assert_eq!(step(&ten, &settings(), NOW), Step::Reactivate);
    }

    #[test]
    fn a_clock_that_ran_backwards_waits_longer_and_no_more() {
        let future = inactive(-30, -30, None);
        assert_eq!(
            step(&Observed { probe: Some(true), ..future }, &settings(), NOW),
            seconds(Why::Grace, 60)
        );
    }
}
