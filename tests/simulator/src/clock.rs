//! Virtual time, and the forms in which the brain wants it.
//!
//! A run starts at zero. The brain knows Unix time (windows and decisions) and instants (request counters); both are the
//! virtual time moved by a constant, so a run that starts at another real moment is the same run.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Time since the start of the run.
pub type Time = Duration;

/// Unix time at the start: a whole number of seconds, ticks and minutes.
const EPOCH: Duration = Duration::from_secs(1_600_000_020);

#[allow(clippy::disallowed_methods, reason = "any instant will do as an origin; only differences are used")]
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// As Unix time.
pub fn unix(now: Time) -> Duration {
    EPOCH + now
}

/// As whole Unix milliseconds.
pub fn unix_millis(now: Time) -> i64 {
    i64::try_from(unix(now).as_millis()).unwrap_or(i64::MAX)
}

/// As an instant.
pub fn instant(now: Time) -> Instant {
    *ORIGIN + now
}

/// The second that `now` lies in, from its start.
pub fn whole_second(now: Time) -> Time {
    Duration::from_secs(now.as_secs())
}
