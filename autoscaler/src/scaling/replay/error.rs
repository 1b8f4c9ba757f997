//! Why a line of a trace cannot be replayed.

/// Why a line cannot be replayed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ReplayError {
    /// A number that makes no sense.
    #[error("{field} is {value:?}, but must be {bound}")]
    OutOfBounds {
        /// Name of the field, with its parent's.
        field: &'static str,
        /// What it is.
        value: f64,
        /// What would be accepted.
        bound: &'static str,
    },
    /// Time ran backwards.
    #[error("t is {t:?}, but must not be before {latest:?}, where the trace is already")]
    Backwards {
        /// What it is, in seconds.
        t: f64,
        /// The largest so far, in seconds.
        latest: f64,
    },
    /// No kind of line, or several.
    #[error("the line has {found}, but must have just one of spec, stat, ready and decide beside t")]
    Kind {
        /// What it has.
        found: String,
    },
    /// `"decide": false`.
    #[error("decide is false, but must be true, or not be there")]
    DecideFalse,
    /// The first line is of another kind.
    #[error("the first line must have t, spec and ready: what to decide by, and how many pods there are")]
    NotStarted,
    /// A later line is of the first one's kind.
    #[error(
        "spec and ready in one line start a trace, which has started already: give them in lines of their own"
    )]
    StartedAlready,
    /// A value that holds for the whole trace was changed.
    #[error("{field} differs from that of the first line, but must stay the same")]
    Fixed {
        /// Name of the field, with its parent's.
        field: &'static str,
    },
}
