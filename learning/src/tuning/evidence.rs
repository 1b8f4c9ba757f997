//! Numbers of the evidence: which seconds count, and how sure a result must be.

use std::time::Duration;

/// Time without data that is a gap. Chosen, untested.
pub(crate) const GAP: Duration = Duration::from_secs(5);
/// Step of the clock that no gap explains. Chosen, untested.
pub(crate) const CLOCK_JUMP: Duration = Duration::from_secs(300);
/// Time of complete data after a fault of the feed. Chosen, untested.
pub(crate) const PROBATION: Duration = Duration::from_secs(60);
/// Share of pods without the ends of requests that is accepted. Chosen, untested.
pub(crate) const OLD_SIDECARS: f64 = 0.2;
/// Age below which a pod still fills up, and may not have the objective yet. Chosen.
pub(crate) const YOUNG_POD: Duration = Duration::from_secs(10);
/// The same without a number of the user: nothing was measured that the slow requests of a
/// pod's start, of a JIT or cold caches, could be compared with. Scenario `warm-up`.
pub(crate) const COLD_POD: Duration = Duration::from_secs(60);
/// Weight of a block in the usual arrivals: the pods follow the load of the last 60 s, the
/// default of the stable window. Also of a second in the backlog: a panic follows that of the
/// last 6 s. Arithmetic.
pub(crate) const USUAL: f64 = 1.0 / 6.0;
/// Weight of a burst after a block, a half-life of 6 min: a load that stays higher is none.
/// Scenario `bursts`.
pub(crate) const CALM: f64 = 0.98;
/// Length of a block. A step happens at its end. Chosen.
pub(crate) const BLOCK: Duration = Duration::from_secs(10);
/// Share of the target below which a second is not at load, unless no pod could be spared: pods
/// left over from a panic look healthy at any target. Simulation.
pub(crate) const AT_LOAD: f64 = 0.6;
/// Load over the target that is an overload. Chosen.
pub(crate) const OVERLOAD: f64 = 2.0;
/// Time in an overload in which the backlog starts no pods. Requests may also take longer for
/// another reason, and then they need the pods. Scenario `bursts`.
pub(crate) const BACKLOG: Duration = Duration::from_secs(30);
/// Time after a change in which its pods start or end. Chosen.
pub(crate) const SETTLING: Duration = Duration::from_secs(20);
/// Time after a release in which the pods for its load start. Scenario `release`.
pub(crate) const SETTLING_RELEASE: Duration = Duration::from_secs(45);
/// Time after a restored target in which an overload ends. Chosen.
pub(crate) const RECOVERY: Duration = Duration::from_secs(60);
/// Weight of failures after a second, a half-life of 20 s. Chosen, untested.
pub(crate) const FAILURE_FADING: f64 = 0.966;
/// Share of failed requests above which there is no evidence: a smaller one changes the mean
/// time by less than `steps::SLOWER`. Arithmetic.
pub(crate) const MOST_FAILED: f64 = 0.02;
/// Requests below which a share of failures shows nothing. Chosen, untested.
pub(crate) const FAILURE_REQUESTS: f64 = 50.0;
/// Factor on the variance of a share, because slow responses come in groups. Chosen.
pub(crate) const DESIGN_EFFECT: f64 = 3.0;
/// Standard deviations of a sure result. Literature: the usual bound of 95 %.
pub(crate) const SURE: f64 = 2.0;
/// Requests of a trial for full confidence, which is reported and not used. Chosen, untested.
pub(crate) const FULL_CONFIDENCE: f64 = 5000.0;
/// Confidence while exploring, as a share of the confidence when settled. Chosen, untested.
pub(crate) const EXPLORING_CONFIDENCE: f64 = 0.5;
/// Seconds at the first target, and seconds of requests, before requests are called long.
/// Chosen.
pub(crate) const LONG_REQUESTS: f64 = 300.0;
/// Age after which a stored state is of no use. Chosen, untested.
pub(crate) const STORED_FOR: Duration = Duration::from_secs(7 * 24 * 3600);
