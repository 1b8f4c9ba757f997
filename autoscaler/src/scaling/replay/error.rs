//! Errors of a replay.

/// Why a line of a trace cannot be replayed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReplayError {
    /// A value is out of bounds.
    #[error("{field} is {value:?}, but must be {bound}")]
    OutOfBounds {
        /// Name of the field, with its parent's.
        field: &'static str,
        value: f64,
        /// The accepted values.
        bound: &'static str,
    },
    /// The time is before the previous line's.
    #[error("t is {t:?}, but must be at least {latest:?}, the time of the previous line")]
    Backwards {
        /// Time of the line, in seconds.
        t: f64,
        /// Time of the previous line, in seconds.
        latest: f64,
    },
    /// The line has no kind, or several.
    #[error("the line has {found}, but must have exactly one of spec, stat, ready and decide besides t")]
    Kind {
        /// The kinds in the line.
        found: String,
    },
    /// `"decide": false`.
    #[error("decide is false, but must be true or absent")]
    DecideFalse,
    /// The first line is not a start line.
    #[error("the first line must have t, spec and ready")]
    NotStarted,
    /// A later line is a start line.
    #[error("only the first line may have both spec and ready; put them into two lines")]
    StartedAlready,
    /// A value that must not change within a trace was changed.
    #[error("{field} differs from the first line; it must not change within a trace")]
    Fixed {
        /// Name of the field, with its parent's.
        field: &'static str,
    },
}
