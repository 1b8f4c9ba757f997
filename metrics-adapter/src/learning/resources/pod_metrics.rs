//! PodMetrics: one item of `metrics.k8s.io`, and the share of its limits that a pod uses.
//!
//! The fullest container counts, in relation to its own limit. A share is absent unless every
//! container of the app with that limit has a reading of its present run: the one that is missing
//! may be the fullest.

use std::time::Duration;

use autoscaler::contract::quantity::{ParseQuantityError, parse_milli};
use autoscaler::settings::parse_duration;
use component_base::kubernetes::unix_time;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;

use crate::watches::app_containers::AppContainer;

/// Readings that are older do not count, nor those that are so far in the future.
pub(super) const MAX_AGE: Duration = Duration::from_secs(120);
/// A larger share of a limit is dropped. A container may exceed a limit that was just lowered.
const MAX_SHARE: f64 = 10.0;

/// CPU and memory of the containers of one pod.
#[derive(Debug, Deserialize)]
pub(super) struct PodMetrics {
    pub(super) metadata: ObjectName,
    /// End of the interval over which CPU was measured, and the time of the memory reading.
    timestamp: Time,
    /// That interval.
    window: Option<String>,
    containers: Vec<ContainerMetrics>,
}

/// Namespace and name of a pod.
#[derive(Debug, Deserialize)]
pub(super) struct ObjectName {
    pub(super) namespace: String,
    pub(super) name: String,
}

#[derive(Debug, Deserialize)]
struct ContainerMetrics {
    name: String,
    usage: Usage,
}

#[derive(Debug, Deserialize)]
struct Usage {
    cpu: Option<Milli>,
    memory: Option<Milli>,
}

/// A quantity in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
struct Milli(i64);

/// What a pod uses at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PodReading {
    /// In Unix time, by the clock of the node.
    pub(super) at: Duration,
    pub(super) age: Duration,
    /// The time before `at` over which CPU was measured.
    pub(super) window: Option<Duration>,
    /// Share of the memory limit.
    pub(super) memory: Option<f64>,
    /// Share of the CPU limit.
    pub(super) cpu: Option<f64>,
}

// === impl PodMetrics ===

impl PodMetrics {
    /// The reading of a pod with these containers at `now`, in Unix time; `None` if it is too old.
    pub(super) fn reading(&self, containers: &[AppContainer], now: Duration) -> Option<PodReading> {
        let at = unix_time(&self.timestamp)?;
        let age = now.abs_diff(at);
        (age <= MAX_AGE).then(|| PodReading {
            at,
            age,
            window: self.window.as_deref().and_then(|window| parse_duration(window).ok()),
            // A process without any memory does not exist.
            memory: self.share(
                containers,
                at,
                |it| it.memory_limit,
                |usage| usage.memory.filter(|it| it.0 > 0),
            ),
            cpu: self.share(containers, at, |it| it.cpu_limit, |usage| usage.cpu.filter(|it| it.0 >= 0)),
        })
    }

    fn share(
        &self,
        containers: &[AppContainer],
        at: Duration,
        limit: fn(&AppContainer) -> Option<i64>,
        used: fn(&Usage) -> Option<Milli>,
    ) -> Option<f64> {
        let limited = containers.iter().filter_map(|container| Some((container, limit(container)?)));
        let share = |(container, limit): (&AppContainer, i64)| {
            let metrics = self.containers.iter().find(|metrics| *metrics.name == *container.name)?;
            let started_before = container.started.is_some_and(|started| started < at);
            let share = used(&metrics.usage)?.0 as f64 / limit as f64;
            (started_before && share <= MAX_SHARE).then_some(share)
        };
        let shares: Option<Vec<f64>> = limited.map(share).collect();
        shares?.into_iter().reduce(f64::max)
    }
}

// === impl Milli ===

impl TryFrom<String> for Milli {
    type Error = ParseQuantityError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        parse_milli(&text).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    const AT: Duration = Duration::from_secs(1_600_000_000);
    const MIB: i64 = 1024 * 1024 * 1000;

    fn container(name: &str, memory_limit: Option<i64>, cpu_limit: Option<i64>) -> AppContainer {
        let started = Some(AT - Duration::from_secs(100));
        AppContainer { name: name.into(), memory_limit, cpu_limit, started }
    }

    fn app() -> AppContainer {
        container("app", Some(256 * MIB), Some(2000))
    }

    /// As metrics-server sends it.
    fn metrics(containers: Value) -> Value {
        json!({
            "metadata": {
                "name": "web-5d9", "namespace": "shop", "creationTimestamp": "2020-09-13T12:26:45Z",
                "labels": {"app": "web"},
            },
            "timestamp": "2020-09-13T12:26:40Z", "window": "15.213s", "containers": containers,
        })
    }

    fn usage(name: &str, cpu: &str, memory: &str) -> Value {
        json!({"name": name, "usage": {"cpu": cpu, "memory": memory}})
    }

    fn decode(containers: Value) -> PodMetrics {
        serde_json::from_value(metrics(containers)).unwrap()
    }

