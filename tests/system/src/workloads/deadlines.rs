//! Deadlines of the tests, with room for a loaded machine.

use std::time::Duration;

/// A kubelet on two cores reports the end of a pod half a minute late while dozens of others
/// start.
pub const POD_START: Duration = Duration::from_secs(180);
/// A rollout of two pods, one after the other, which take new requests for some seconds at their
/// end.
pub const ROLLOUT: Duration = Duration::from_secs(180);
/// A window of 6 s, a grace period of 3 s, the HPA's scale-down and the pods' termination.
pub const TO_ZERO: Duration = Duration::from_secs(180);
