//! Waiting for a condition, with a deadline: the only way in which tests let time pass.

use std::time::Duration;

use anyhow::{Result, bail};
use tokio::time::Instant;

/// Pause between two looks at the cluster.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Looks until `look` finds something, and fails after `deadline` with `what` was awaited and what was seen last.
///
/// # Errors
/// After the deadline. A look that fails counts as nothing found; the last failure is in the message.
pub async fn until<T, F>(what: &str, deadline: Duration, mut look: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Option<T>>>,
{
    let end = Instant::now() + deadline;
    loop {
        let seen = match look().await {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => "not yet".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        if Instant::now() >= end {
            bail!("waited {deadline:?} for {what}; last: {seen}");
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}
