//! Serve or Proxy: whether a Service's requests go to the pods or through activators, and through how many.
//!
//! Input: the decision and what is ready. Output: the mode that the PodAutoscaler wants (ServerlessService `spec.mode`) and
//! the one that its slices can have (`status.mode`). Used by the zero-scaler; the rules are Knative's (`kpa.go`, and
//! `serverlessservice.go` for the mode in force), with two differences:
//!
//! - Without a decision the mode stays. There it becomes Proxy, so that an outage of the decider sends all requests of all
//!   workloads through the activators.
//! - Pods that are wanted and not ready yet are not served to. There that is the business of the mode in force alone, which says
//!   the same; here the wanted mode says it too, because people read it.

#[cfg(feature = "api")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::settings::Settings;

/// Fewest activators in a path, so that one may fail.
const FEWEST_ACTIVATORS: u32 = 2;

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "api", derive(JsonSchema))]
pub enum SksMode {
    /// To activators, which hold them while there is no pod.
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
    use crate::settings::AutoscalerConfig;

    use SksMode::{Proxy, Serve};

    const ANY: &[Option<SksMode>] = &[None, Some(Proxy), Some(Serve)];

    /// Pods wanted, excess burst capacity, ready pods, mode before, mode.
    type Row =
        (&'static [Option<u32>], &'static [Option<i32>], &'static [u32], &'static [Option<SksMode>], SksMode);

    const TABLE: &[Row] = &[
        // Nothing is wanted.
        (&[Some(0)], &[None, Some(i32::MIN), Some(-1), Some(0), Some(1)], &[0, 1, 9], ANY, Proxy),
        // Nobody could answer.
        (&[None, Some(1), Some(9)], &[None, Some(i32::MIN), Some(-1), Some(0), Some(1)], &[0], ANY, Proxy),
        // kpa.go: want > 0 and excess >= 0.
        (&[Some(1), Some(9)], &[Some(0), Some(1)], &[1, 9], ANY, Serve),
        (&[Some(1), Some(9)], &[Some(i32::MIN), Some(-1)], &[1, 9], ANY, Proxy),
        // Nothing is known: kpa.go says Proxy.
        (&[None], &[None, Some(i32::MIN), Some(-1), Some(0), Some(1)], &[1, 9], &[Some(Serve)], Serve),
        (&[None], &[None, Some(i32::MIN), Some(-1), Some(0), Some(1)], &[1, 9], &[None, Some(Proxy)], Proxy),
        (&[Some(1), Some(9)], &[None], &[1, 9], &[Some(Serve)], Serve),
        (&[Some(1), Some(9)], &[None], &[1, 9], &[None, Some(Proxy)], Proxy),
    ];

    #[test]
    fn follows_the_table_in_every_case() {
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
        // Each of 4 wants, 5 excesses, 3 numbers of pods and 3 pasts stands in the table once.
        assert_eq!(cases, 4 * 5 * 3 * 3);
    }

    /// The effective mode in serverlessservice.go.
    #[test]
    fn a_service_is_never_emptied_by_its_mode() {
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
    fn activators_are_counted_as_knative_counts_them() {
        // kpa_test.go: pod capacity 100, activator capacity 100: (pods, burst capacity) -> activators
        let number = |pods, capacity, burst| {
            let (mut settings, _) = Settings::resolve(&AutoscalerConfig::default(), &BTreeMap::new());
            settings.target_burst_capacity = burst;
            number_of_activators(pods, capacity, &settings)
        };
        for (pods, burst, activators) in
            [(0, 200.0, 2), (1, 200.0, 3), (100, 0.0, 2), (5, -1.0, 5), (15, 200.0, 17)]
        {
            assert_eq!(number(pods, 100.0, burst), activators, "{pods} {burst}");
        }
        // A part of an activator is a whole one; and no number is too large to say.
        assert_eq!(number(3, 67.0, 0.5), 3);
        assert_eq!([number(u32::MAX, f64::MAX, 1.0), number(0, f64::NAN, 1.0)], [u32::MAX, 2]);
    }
}
