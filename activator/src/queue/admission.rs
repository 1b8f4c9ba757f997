//! AdmissionGate: whether requests of one workload may wait.
//!
//! Input: the settings of the workload, and whether it has a usable pod. Output: rejections of the
//! requests that arrive, and of those that wait when the state changes.

use std::sync::Arc;

use autoscaler::settings::Pause;
use component_base::clock::unix_millis;
use tokio::sync::watch;

use crate::queue::rejection::Rejection;
use crate::workloads::{StartFailure, Workload};

/// Admits requests of one workload to its queue.
#[derive(Debug)]
pub struct AdmissionGate {
    state: watch::Sender<Admission>,
}

/// Whether requests may wait.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Admission {
    Open,
    Paused(Pause),
    CannotStart(Arc<StartFailure>),
    /// For ever.
    Closed(Rejection),
}

// === impl AdmissionGate ===

impl AdmissionGate {
    /// Whether requests may wait. A rejected request must not be counted, for it must not wake the
    /// workload.
    ///
    /// # Errors
    /// [`Rejection::Paused`], [`Rejection::CannotStart`], and that of [`Self::close`].
    pub fn check(&self) -> Result<(), Rejection> {
        self.state.borrow().rejection().map_or(Ok(()), Err)
    }

    /// Completes when requests may not wait any more.
    pub async fn rejected(&self) -> Rejection {
        let mut state = self.state.subscribe();
        let changed = state.wait_for(|admission| admission.rejection().is_some()).await;
        // The sender lives as long as the gate.
        let rejection = changed.ok().and_then(|admission| admission.rejection());
        rejection.unwrap_or(Rejection::WorkloadDeleted)
    }

    /// Applies a change of the pods or of the workload.
    pub(super) fn update(&self, has_usable_pod: bool, workload: &Workload) {
        let now = if has_usable_pod { Admission::Open } else { Admission::without_pods(workload) };
        self.state.send_if_modified(|admission| {
            let is_new = !matches!(admission, Admission::Closed(_)) && *admission != now;
            if is_new {
                *admission = now;
            }
            is_new
        });
    }

    /// Rejects all requests from now on, and those that wait.
    pub(super) fn close(&self, rejection: Rejection) {
        self.state.send_replace(Admission::Closed(rejection));
    }
}

impl Default for AdmissionGate {
    fn default() -> Self {
        Self { state: watch::Sender::new(Admission::Open) }
    }
}

// === impl Admission ===

impl Admission {
    fn without_pods(workload: &Workload) -> Self {
        match &workload.start_failure {
            _ if workload.pause != Pause::Off => Self::Paused(workload.pause),
            Some(failure) if failure.given_up => Self::CannotStart(failure.clone()),
            _ => Self::Open,
        }
    }

    fn rejection(&self) -> Option<Rejection> {
        match self {
            Self::Open => None,
            Self::Paused(pause) => pause.is_in_force(unix_millis()).then_some(Rejection::Paused(*pause)),
            Self::CannotStart(failure) => Some(Rejection::CannotStart { failure: failure.clone() }),
            Self::Closed(rejection) => Some(rejection.clone()),
        }
    }
}
