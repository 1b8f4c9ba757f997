//! Numbers of the steps: when and how far the target moves.

use std::time::Duration;

/// First target without a number of the user. Chosen: a target that is too low costs pods for
/// minutes, and one that is too high overloads or kills them. Scenario `memory-limit`: at 4
/// the only pod of the first minutes has all requests, and is killed.
pub(crate) const FIRST_TARGET: f64 = 2.0;
/// Factor of the raise from that first target. Chosen: three raises by 25 % lead to the same,
/// and take two minutes more.
pub(crate) const FIRST_RAISE: f64 = 2.0;
/// Requests below which a trial shows nothing. Chosen.
pub(crate) const LEAST_REQUESTS: f64 = 150.0;
/// Seconds of a trial before a step while exploring. Chosen.
pub(crate) const LEAST_SECONDS: f64 = 20.0;
/// Seconds of a trial before a target settles: in a shorter one noise can hide that there is
/// room. Scenario `eight-servers`.
pub(crate) const SETTLED_SECONDS: f64 = 60.0;
/// Seconds of a trial before a step away from a severe breach. Chosen.
pub(crate) const SEVERE_SECONDS: f64 = 5.0;
/// No raise before this: a mix of requests may change in the first minutes. Scenario
/// `two-mixes`.
pub(crate) const BEFORE_RAISES: Duration = Duration::from_secs(240);
/// No lower target before this. Chosen.
pub(crate) const BEFORE_LOWERS: Duration = Duration::from_secs(60);
/// Time between two changes when settled. Scenario `two-mixes`.
pub(crate) const BETWEEN_CHANGES: Duration = Duration::from_secs(600);
/// Seconds of a trial after which it fades when settled. Chosen.
pub(crate) const FADE_AFTER: f64 = 600.0;
/// Weight of a trial that fades. Chosen.
pub(crate) const FADING: f64 = 0.5;
/// Factors of a raise; the first allowed one is taken. Chosen: a pod too few starts a panic,
/// which buys several times the pods.
pub(crate) const RAISES: [f64; 2] = [1.25, 1.12];
/// Factor of a raise when settled. Chosen.
pub(crate) const SETTLED_RAISE: f64 = 1.08;
/// Elasticity of the throughput from which on more load pays. Chosen.
pub(crate) const ELASTIC: f64 = 0.78;
/// Growth of the load, as a logarithm, that shows an elasticity. Chosen.
pub(crate) const LEAST_GROWTH: f64 = 0.05;
/// Without an elasticity: increase of the time in the app over the time at low load. Chosen.
pub(crate) const SLOWER: f64 = 0.03;
/// Severity that a lower target aims at. Chosen.
pub(crate) const AIM: f64 = 0.85;
/// Severity of a settled target that needs no patience. Chosen.
pub(crate) const SEVERE: f64 = 2.0;
/// Severity of an unsure result that ends a raise. Chosen.
pub(crate) const SLIGHTLY_BAD: f64 = 1.05;
/// Time after a raise in which a breach restores the last good target. Chosen.
pub(crate) const WATCHED: Duration = Duration::from_secs(900);
/// Factor on a restored target that still overloads the pods. Chosen.
pub(crate) const AFTER_OVERLOAD: f64 = 0.88;
/// Seconds of overload that are a breach. Chosen.
pub(crate) const MOST_OVERLOADED: u32 = 3;
/// Load of a pod over its load at a bad target, up to which a raise stays away from it. Chosen.
pub(crate) const DISTANCE: f64 = 0.95;
/// A bad target over the present one, from which on there is room for a raise: the rest is not
/// worth an overload. Scenario `diurnal`.
pub(crate) const NEAR_BAD: f64 = 1.3;
/// Decrease of the load that shows whether a lower target helped. Chosen.
pub(crate) const LEAST_DECREASE: f64 = 0.05;
/// Part of that decrease that must show in the time or the misses. Scenario `slow-dependency`.
pub(crate) const SHOWS: f64 = 0.4;
/// Factor of a step without any reference. Chosen, untested.
pub(crate) const PROBE: f64 = 0.8;
/// Largest target over the load of the trial: more pods than the target needs show nothing
/// about it. Simulation.
pub(crate) const MOST_AHEAD: f64 = 1.6;
/// Target over the load that pods would have if they were one less: with less, a decision would
/// follow the noise of the concurrency. Chosen.
pub(crate) const ABOVE_LOAD: f64 = 1.05;
/// Share of a settled target that its pods carry, before a raise. Scenario `diurnal`.
pub(crate) const CARRIED: f64 = 0.83;
/// Load of a pod over the target from which on the pods do not follow the target: the HPA's
/// tolerance is 1.1, and a trial has the noise of 20 s.
pub(crate) const MOST_CARRIED: f64 = 1.25;
/// Load of a reference over a settled target's load, before a raise. Scenario `diurnal`.
pub(crate) const LOWER_LOAD: f64 = 0.8;
/// Change of the time in the app, as a logarithm, that counts as none. Scenario `two-mixes`.
pub(crate) const STEADY: f64 = 0.1;
/// Change of the load of a pod that has an effect. Chosen.
pub(crate) const LEAST_EFFECT: f64 = 0.01;
/// First and longest pause of raises after a breach, in seconds. It doubles. Chosen.
pub(crate) const FIRST_PAUSE: u64 = 60;
pub(crate) const LONGEST_PAUSE: u64 = 3600;
