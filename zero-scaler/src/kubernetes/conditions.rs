//! Conditions of a status: one for each type, with the time of the last change of its status.
//!
//! Both status stages write them. `lastTransitionTime` also is the clock of the scale-to-zero
//! sequence, so it changes only with the status of a condition, not with its reason or message.

use std::fmt;

use autoscaler::api::PodAutoscaler;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::reasons::Reason;

/// Condition of a PodAutoscaler: its target had its initial number of ready pods once. Stays True
/// at zero.
pub const INITIALIZED: &str = "ScaleTargetInitialized";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    True,
    False,
    /// Also while a transition is under way.
    Unknown,
}

/// Status, reason and message of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionContent {
    pub status: ConditionStatus,
    /// Machine-readable reason.
    pub reason: Reason,
    /// One sentence, or empty.
    pub message: String,
}

// === impl ConditionContent ===

impl ConditionContent {
    /// Status True.
    pub fn yes(reason: Reason, message: impl Into<String>) -> Self {
        Self { status: ConditionStatus::True, reason, message: message.into() }
    }

    /// Status False.
    pub fn no(reason: Reason, message: impl Into<String>) -> Self {
        Self { status: ConditionStatus::False, reason, message: message.into() }
    }

    /// Status Unknown.
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

/// The conditions in the status of a PodAutoscaler.
pub fn of(autoscaler: &PodAutoscaler) -> &[Condition] {
    autoscaler.status.as_ref().map(|s| s.conditions.as_slice()).unwrap_or_default()
}

/// Sets one condition in the list.
///
/// A time of change that is ahead of `now` was written by a process with another clock. It is
/// replaced, because the scale-to-zero sequence would wait until then.
pub fn set(
    conditions: &mut Vec<Condition>,
    r#type: &str,
    content: ConditionContent,
    generation: Option<i64>,
    now: Timestamp,
) {
    let status = content.status.to_string();
    let since = conditions
        .iter()
        .find(|c| c.type_ == r#type && c.status == status && c.last_transition_time.0 <= now)
        .map_or_else(|| Time(whole_seconds(now)), |c| c.last_transition_time.clone());
    conditions.retain(|c| c.type_ != r#type);
    conditions.push(Condition {
        type_: r#type.to_owned(),
        status,
        reason: content.reason.as_str().to_owned(),
        message: content.message,
        observed_generation: generation,
        last_transition_time: since,
    });
    conditions.sort_by(|a, b| a.type_.cmp(&b.type_));
}

/// Whether the list has the condition with status True.
pub fn is_true(conditions: &[Condition], r#type: &str) -> bool {
    autoscaler::api::condition(conditions, r#type).is_some_and(|c| c.status == "True")
}

/// Time of the last change of status, in Unix milliseconds.
pub fn since(condition: &Condition) -> i64 {
    condition.last_transition_time.0.as_millisecond()
}

/// The resolution of times in the API: fractions would be lost in the first round trip.
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
    fn transition_time_changes_only_with_status() {
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

    #[test]
    fn transition_time_ahead_of_the_clock_is_replaced() {
        let mut conditions = Vec::new();
        for (now, expected) in [(3600, 3600), (10, 10), (20, 10)] {
            set(&mut conditions, "Ready", ConditionContent::yes(Reason::PodsReady, ""), None, at(now));
            assert_eq!(since(&conditions[0]), expected * 1000);
        }
    }
}
