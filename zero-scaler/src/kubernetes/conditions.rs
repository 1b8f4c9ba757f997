//! Conditions as people read them: one a type, with the time of the last change of status.
//!
//! Used by both status stages. The clock of the way to zero hangs on `lastTransitionTime`, so it moves only when a status
//! flips, and never because a reason or a message reads differently.

use std::fmt;

use autoscaler::api::PodAutoscaler;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::reasons::Reason;

/// The condition of a PodAutoscaler whose target is known to work. It stays True through sleep.
pub const INITIALIZED: &str = "ScaleTargetInitialized";

/// True, False or Unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// It is on the way, or cannot be told.
    Unknown,
}

/// What a condition should say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionContent {
    /// The condition's status.
    pub status: ConditionStatus,
    /// One CamelCase word.
    pub reason: Reason,
    /// A sentence for people; may be empty.
    pub message: String,
}

// === impl Says ===

impl ConditionContent {
    /// It holds.
    pub fn yes(reason: Reason, message: impl Into<String>) -> Self {
        Self { status: ConditionStatus::True, reason, message: message.into() }
    }

    /// It does not hold.
    pub fn no(reason: Reason, message: impl Into<String>) -> Self {
        Self { status: ConditionStatus::False, reason, message: message.into() }
    }

    /// It cannot be told yet.
    pub fn unknown(reason: Reason, message: impl Into<String>) -> Self {
        Self { status: ConditionStatus::Unknown, reason, message: message.into() }
    }
}

// === impl ConditionStatus ===

impl fmt::Display for ConditionStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        })
    }
}

/// Those of a workload, as last written.
pub fn of(autoscaler: &PodAutoscaler) -> &[Condition] {
    autoscaler.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default()
}

/// Writes one condition into the list.
pub fn set(
    conditions: &mut Vec<Condition>,
    r#type: &str,
    says: ConditionContent,
    generation: Option<i64>,
    now: Timestamp,
) {
    let status = says.status.to_string();
    let since = conditions
        .iter()
        .find(|c| c.type_ == r#type && c.status == status)
        .map_or_else(|| Time(whole_seconds(now)), |c| c.last_transition_time.clone());
    conditions.retain(|c| c.type_ != r#type);
    conditions.push(Condition {
        type_: r#type.to_owned(),
        status,
        reason: says.reason.as_str().to_owned(),
        message: says.message,
        observed_generation: generation,
        last_transition_time: since,
    });
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
}

/// Whether the condition is there and True.
pub fn is_true(conditions: &[Condition], r#type: &str) -> bool {
    autoscaler::api::condition(conditions, r#type).is_some_and(|c| c.status == "True")
}

/// Since when the condition has its status, in Unix milliseconds.
pub fn since(condition: &Condition) -> i64 {
    condition.last_transition_time.0.as_millisecond()
}

/// The API's own resolution: anything finer would be lost in the first round trip.
fn whole_seconds(now: Timestamp) -> Timestamp {
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn time_moves_only_when_the_status_flips() {
        let mut conditions = Vec::new();
        set(
            &mut conditions,
            "Ready",
            ConditionContent::unknown(Reason::Activating, "pods start"),
            Some(1),
            at(10),
        );
        set(&mut conditions, "Ready", ConditionContent::unknown(Reason::Queued, "still"), Some(2), at(20));
        assert_eq!((since(&conditions[0]), conditions[0].reason.as_str()), (10_000, "Queued"));
        assert_eq!(conditions[0].observed_generation, Some(2));
        set(&mut conditions, "Ready", ConditionContent::yes(Reason::PodsReady, ""), Some(2), at(30));
        assert_eq!((since(&conditions[0]), conditions.len()), (30_000, 1));
        assert!(is_true(&conditions, "Ready"));
        assert!(!is_true(&conditions, "Active"));
    }
}
