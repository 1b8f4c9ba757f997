//! Problem: what is wrong, why, and what to change.

use super::reasons::{Reason, filled};

/// Something to change in an object of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Reason of the condition, event or finding.
    pub reason: Reason,
    /// What is wrong, as a clause.
    pub problem: String,
    /// What to change, as a clause; empty where the problem states it.
    pub fix: String,
}

// === impl Problem ===

impl Problem {
    /// A problem with a fix of its own.
    pub fn new(reason: Reason, problem: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { reason, problem: problem.into(), fix: fix.into() }
    }

    /// A problem with the fix of its reason.
    pub fn with_usual_fix(reason: Reason, problem: impl Into<String>) -> Self {
        Self::new(reason, problem, reason.fix())
    }

    /// With the names in the fix: the namespace, and the target as kubectl takes it.
    #[must_use]
    pub fn of_target(self, namespace: &str, target: &str) -> Self {
        Self { fix: filled(&self.fix, namespace, "", target), ..self }
    }

    /// Both, as the message of a condition or event.
    pub fn message(&self) -> String {
        match self.fix.as_str() {
            "" => self.problem.clone(),
            fix => format!("{}; {fix}", self.problem),
        }
    }
}
