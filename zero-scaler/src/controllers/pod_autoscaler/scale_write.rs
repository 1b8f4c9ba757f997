//! Writes a planned size to `/scale`, and never over a size that was not observed.
//!
//! The cache lags behind other writers: the HPA with a larger size of another metric, or a user who
//! sets 0. So every write depends on the resource version that was read. In a panic a conflict is
//! resolved at once with a fresh read, because the status of a target changes with every pod that
//! starts, and the next reconcile would come too late.

use component_base::kubernetes::{ObservedReplicas, ScaleSubresource};

/// Writes in a panic before the next reconcile has to retry. Each one but the first takes a read.
const GROW_ATTEMPTS: u32 = 4;

/// The result of a planned write of `/scale`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ScaleWriteResult {
    /// The plan has no size to write, or the target has another size that stays.
    NotNeeded,
    /// Another writer reverted this size shortly before; the write is retried later.
    Delayed,
    /// This size was written.
    Written(i32),
    /// The target changed after it was observed.
    Conflict,
}

/// Writes a size if the target did not change since `before`; returns the size before.
pub(super) async fn write_once<S: ScaleSubresource>(
    target: &S,
    before: ObservedReplicas,
    size: i32,
) -> Result<Option<i32>, S::Error> {
    target.write(size, before.resource_version.as_deref()).await.map(|()| Some(before.replicas))
}

/// Writes a size over a smaller one above zero; returns the size before. `None` if the target has a
/// larger size, or is at zero, by now.
pub(super) async fn grow<S: ScaleSubresource>(
    target: &S,
    mut before: ObservedReplicas,
    size: i32,
) -> Result<Option<i32>, S::Error> {
    for _ in 1..GROW_ATTEMPTS {
        match write_once(target, before, size).await {
            Err(error) if S::is_conflict(&error) => before = target.read().await?,
            written => return written,
        }
        if before.replicas <= 0 || before.replicas >= size {
            return Ok(None);
        }
    }
    write_once(target, before, size).await
}
