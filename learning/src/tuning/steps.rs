//! Numbers of the steps: when and how far the target moves.

use std::time::Duration;

/// When and how far the target moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepTuning {
    /// First target without a number of the user. Chosen: a target that is too low costs pods for
    /// minutes, and one that is too high overloads or kills them. Scenario `memory-limit`: at 4
    /// the only pod of the first minutes has all requests, and is killed.
    pub(crate) first_target: f64,
    /// Factor of the raise from that first target. Chosen: three raises by 25 % lead to the same,
    /// and take two minutes more.
    pub(crate) first_raise: f64,
    /// Requests below which a trial shows nothing. Chosen.
    pub(crate) least_requests: f64,
    /// Seconds of a trial before a step while exploring. Chosen.
    pub(crate) least_seconds: f64,
    /// Seconds of a trial before a target settles: in a shorter one noise can hide that there is
    /// room. Scenario `eight-servers`.
    pub(crate) settled_seconds: f64,
    /// Seconds of a trial before a step away from a severe breach. Chosen.
    pub(crate) severe_seconds: f64,
    /// No raise before this: a mix of requests may change in the first minutes. Scenario
    /// `two-mixes`.
    pub(crate) before_raises: Duration,
    /// No lower target before this. Chosen.
    pub(crate) before_lowers: Duration,
    /// Time between two changes when settled. Scenario `two-mixes`.
    pub(crate) between_changes: Duration,
    /// Seconds of a trial after which it fades when settled. Chosen.
    pub(crate) fade_after: f64,
    /// Weight of a trial that fades. Chosen.
    pub(crate) fading: f64,
    /// Factors of a raise; the first allowed one is taken. Chosen: a pod too few starts a panic,
    /// which buys several times the pods.
    pub(crate) raises: [f64; 2],
    /// Factor of a raise when settled. Chosen.
    pub(crate) settled_raise: f64,
    /// Elasticity of the throughput from which on more load pays. Chosen.
    pub(crate) elastic: f64,
    /// Growth of the load, as a logarithm, that shows an elasticity. Chosen.
    pub(crate) least_growth: f64,
    /// Without an elasticity: increase of the time in the app over the time at low load. Chosen.
    pub(crate) slower: f64,
    /// Severity that a lower target aims at. Chosen.
    pub(crate) aim: f64,
    /// Severity of a settled target that needs no patience. Chosen.
    pub(crate) severe: f64,
    /// Severity of an unsure result that ends a raise. Chosen.
    pub(crate) slightly_bad: f64,
    /// Time after a raise in which a breach restores the last good target. Chosen.
    pub(crate) watched: Duration,
    /// Factor on a restored target that still overloads the pods. Chosen.
    pub(crate) after_overload: f64,
    /// Seconds of overload that are a breach. Chosen.
    pub(crate) most_overloaded: u32,
    /// Load of a pod over its load at a bad target, up to which a raise stays away from it. Chosen.
    pub(crate) distance: f64,
    /// A bad target over the present one, from which on there is room for a raise: the rest is not
    /// worth an overload. Scenario `diurnal`.
    pub(crate) near_bad: f64,
    /// Decrease of the load that shows whether a lower target helped. Chosen.
    pub(crate) least_decrease: f64,
    /// Part of that decrease that must show in the time or the misses. Scenario `slow-dependency`.
    pub(crate) shows: f64,
    /// Factor of a step without any reference. Chosen, untested.
    pub(crate) probe: f64,
    /// Largest target over the load of the trial: more pods than the target needs show nothing
    /// about it. Simulation.
    pub(crate) most_ahead: f64,
    /// Target over the load that pods would have if they were one less: with less, a decision would
    /// follow the noise of the concurrency. Chosen.
    pub(crate) above_load: f64,
    /// Share of a settled target that its pods carry, before a raise. Scenario `diurnal`.
    pub(crate) carried: f64,
    /// Load of a pod over the target from which on the pods do not follow the target: the HPA's
    /// tolerance is 1.1, and a trial has the noise of 20 s.
    pub(crate) most_carried: f64,
    /// Load of a reference over a settled target's load, before a raise. Scenario `diurnal`.
    pub(crate) lower_load: f64,
    /// Change of the time in the app, as a logarithm, that counts as none. Scenario `two-mixes`.
    pub(crate) steady: f64,
    /// Change of the load of a pod that has an effect. Chosen.
    pub(crate) least_effect: f64,
    /// First and longest pause of raises after a breach, in seconds. It doubles. Chosen.
    pub(crate) first_pause: u64,
    pub(crate) longest_pause: u64,
}

impl StepTuning {
    pub(super) const DEFAULT: Self = Self {
        first_target: 2.0,
        first_raise: 2.0,
        least_requests: 150.0,
        least_seconds: 20.0,
        settled_seconds: 60.0,
        severe_seconds: 5.0,
        before_raises: Duration::from_secs(240),
        before_lowers: Duration::from_secs(60),
        between_changes: Duration::from_secs(600),
        fade_after: 600.0,
        fading: 0.5,
        raises: [1.25, 1.12],
        settled_raise: 1.08,
        elastic: 0.78,
        least_growth: 0.05,
        slower: 0.03,
        aim: 0.85,
        severe: 2.0,
        slightly_bad: 1.05,
        watched: Duration::from_secs(900),
        after_overload: 0.88,
        most_overloaded: 3,
        distance: 0.95,
        near_bad: 1.3,
        least_decrease: 0.05,
        shows: 0.4,
        probe: 0.8,
        most_ahead: 1.6,
        above_load: 1.05,
        carried: 0.83,
        most_carried: 1.25,
        lower_load: 0.8,
        steady: 0.1,
        least_effect: 0.01,
        first_pause: 60,
        longest_pause: 3600,
    };
}
