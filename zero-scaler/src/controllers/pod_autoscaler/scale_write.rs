//! The result of a planned write of `/scale`.

/// The result of a planned write of `/scale`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ScaleWriteResult {
    /// The plan has no size to write.
    NotNeeded,
    /// Another writer reverted this size shortly before; the write is retried later.
    Delayed,
    /// This size was written.
    Written(i32),
    /// The target changed after it was observed.
    Conflict,
}
