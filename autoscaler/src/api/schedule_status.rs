//! ScheduleStatus: what the schedule of a workload requires at present, in its status and in `why`.
//!
//! It changes only when the minimum does, so it costs a write for each of these changes.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::ScheduledMinimum;

/// The smallest size by the schedule, and when it changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleStatus {
    /// Smallest size now; 0 means no bound.
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub minimum: i32,
    /// When the smallest size changes; absent if it never does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_change: Option<Time>,
    /// Smallest size from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 2_147_483_647))]
    pub next_minimum: Option<i32>,
}

// === impl ScheduleStatus ===

impl From<ScheduledMinimum> for ScheduleStatus {
    fn from(scheduled: ScheduledMinimum) -> Self {
        let size = |pods: u32| i32::try_from(pods).unwrap_or(i32::MAX);
        let at = scheduled.next.and_then(|next| Timestamp::from_millisecond(next.at).ok());
        Self {
            minimum: size(scheduled.minimum),
            next_change: at.map(Time),
            next_minimum: scheduled.next.map(|next| size(next.minimum)),
        }
    }
}

impl fmt::Display for ScheduleStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_minimum(f, self.minimum)?;
        let (Some(Time(at)), Some(next)) = (&self.next_change, self.next_minimum) else {
            return f.write_str(" at all times");
        };
        write!(f, " until {at}, then ")?;
        write_minimum(f, next)
    }
}

fn write_minimum(f: &mut fmt::Formatter<'_>, minimum: i32) -> fmt::Result {
    match minimum {
        0 => f.write_str("no minimum"),
        1 => f.write_str("at least 1 pod"),
        pods => write!(f, "at least {pods} pods"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Schedule;

    #[test]
    fn text_has_the_minimum_and_its_next_change() {
        let text = |schedule: &str| {
            let scheduled = Schedule::parse(schedule).unwrap().at(1_795_600_000_000);
            ScheduleStatus::from(scheduled).to_string()
        };
        // 2026-11-25T09:46:40Z, a Wednesday.
        assert_eq!(text("Wed 08:00-18:00: 2"), "at least 2 pods until 2026-11-25T18:00:00Z, then no minimum");
        assert_eq!(text("Thu 08:00-18:00: 1"), "no minimum until 2026-11-26T08:00:00Z, then at least 1 pod");
        assert_eq!(text("00:00-24:00: 3"), "at least 3 pods at all times");
    }
}
