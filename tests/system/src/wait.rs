//! Waiting for a condition, with a deadline: the only way in which tests let time pass.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

/// Pause between two checks that read an object.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Pause between two checks that send a request from a pod.
pub const REQUEST_INTERVAL: Duration = Duration::from_millis(200);

/// Repeats `check` until it returns a value; fails after `deadline` with `what` was awaited and the
/// last result.
///
/// # Errors
/// After the deadline. A check that fails counts as "not yet"; the last failure is in the message.
pub async fn until<T, F>(what: &str, deadline: Duration, check: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    until_at(POLL_INTERVAL, what, deadline, check).await
}

/// The same, with this pause between two checks.
///
/// # Errors
/// As [`until`].
pub async fn until_at<T, F>(
    interval: Duration,
    what: &str,
    deadline: Duration,
    mut check: impl FnMut() -> F,
) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let end = Instant::now() + deadline;
    loop {
        let last = match check().await {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => "not yet".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        if Instant::now() >= end {
            bail!("waited {deadline:?} for {what}; last: {last}");
        }
        tokio::time::sleep(interval).await;
    }
}
