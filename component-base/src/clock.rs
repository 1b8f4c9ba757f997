//! The wall clock, read in one place, and waits until an optional instant.
//!
//! Wall time is only for data that leaves the process: timestamps in stats, decisions and
//! Kubernetes objects. Durations are measured with `tokio::time::Instant`, which tests can pause.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// Time since the Unix epoch; zero if the clock is set before it.
#[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
pub fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Time since the last whole second, at which periods of statistics end.
pub fn into_second() -> Duration {
    Duration::from_nanos(u64::from(since_epoch().subsec_nanos()))
}

/// Whole Unix seconds.
pub fn unix_seconds() -> i64 {
    i64::try_from(since_epoch().as_secs()).unwrap_or(i64::MAX)
}

/// Whole Unix milliseconds.
pub fn unix_millis() -> i64 {
    i64::try_from(since_epoch().as_millis()).unwrap_or(i64::MAX)
}

/// Waits until `due`; for ever without one.
pub async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
