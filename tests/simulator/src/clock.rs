//! Virtual time and its conversions to the types of the crate `autoscaler`.
//!
//! A run starts at zero. `autoscaler` uses Unix time (windows and decisions) and instants (request
//! counters). Both are the virtual time plus a constant, so a run does not depend on the real time.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Time since the start of the run.
pub type Time = Duration;

/// Unix time at the start: a multiple of a second, a tick and a minute.
const EPOCH: Duration = Duration::from_secs(1_600_000_020);

#[allow(clippy::disallowed_methods, reason = "any instant will do as an origin; only differences are used")]
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

pub fn unix(now: Time) -> Duration {
    EPOCH + now
}

/// Unix time in whole milliseconds.
pub fn unix_millis(now: Time) -> i64 {
    i64::try_from(unix(now).as_millis()).unwrap_or(i64::MAX)
}

/// Monotonic instant.
pub fn instant(now: Time) -> Instant {
    *ORIGIN + now
}

/// Start of the second that contains `now`.
pub fn whole_second(now: Time) -> Time {
    Duration::from_secs(now.as_secs())
}
