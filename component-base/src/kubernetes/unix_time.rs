//! Times of Kubernetes objects as durations since the Unix epoch, which observations use.

use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The time in Unix time, in whole seconds; `None` before 1970.
pub fn unix_time(time: &Time) -> Option<Duration> {
    u64::try_from(time.0.as_second()).ok().map(Duration::from_secs)
}
