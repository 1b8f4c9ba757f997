//! What became of a planned write of `/scale`.

/// What became of the size.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ScaleWriteResult {
    /// Nothing was to be written.
    Nothing,
    /// It is too early to write it again.
    Later,
    /// This.
    Size(i32),
    /// The target changed since it was observed.
    Conflict,
}