    /// The shares of memory and CPU.
    fn shares(used: Value, limits: &[AppContainer]) -> (Option<f64>, Option<f64>) {
        let reading = decode(used).reading(limits, AT).unwrap();
        (reading.memory, reading.cpu)
    }

    #[test]
    fn reading_is_the_share_of_the_fullest_container_of_the_app() {
        let used = json!([
            usage("app", "500000000n", "64Mi"),
            usage("queue-proxy", "2", "512Mi"),
            usage("cache", "100m", "24576Ki"),
        ]);
        assert_eq!(shares(used.clone(), &[app()]), (Some(0.25), Some(0.25)));
        let cache = container("cache", Some(32 * MIB), None);
        assert_eq!(shares(used.clone(), &[app(), cache]), (Some(0.75), Some(0.25)));
        assert_eq!(shares(used.clone(), &[container("app", None, Some(1000))]), (None, Some(0.5)));
        assert_eq!(shares(used, &[]), (None, None), "without a limit there is no share");
    }

    #[test]
    fn missing_container_or_value_is_no_share() {
        let cache = container("cache", Some(32 * MIB), None);
        let used = json!([usage("app", "1", "64Mi")]);
        assert_eq!(shares(used, &[app(), cache]), (None, Some(0.5)), "cache may be the fullest");
        let without_memory = json!([{"name": "app", "usage": {"cpu": "0"}}]);
        assert_eq!(shares(without_memory, &[app()]), (None, Some(0.0)));
        for (cpu, memory) in [("-1", "0"), ("21", "-64Mi"), ("9e12", "2561Mi")] {
            let used = json!([usage("app", cpu, memory)]);
            assert_eq!(shares(used, &[app()]), (None, None), "{cpu} {memory}");
        }
        assert_eq!(shares(json!([]), &[app()]), (None, None));
    }

    #[test]
    fn reading_of_before_the_start_or_of_another_time_does_not_count() {
        let used = decode(json!([usage("app", "1", "64Mi")]));
        for (started, counts) in [(Some(99), true), (Some(100), false), (Some(101), false), (None, false)] {
            let started = started.map(|seconds| AT + Duration::from_secs(seconds) - Duration::from_secs(100));
            let reading = used.reading(&[AppContainer { started, ..app() }], AT).unwrap();
            assert_eq!((reading.memory.is_some(), reading.cpu.is_some()), (counts, counts), "{started:?}");
        }
        let age = |now: Duration| used.reading(&[app()], now).map(|reading| reading.age.as_secs());
        assert_eq!((age(AT), age(AT + MAX_AGE), age(AT - MAX_AGE)), (Some(0), Some(120), Some(120)));
        let second = Duration::from_secs(1);
        assert_eq!((age(AT + MAX_AGE + second), age(AT - MAX_AGE - second)), (None, None));
    }

    #[test]
    fn window_of_the_cpu_may_be_absent() {
        let mut used = decode(json!([usage("app", "1", "64Mi")]));
        let window = |used: &PodMetrics| used.reading(&[app()], AT).unwrap().window;
        assert_eq!(window(&used), Some(Duration::from_millis(15_213)));
        for absent in [Some("soon".to_owned()), None] {
            used.window = absent;
            assert_eq!(window(&used), None);
        }
    }

    #[test]
    fn metrics_that_are_not_of_their_schema_are_rejected() {
        let valid = || metrics(json!([usage("app", "1", "64Mi")]));
        for (path, value) in [
            ("/metadata", json!({"name": "web"})),
            ("/metadata/name", json!(5)),
            ("/timestamp", json!("yesterday")),
            ("/timestamp", json!(null)),
            ("/window", json!(15)),
            ("/containers", json!({})),
            ("/containers/0/usage", json!(null)),
            ("/containers/0/usage/memory", json!("much")),
            ("/containers/0/usage/memory", json!(64)),
            ("/containers/0/usage/memory", json!("1e400")),
            ("/containers/0/usage/cpu", json!("")),
            ("/containers/0/usage/cpu", json!("NaN")),
        ] {
            let mut metrics = valid();
            *metrics.pointer_mut(path).unwrap() = value.clone();
            assert!(serde_json::from_value::<PodMetrics>(metrics).is_err(), "{path}: {value}");
        }
        assert!(serde_json::from_value::<PodMetrics>(valid()).is_ok());
    }

    proptest! {
        #[test]
        fn shares_of_any_quantities_are_within_their_bounds(
            used in any::<i64>(), limit in 1..=i64::MAX, started in 0..=u64::MAX, now in 0..=u64::MAX,
        ) {
            let metrics = decode(json!([usage("app", &format!("{used}m"), &format!("{used}m"))]));
            let started = Some(Duration::from_secs(started));
            let app = AppContainer { name: "app".into(), memory_limit: Some(limit), cpu_limit: Some(limit), started };
            for now in [AT, Duration::from_secs(now)] {
                let reading = metrics.reading(std::slice::from_ref(&app), now);
                let shares = reading.and_then(|it| it.memory).into_iter().chain(reading.and_then(|it| it.cpu));
                prop_assert!(shares.into_iter().all(|share| (0.0..=MAX_SHARE).contains(&share)));
            }
        }
    }
}
