//! Numbers of the bracket: how long results hold, and how far below a bad target the next one is.

use std::time::Duration;

/// Time after which a raise to a bad target is allowed again, or after a release to one that
/// was bad for the former template. Chosen.
pub(crate) const VALIDITY: Duration = Duration::from_secs(3600);
/// Factor on the throughput of a pod, and on the speed of a request, by which a release is
/// another app: its targets are tried as those of a new one. The smallest raise of
/// `steps::RAISES`: less room would not be used. Scenario `release-faster`.
pub(crate) const FASTER_APP: f64 = 1.12;
/// A bad target this far above another one does not replace it. Chosen.
pub(crate) const NARROW: f64 = 1.15;
/// Least and most of the way from the good target to the bad one, in logarithms, at which the
/// next one is. Chosen.
pub(crate) const LEAST_WAY: f64 = 0.1;
pub(crate) const MOST_WAY: f64 = 0.9;
/// Distance of two bad targets that shows with which power of the target the severity grows.
/// Chosen.
pub(crate) const APART: f64 = 1.05;
/// That power before two bad targets show it. Chosen.
pub(crate) const POWER: f64 = 2.0;
/// Least and most power that two bad targets may show. Chosen.
pub(crate) const LEAST_POWER: f64 = 1.0;
pub(crate) const MOST_POWER: f64 = 6.0;
/// Smallest and largest factor of a lower target without a good one. Chosen: after half the
/// target there are twice the pods.
pub(crate) const LEAST_FACTOR: f64 = 0.5;
pub(crate) const MOST_FACTOR: f64 = 0.93;
