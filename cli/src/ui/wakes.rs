//! Wakes of one workload, with the moment at which its size was written. Pure.
//!
//! The metrics-adapter has what the activator saw of a wake; the write is the zero-scaler's, and is
//! in its event `ScaledFromZero`. The event of a wake is the one whose time lies in the hold: both
//! have the wall clock of their own machine.

use autoscaler::history::Wake;
use k8s_openapi::api::events::v1::Event;
use serde::Serialize;

/// The event of a write by the wake path.
const SCALED: &str = "ScaledFromZero";
/// How far the clocks of two machines may differ, in milliseconds.
const CLOCK_DIFFERENCE_MS: i64 = 500;

/// A wake, as the page shows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ShownWake {
    #[serde(flatten)]
    wake: Wake,
    /// Milliseconds after `received` at which the size was written; `None` if its event is gone.
    written: Option<u32>,
}

/// The wakes, the newest first.
pub(super) fn with_writes(wakes: &[Wake], events: &[Event]) -> Vec<ShownWake> {
    let writes: Vec<i64> = events.iter().filter_map(written_at).collect();
    let mut shown: Vec<_> =
        wakes.iter().map(|wake| ShownWake { wake: *wake, written: written(wake, &writes) }).collect();
    shown.sort_by_key(|shown| std::cmp::Reverse(shown.wake.received));
    shown
}

fn written_at(event: &Event) -> Option<i64> {
    let time = event.event_time.as_ref().filter(|_| event.reason.as_deref() == Some(SCALED))?;
    Some(time.0.as_millisecond())
}

/// The first write in the hold. It lies between the report and the pod, whatever the clocks say.
fn written(wake: &Wake, writes: &[i64]) -> Option<u32> {
    let after = writes.iter().map(|at| at - wake.received);
    let latest = i64::from(wake.created.unwrap_or(wake.started));
    let held = -CLOCK_DIFFERENCE_MS..=i64::from(wake.forwarded) + CLOCK_DIFFERENCE_MS;
    let first = after.filter(|ms| held.contains(ms)).min()?;
    let earliest = i64::from(wake.reported.unwrap_or(0)).min(latest);
    u32::try_from(first.clamp(earliest, latest)).ok()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

    use super::*;

    fn wake(received: i64) -> Wake {
        Wake {
            received,
            reported: Some(1),
            created: Some(40),
            scheduled: Some(50),
            started: 700,
            verified: 900,
            forwarded: 901,
            answered: 910,
        }
    }

    fn event(reason: &str, at: i64) -> Event {
        let time = MicroTime(Timestamp::from_millisecond(at).unwrap());
        Event { reason: Some(reason.to_owned()), event_time: Some(time), ..Event::default() }
    }

    #[test]
    fn write_is_the_event_in_the_hold() {
        let events = [
            event("ScaledToZero", 1_000_004),
            event(SCALED, 900_000),
            event(SCALED, 1_000_006),
            event(SCALED, 2_000_400),
        ];
        let shown = with_writes(&[wake(1_000_000), wake(2_000_000), wake(3_000_000)], &events);
        let written: Vec<_> = shown.iter().map(|shown| (shown.wake.received, shown.written)).collect();
        // The clock of the second one's zero-scaler is ahead: its pod is there at 40 ms.
        assert_eq!(written, [(3_000_000, None), (2_000_000, Some(40)), (1_000_000, Some(6))]);
        let behind = with_writes(&[wake(1_000_000)], &[event(SCALED, 999_900)]);
        assert_eq!(behind[0].written, Some(1));
    }
}
