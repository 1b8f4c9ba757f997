//! Numbers of the evidence: which seconds count, and how sure a result must be.

use std::time::Duration;

/// Which seconds of pods are evidence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EvidenceTuning {
    /// Time without data that is a gap. Chosen, untested.
    pub(crate) gap: Duration,
    /// Step of the clock that no gap explains. Chosen, untested.
    pub(crate) clock_jump: Duration,
    /// Time of complete data after a fault of the feed. Chosen, untested.
    pub(crate) probation: Duration,
    /// Share of pods without the ends of requests that is accepted. Chosen, untested.
    pub(crate) old_sidecars: f64,
    /// Age below which a pod still fills up, and may not have the objective yet. Chosen.
    pub(crate) young_pod: Duration,
    /// The same without a number of the user: nothing was measured that the slow requests of a
    /// pod's start, of a JIT or cold caches, could be compared with. Scenario `warm-up`.
    pub(crate) cold_pod: Duration,
    /// Weight of a block in the usual arrivals: the pods follow the load of the last 60 s, the
    /// default of the stable window. Also of a second in the backlog: a panic follows that of the
    /// last 6 s. Arithmetic.
    pub(crate) usual: f64,
    /// Weight of a burst after a block, a half-life of 6 min: a load that stays higher is none.
    /// Scenario `bursts`.
    pub(crate) calm: f64,
    /// Length of a block. A step happens at its end. Chosen.
    pub(crate) block: Duration,
    /// Share of the target below which a second is not at load, unless no pod could be spared: pods
    /// left over from a panic look healthy at any target. Simulation.
    pub(crate) at_load: f64,
    /// Load over the target that is an overload. Chosen.
    pub(crate) overload: f64,
    /// Time in an overload in which the backlog starts no pods. Requests may also take longer for
    /// another reason, and then they need the pods. Scenario `bursts`.
    pub(crate) backlog: Duration,
    /// Time after a change in which its pods start or end. Chosen.
    pub(crate) settling: Duration,
    /// Time after a release in which the pods for its load start. Scenario `release`.
    pub(crate) settling_release: Duration,
    /// Time after a restored target in which an overload ends. Chosen.
    pub(crate) recovery: Duration,
    /// Weight of failures after a second, a half-life of 20 s. Chosen, untested.
    pub(crate) failure_fading: f64,
    /// Share of failed requests above which there is no evidence: a smaller one changes the mean
    /// time by less than `StepTuning::slower`. Arithmetic.
    pub(crate) most_failed: f64,
    /// Requests below which a share of failures shows nothing. Chosen, untested.
    pub(crate) failure_requests: f64,
    /// Factor on the variance of a share, because slow responses come in groups. Chosen.
    pub(crate) design_effect: f64,
    /// Standard deviations of a sure result. Literature: the usual bound of 95 %.
    pub(crate) sure: f64,
    /// Requests of a trial for full confidence, which is reported and not used. Chosen, untested.
    pub(crate) full_confidence: f64,
    /// Confidence while exploring, as a share of the confidence when settled. Chosen, untested.
    pub(crate) exploring_confidence: f64,
    /// Seconds at the first target, and seconds of requests, before requests are called long.
    /// Chosen.
    pub(crate) long_requests: f64,
    /// Age after which a stored state is of no use. Chosen, untested.
    pub(crate) stored_for: Duration,
}

impl EvidenceTuning {
    pub(super) const DEFAULT: Self = Self {
        gap: Duration::from_secs(5),
        clock_jump: Duration::from_secs(300),
        probation: Duration::from_secs(60),
        old_sidecars: 0.2,
        young_pod: Duration::from_secs(10),
        cold_pod: Duration::from_secs(60),
        usual: 1.0 / 6.0,
        calm: 0.98,
        block: Duration::from_secs(10),
        at_load: 0.6,
        overload: 2.0,
        backlog: Duration::from_secs(30),
        settling: Duration::from_secs(20),
        settling_release: Duration::from_secs(45),
        recovery: Duration::from_secs(60),
        failure_fading: 0.966,
        most_failed: 0.02,
        failure_requests: 50.0,
        design_effect: 3.0,
        sure: 2.0,
        full_confidence: 5000.0,
        exploring_confidence: 0.5,
        long_requests: 300.0,
        stored_for: Duration::from_secs(7 * 24 * 3600),
    };
}
