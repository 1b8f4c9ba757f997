//! Finding: one thing that is wrong, with its fix.

use std::fmt;

use serde::Serialize;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Severity {
    /// Requests are not served, or sizes do not follow the load.
    Error,
    /// It works, and not as it should.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The object, such as `Service shop/web`.
    pub object: String,
    /// One CamelCase word; the condition's reason where it has one.
    pub reason: String,
    /// What is wrong.
    pub problem: String,
    /// What to change.
    pub fix: String,
}

// === impl Finding ===

impl Finding {
    /// An error of an object.
    pub fn error(
        object: impl Into<String>,
        reason: &str,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            severity: Severity::Error,
            object: object.into(),
            reason: reason.to_owned(),
            problem: problem.into(),
            fix: fix.into(),
        }
    }

    /// A warning about an object.
    pub fn warning(
        object: impl Into<String>,
        reason: &str,
        problem: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::error(object, reason, problem, fix).as_warning()
    }

    /// The same, as a warning.
    #[must_use]
    pub fn as_warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { severity, object, reason, problem, fix } = self;
        let severity = match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{severity}: {object}: {problem} ({reason})\n  fix: {fix}")
    }
}
