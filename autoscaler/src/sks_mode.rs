//! Serve or Proxy: whether a Service's requests go to the pods or through activators, and through how many.
//!
//! Input: the decision and what is ready. Output: the mode that the PodAutoscaler wants (ServerlessService `spec.mode`) and
//! the one that its slices can have (`status.mode`). Used by the zero-scaler; the rules are Knative's.

use crate::settings::Settings;

/// Fewest activators in a path, so that one may fail.
const FEWEST_ACTIVATORS: u32 = 2;

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SksMode {
    /// Through activators.
    Proxy,
    /// To the pods.
    Serve,
}

/// The mode that should be: through activators unless pods are wanted, are ready, and have enough capacity to spare.
///
/// `excess_burst_capacity` is `None` while no decision is known. Then the mode stays what it is: an outage of the
/// decider must not reroute everybody's requests.
pub fn wanted(
    wanted_pods: Option<u32>,
    excess_burst_capacity: Option<i32>,
    ready_pods: u32,
    before: Option<SksMode>,
) -> SksMode {
    match (wanted_pods, excess_burst_capacity) {
        (Some(0), _) => SksMode::Proxy,
        _ if ready_pods == 0 => SksMode::Proxy,
        (Some(_), Some(excess)) => {
            if excess >= 0 {
                SksMode::Serve
            } else {
                SksMode::Proxy
            }
        }
        _ => before.unwrap_or(SksMode::Proxy),
    }
}

/// The mode that the slices can have: without pods only Proxy, but without activators always Serve, so that a Service is
/// never empty while somebody could answer.
pub fn in_force(wanted: SksMode, ready_pods: u32, activators: u32) -> SksMode {
    match (ready_pods, activators) {
        (_, 0) => SksMode::Serve,
        (0, _) => SksMode::Proxy,
        _ => wanted,
    }
}

/// How many activators carry the capacity of the ready pods and the burst to be absorbed.
///
/// `pod_capacity` is what one pod can carry in all, not the share of it that is aimed for.
pub fn number_of_activators(ready_pods: u32, pod_capacity: f64, settings: &Settings) -> u32 {
    if settings.target_burst_capacity == 0.0 {
        return FEWEST_ACTIVATORS;
    }
    let carried = f64::from(ready_pods) * pod_capacity + settings.target_burst_capacity.max(0.0);
    // `as` saturates, and turns NaN into 0.
    ((carried / settings.activator_capacity).ceil() as u32).max(FEWEST_ACTIVATORS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::AutoscalerConfig;

    #[test]
    fn serves_only_with_pods_wanted_ready_and_capacity_to_spare() {
        use SksMode::{Proxy, Serve};
        for (pods, excess, ready, before, mode) in [
            (Some(1), Some(0), 1, None, Serve),
            (Some(1), Some(-1), 1, Some(Serve), Proxy),
            (Some(0), Some(10), 1, Some(Serve), Proxy),
            (Some(1), Some(10), 0, Some(Serve), Proxy),
            (None, None, 0, Some(Serve), Proxy),
            (None, None, 1, None, Proxy),
            // The decider is silent.
            (None, None, 1, Some(Serve), Serve),
            (Some(1), None, 1, Some(Serve), Serve),
            (Some(0), None, 1, Some(Serve), Proxy),
        ] {
            assert_eq!(wanted(pods, excess, ready, before), mode, "{pods:?} {excess:?} {ready} {before:?}");
        }
    }

    #[test]
    fn a_service_is_never_emptied_by_its_mode() {
        use SksMode::{Proxy, Serve};
        for (mode, pods, activators, effective) in [
            (Proxy, 1, 1, Proxy),
            (Serve, 1, 1, Serve),
            (Serve, 0, 1, Proxy),
            (Proxy, 1, 0, Serve),
            (Proxy, 0, 0, Serve),
        ] {
            assert_eq!(in_force(mode, pods, activators), effective, "{mode:?} {pods} {activators}");
        }
    }

    #[test]
    fn activators_are_counted_as_knative_counts_them() {
        // kpa_test.go: pod capacity 100, activator capacity 100: (pods, burst capacity) -> activators
        for (pods, burst, activators) in
            [(0, 200.0, 2), (1, 200.0, 3), (100, 0.0, 2), (5, -1.0, 5), (15, 200.0, 17)]
        {
            let (mut settings, _) = Settings::resolve(&AutoscalerConfig::default(), &BTreeMap::new());
            settings.target_burst_capacity = burst;
            assert_eq!(number_of_activators(pods, 100.0, &settings), activators, "{pods} {burst}");
        }
    }
}
