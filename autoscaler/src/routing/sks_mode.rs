//! Mode of a ServerlessService: Serve sends requests to pods, Proxy sends them through activators.
//!
//! Input: the decision, and the numbers of ready pods and activators. Output: the desired mode
//! (ServerlessService `spec.mode`), the mode in effect (`status.mode`), and the number of
//! activators. zero-scaler uses them. The rules are Knative's (`kpa.go`, and `serverlessservice.go`
//! for the mode in effect), with two differences:
//!
//! - Without a decision the mode stays. In Knative it becomes Proxy, so an outage of the decider
//!   sends the requests of all workloads through activators.
//! - Without ready pods the desired mode is Proxy. In Knative only the mode in effect is; the
//!   result is the same, but users read the desired mode.

#[cfg(feature = "api")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::{BurstCapacity, Settings};

/// Minimum number of activators of a workload, so that one may fail.
const FEWEST_ACTIVATORS: u32 = 2;

/// Destination of a Service's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "api", derive(JsonSchema))]
pub enum SksMode {
    /// Activators, which hold requests while no pod is ready.
    Proxy,
    /// Pods.
    Serve,
}

/// The desired mode: Serve if pods are desired, are ready, and have enough spare capacity.
///
/// `excess_burst_capacity` is `None` without a decision. The mode then stays, because an outage of
/// the decider must not reroute the requests of all workloads.
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

/// The mode in effect: Serve without activators, else Proxy without ready pods, else the desired
/// mode. A Service thus has endpoints whenever an activator or a pod is available.
pub fn in_force(wanted: SksMode, ready_pods: u32, activators: u32) -> SksMode {
    match (ready_pods, activators) {
        (_, 0) => SksMode::Serve,
        (0, _) => SksMode::Proxy,
        _ => wanted,
    }
}

/// Concurrent requests that count as one activator's share. Knative's default, which has no setting
/// here: the number only divides a workload among activators, and each of them serves far more.
const ACTIVATOR_CAPACITY: f64 = 100.0;

/// Number of activators for the capacity of the ready pods plus the target burst capacity.
///
/// `pod_capacity` is the total capacity of one pod, not its target.
pub fn number_of_activators(ready_pods: u32, pod_capacity: f64, settings: &Settings) -> u32 {
    let spare = match settings.target.burst_capacity {
        BurstCapacity::Never => return FEWEST_ACTIVATORS,
        BurstCapacity::Always => 0.0,
        BurstCapacity::Spare(requests) => requests,
        BurstCapacity::BySize => BurstCapacity::MOST,
    };
    let carried = f64::from(ready_pods) * pod_capacity + spare;
    // `as` saturates, and turns NaN into 0.
    ((carried / ACTIVATOR_CAPACITY).ceil() as u32).max(FEWEST_ACTIVATORS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::settings::AutoscalerConfig;

    use SksMode::{Proxy, Serve};

    const ANY: &[Option<SksMode>] = &[None, Some(Proxy), Some(Serve)];

    /// Desired pods, excess burst capacity, ready pods, previous mode, resulting mode.
    type Row =
        (&'static [Option<u32>], &'static [Option<i32>], &'static [u32], &'static [Option<SksMode>], SksMode);

    const TABLE: &[Row] = &[
        // No pods are desired.
        (&[Some(0)], &[None, Some(i32::MIN), Some(-1), Some(0), Some(1)], &[0, 1, 9], ANY, Proxy),
        // No pod is ready.
        (&[None, Some(1), Some(9)], &[None, Some(i32::MIN), Some(-1), Some(0), Some(1)], &[0], ANY, Proxy),
        // kpa.go: want > 0 and excess >= 0.
        (&[Some(1), Some(9)], &[Some(0), Some(1)], &[1, 9], ANY, Serve),
        (&[Some(1), Some(9)], &[Some(i32::MIN), Some(-1)], &[1, 9], ANY, Proxy),
        // No decision: the result in kpa.go is Proxy.
        (&[None], &[None, Some(i32::MIN), Some(-1), Some(0), Some(1)], &[1, 9], &[Some(Serve)], Serve),
        (&[None], &[None, Some(i32::MIN), Some(-1), Some(0), Some(1)], &[1, 9], &[None, Some(Proxy)], Proxy),
        (&[Some(1), Some(9)], &[None], &[1, 9], &[Some(Serve)], Serve),
        (&[Some(1), Some(9)], &[None], &[1, 9], &[None, Some(Proxy)], Proxy),
    ];

    #[test]
    fn desired_mode_follows_the_table_in_every_case() {
        let mut cases = 0;
        for (pods, excess, ready, before, mode) in TABLE {
            for &pods in *pods {
                for &excess in *excess {
                    for &ready in *ready {
                        for &before in *before {
                            let got = wanted(pods, excess, ready, before);
                            assert_eq!(got, *mode, "{pods:?} {excess:?} {ready} {before:?}");
                            cases += 1;
                        }
                    }
                }
            }
        }
        // The table covers each combination of 4 desired counts, 5 excesses, 3 ready counts and 3
        // previous modes once.
        assert_eq!(cases, 4 * 5 * 3 * 3);
    }

    /// Effective mode in serverlessservice.go.
    #[test]
    fn mode_in_effect_never_leaves_a_service_without_endpoints() {
        for (mode, pods, activators, effective) in [
            (Proxy, 0, 0, Serve),
            (Proxy, 0, 1, Proxy),
            (Proxy, 0, 2, Proxy),
            (Proxy, 1, 0, Serve),
            (Proxy, 1, 1, Proxy),
            (Proxy, 2, 2, Proxy),
            (Serve, 0, 0, Serve),
            (Serve, 0, 1, Proxy),
            (Serve, 0, 2, Proxy),
            (Serve, 1, 0, Serve),
            (Serve, 1, 1, Serve),
            (Serve, 2, 2, Serve),
        ] {
            assert_eq!(in_force(mode, pods, activators), effective, "{mode:?} {pods} {activators}");
        }
    }

    #[test]
    fn number_of_activators_equals_that_of_knative() {
        // kpa_test.go: pod capacity 100, activator capacity 100: (pods, burst capacity) ->
        // activators
        let number = |pods, capacity, burst| {
            let (mut settings, _) = Settings::resolve(&AutoscalerConfig::default(), &BTreeMap::new());
            settings.target.burst_capacity = BurstCapacity::from(burst);
            number_of_activators(pods, capacity, &settings)
        };
        for (pods, burst, activators) in
            [(0, 200.0, 2), (1, 200.0, 3), (100, 0.0, 2), (5, -1.0, 5), (15, 200.0, 17)]
        {
            assert_eq!(number(pods, 100.0, burst), activators, "{pods} {burst}");
        }
        // Fractions round up, and large numbers saturate.
        assert_eq!(number(3, 67.0, 0.5), 3);
        assert_eq!([number(u32::MAX, f64::MAX, 1.0), number(0, f64::NAN, 1.0)], [u32::MAX, 2]);
    }
}
