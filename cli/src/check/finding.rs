//! Finding: one thing that is wrong, with its fix.

use std::fmt;

use autoscaler::findings::Problem;
use autoscaler::findings::reasons::{ReasonDescription, filled};
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
    /// A reason of [the tables](autoscaler::findings::reasons), or of the HPA controller.
    pub reason: String,
    /// What is wrong.
    pub problem: String,
    /// What to change.
    pub fix: String,
}

// === impl Finding ===

impl Finding {
    /// An error of an object, with the fix of its reason.
    pub fn error(
        object: impl Into<String>,
        reason: impl Into<ReasonDescription>,
        problem: impl Into<String>,
    ) -> Self {
        let ReasonDescription { reason, fix, .. } = reason.into();
        let (object, problem) = (object.into(), problem.into());
        let (namespace, name) = names(&object);
        let fix = filled(fix, namespace, name, "TARGET");
        Self { severity: Severity::Error, reason: reason.to_owned(), problem, fix, object }
    }

    /// A warning about an object.
    pub fn warning(
        object: impl Into<String>,
        reason: impl Into<ReasonDescription>,
        problem: impl Into<String>,
    ) -> Self {
        Self::error(object, reason, problem).as_warning()
    }

    /// An error, from a check that the zero-scaler has too.
    pub fn of_problem(object: impl Into<String>, problem: Problem) -> Self {
        let finding = Self::error(object, problem.reason, problem.problem);
        if problem.fix == problem.reason.fix() { finding } else { finding.with_fix(problem.fix) }
    }

    /// The same, as a warning.
    #[must_use]
    pub fn as_warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }

    /// The same, with a fix that names more than the reason's.
    #[must_use]
    pub fn with_fix(self, fix: impl Into<String>) -> Self {
        Self { fix: fix.into(), ..self }
    }

    /// The same, with the workload's target in the fix.
    #[must_use]
    pub fn of_target(self, target: &str) -> Self {
        Self { fix: self.fix.replace("TARGET", target), ..self }
    }
}

/// Namespace and name of an object that is named as in findings.
fn names(object: &str) -> (&str, &str) {
    let name = object.split_once(' ').map_or(object, |(_, name)| name);
    name.split_once('/').unwrap_or(("", name))
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
