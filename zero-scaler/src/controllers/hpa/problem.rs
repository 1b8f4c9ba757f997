//! A problem of an HPA, as its events and the condition HPAAccepted report it.

use crate::kubernetes::reasons::Reason;

/// A reason, and a message that names the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HpaProblem {
    /// Reason of the event or condition.
    pub reason: Reason,
    /// One sentence.
    pub message: String,
}

// === impl HpaProblem ===

impl HpaProblem {
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}
