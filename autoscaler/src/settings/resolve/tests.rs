//! Golden cases of Knative's `pkg/apis/autoscaling/annotation_validation_test.go` and
//! `metric_test.go`, and effects of invalid annotations. Replica bounds have their own tests.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::contract::GROUP;
use crate::contract::metric_name::MetricName;
use crate::settings::*;

fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| (format!("{GROUP}/{k}"), (*v).to_owned())).collect()
}

fn resolved(pairs: &[(&str, &str)]) -> (Settings, Vec<SettingError>) {
    Settings::resolve(&AutoscalerConfig::default(), &annotations(pairs))
}

fn accepted(pairs: &[(&str, &str)]) -> Settings {
    let (settings, errors) = resolved(pairs);
    assert_eq!(errors, [], "{pairs:?}");
    settings
}

#[test]
fn annotations_override_the_config_map() {
    let settings = accepted(&[
        ("window", "10s"),
        ("panic-window-percentage", "75"),
        ("panic-threshold-percentage", "125"),
        ("metric", "rps"),
        ("target", "11"),
        ("target-utilization-percentage", "80"),
        ("target-burst-capacity", "0"),
        ("initial-scale", "4"),
        ("activation-scale", "3"),
        ("scale-down-delay", "21m31s"),
        ("scale-to-zero-pod-retention-period", "1.5s"),
        ("progress-deadline", "5s"),
        ("wake-timeout", "20m"),
        ("wake-queue-depth", "50"),
        ("timeout", "0"),
        ("response-start-timeout", "2.5s"),
        ("idle-timeout", "24h"),
        ("start-patience", "0"),
        ("unschedulable-patience", "5m"),
        ("reachability", "Unreachable"),
        ("metric-aggregation-algorithm", "weighted-exponential"),
        ("learn-target", "Apply"),
        ("latency-objective", "200ms@p95"),
        ("learn-target-factor", "8"),
        ("sidecar", "true"),
        ("no-wake", "GET /healthz"),
        ("no-wake-response", "503"),
        ("waiting-page", "true"),
        ("sse-keep-alive", "true"),
        ("schedule", "Sat 10:00-14:00: 1"),
    ]);
    let mut expected = accepted(&[]);
    expected.window.stable = Duration::from_secs(10);
    expected.window.panic_percentage = 75.0;
    expected.window.panic_threshold_percentage = 125.0;
    expected.target.metric = MetricName::RequestsPerSecond;
    expected.target.capacity = Some(11.0);
    expected.target.utilization = Some(0.8);
    expected.target.burst_capacity = BurstCapacity::Never;
    expected.scale.initial = 4;
    expected.scale.activation = 3;
    expected.scale.down_delay = Duration::from_secs(1291);
    expected.zero.pod_retention = Duration::from_millis(1500);
    expected.wake.progress_deadline = Duration::from_secs(5);
    expected.wake.timeout = Some(Duration::from_secs(1200));
    expected.wake.queue_depth = Some(50);
    expected.timeouts.total = Duration::ZERO;
    expected.timeouts.response_start = Duration::from_millis(2500);
    expected.timeouts.idle = Duration::from_secs(86400);
    expected.wake.start_patience = Duration::ZERO;
    expected.wake.unschedulable_patience = Duration::from_secs(300);
    expected.zero.reachability = Reachability::Unreachable;
    expected.window.aggregation = Aggregation::WeightedExponential;
    expected.learning.mode = LearnTarget::Apply;
    expected.learning.objective = LatencyObjective::parse("200ms@p95");
    expected.learning.factor = 8.0;
    expected.pods.sidecar = Some(SidecarMode::Required);
    expected.wake.no_wake = NoWakeRules::parse("GET /healthz").unwrap();
    expected.wake.no_wake_response = NoWakeResponse::parse("503").unwrap();
    expected.wake.waiting_page = true;
    expected.wake.sse_keep_alive = true;
    expected.scale.schedule = Schedule::parse("Sat 10:00-14:00: 1");
    assert_eq!(settings, expected);
}

#[test]
fn metric_none_leaves_the_metric_that_shows_idleness() {
    assert_eq!(accepted(&[("metric", "none")]), accepted(&[]));
}

#[test]
fn config_map_applies_without_annotations() {
    let mut config = AutoscalerConfig::default();
    config.defaults.zero.enabled = false;
    config.defaults.scale.max_up_rate = 10.0;
    config.defaults.scale.max_down_rate = 3.0;
    config.defaults.target.default_concurrency_utilization = 0.5;
    config.defaults.target.default_concurrency = 10.0;
    config.defaults.target.default_requests_per_second = 20.0;
    config.defaults.target.burst_capacity = BurstCapacity::Spare(5.0);
    config.defaults.window.stable = Duration::from_secs(30);
    config.defaults.window.panic_percentage = 20.0;
    config.defaults.window.panic_threshold_percentage = 300.0;
    config.defaults.scale.initial = 2;
    config.defaults.scale.min = 3;
    config.defaults.scale.max = 4;
    config.defaults.scale.down_delay = Duration::from_secs(8);
    config.defaults.zero.grace_period = Duration::from_secs(9);
    config.defaults.zero.pod_retention = Duration::from_secs(10);
    config.defaults.wake.start_patience = Duration::from_secs(11);
    config.defaults.wake.unschedulable_patience = Duration::from_secs(12);
    config.defaults.learning.mode = LearnTarget::Off;
    config.defaults.learning.factor = 2.0;
    let mut expected = accepted(&[]);
    expected.zero.grace_period = Duration::from_secs(9);
    expected.zero.pod_retention = Duration::from_secs(10);
    expected.zero.enabled = false;
    expected.zero.reachability = Reachability::Reachable;
    expected.window.stable = Duration::from_secs(30);
    expected.window.panic_percentage = 20.0;
    expected.window.panic_threshold_percentage = 300.0;
    expected.window.aggregation = Aggregation::Linear;
    expected.target.metric = MetricName::Concurrency;
    expected.target.capacity = None;
    expected.target.utilization = None;
    expected.target.default_concurrency_utilization = 0.5;
    expected.target.default_concurrency = 10.0;
    expected.target.default_requests_per_second = 20.0;
    expected.target.burst_capacity = BurstCapacity::Spare(5.0);
    expected.learning.mode = LearnTarget::Off;
    expected.learning.objective = None;
    expected.learning.factor = 2.0;
    expected.scale.max_up_rate = 10.0;
    expected.scale.max_down_rate = 3.0;
    expected.scale.min = 3;
    expected.scale.max = 4;
    expected.scale.initial = 2;
    expected.scale.activation = 1;
    expected.scale.down_delay = Duration::from_secs(8);
    expected.scale.schedule = None;
    expected.wake.progress_deadline = Duration::from_secs(600);
    expected.wake.timeout = None;
    expected.wake.queue_depth = None;
    expected.wake.start_patience = Duration::from_secs(11);
    expected.wake.unschedulable_patience = Duration::from_secs(12);
    expected.wake.no_wake = NoWakeRules::default();
    expected.wake.no_wake_response = NoWakeResponse::default();
    expected.wake.waiting_page = false;
    expected.wake.sse_keep_alive = false;
    expected.timeouts.total = Duration::from_secs(300);
    expected.timeouts.response_start = Duration::from_secs(300);
    expected.timeouts.idle = Duration::ZERO;
    expected.pods.sidecar = None;
    expected.pods.selector = None;
    assert_eq!(Settings::resolve(&config, &BTreeMap::new()), (expected, vec![]));
}

#[test]
fn accepts_values_at_the_bounds() {
    for pair in [
        ("metric", "concurrency"),
        ("metric", "requests-per-second"),
        ("target", "0.01"),
        ("target", "700m"),
        ("target-utilization-percentage", "1"),
        ("target-utilization-percentage", "100"),
        ("target-burst-capacity", "-1"),
        ("target-burst-capacity", "19870709"),
        ("window", "6s"),
        ("window", "1h"),
        ("panic-window-percentage", "1"),
        ("panic-window-percentage", "100"),
        ("panic-threshold-percentage", "110"),
        ("panic-threshold-percentage", "1000"),
        ("scale-down-delay", "0"),
        ("scale-down-delay", "1h"),
        ("scale-to-zero-pod-retention-period", "0"),
        ("scale-to-zero-pod-retention-period", "1h"),
        ("progress-deadline", "1s"),
        ("progress-deadline", "100h"),
        ("metric-aggregation-algorithm", ""),
        ("metric-aggregation-algorithm", "linear"),
        ("reachability", "Reachable"),
        ("learn-target", "Off"),
        ("learn-target", "Recommend"),
        ("latency-objective", "1ms@p50"),
        ("latency-objective", "1h@p99.9"),
        ("learn-target-factor", "1"),
        ("learn-target-factor", "16"),
        ("unknown", "?"),
        ("class", "unsupported.knative.dev"),
        ("minScale", "-1"),
    ] {
        accepted(&[pair]);
    }
    assert_eq!(accepted(&[("target", "700m")]).target.capacity, Some(0.7));
}

#[test]
fn reports_and_ignores_invalid_annotation() {
    let (hour, whole_hour) = ("0s to 1h", "whole seconds from 0s to 1h");
    let objective = "a duration from 1ms to 1h with a percentile from p50 to p99.9, such as 200ms@p95";
    for (key, value, bound) in [
        ("metric", "cpu", "concurrency, requests-per-second, or none on an HPA"),
        ("metric", "", "concurrency, requests-per-second, or none on an HPA"),
        ("target", "-11", "0.01 or more"),
        ("target", "0", "0.01 or more"),
        ("target", "9m", "0.01 or more"),
        ("target", "100}", "0.01 or more"),
        ("target", "inf", "0.01 or more"),
        ("target-utilization-percentage", "0", "1 to 100"),
        ("target-utilization-percentage", "0.7", "1 to 100"),
        ("target-utilization-percentage", "101", "1 to 100"),
        ("target-utilization-percentage", "dghyak", "1 to 100"),
        ("target-burst-capacity", "-11", "auto, 0 or more, or -1"),
        ("target-burst-capacity", "qarashen", "auto, 0 or more, or -1"),
        ("window", "jerry-was-a-racecar-driver", "whole seconds from 6s to 1h"),
        ("window", "1s", "whole seconds from 6s to 1h"),
        ("window", "365h", "whole seconds from 6s to 1h"),
        ("window", "1m9s82ms", "whole seconds from 6s to 1h"),
        ("panic-window-percentage", "-1", "1 to 100"),
        ("panic-window-percentage", "202", "1 to 100"),
        ("panic-window-percentage", "fifty", "1 to 100"),
        ("panic-threshold-percentage", "109", "110 to 1000"),
        ("panic-threshold-percentage", "10009", "110 to 1000"),
        ("panic-threshold-percentage", "NaN", "110 to 1000"),
        ("scale-to-zero-pod-retention-period", "311m", hour),
        ("scale-to-zero-pod-retention-period", "-42s", hour),
        ("scale-to-zero-pod-retention-period", "twenty-two-minutes-and-five-seconds", hour),
        ("scale-down-delay", "311m", whole_hour),
        ("scale-down-delay", "42.5s", whole_hour),
        ("scale-down-delay", "-42s", whole_hour),
        ("progress-deadline", "0s", "whole seconds, longer than 0s"),
        ("progress-deadline", "1.5s", "whole seconds, longer than 0s"),
        ("progress-deadline", "-1s", "whole seconds, longer than 0s"),
        ("wake-timeout", "0", "whole seconds from 1s to 1h"),
        ("wake-timeout", "2h", "whole seconds from 1s to 1h"),
        ("wake-queue-depth", "0", "a whole number from 1 to 2147483647"),
        ("wake-queue-depth", "many", "a whole number from 1 to 2147483647"),
        ("timeout", "25h", "whole milliseconds from 0s to 24h"),
        ("response-start-timeout", "1.5ms", "whole milliseconds from 0s to 24h"),
        ("idle-timeout", "-1s", "whole milliseconds from 0s to 24h"),
        ("start-patience", "61m", hour),
        ("unschedulable-patience", "never", hour),
        ("metric-aggregation-algorithm", "random-selection", "linear or weighted-exponential"),
        ("metric-aggregation-algorithm", "weightedExponential", "linear or weighted-exponential"),
        ("reachability", "gone", "Reachable or Unreachable"),
        ("learn-target", "on", "Auto, Off, Recommend or Apply"),
        ("learn-target", "", "Auto, Off, Recommend or Apply"),
        ("latency-objective", "200ms", objective),
        ("latency-objective", "2h@p95", objective),
        ("latency-objective", "200ms@p100", objective),
        ("learn-target-factor", "0.5", "1 to 16"),
        ("learn-target-factor", "NaN", "1 to 16"),
    ] {
        let (settings, errors) = resolved(&[(key, value)]);
        let words: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(words, [format!("{GROUP}/{key} is {value:?}, but must be {bound}")]);
        assert_eq!(settings, accepted(&[]), "{key} {value}");
    }
}

#[test]
fn reports_all_invalid_annotations_and_applies_the_valid_ones() {
    let (settings, errors) = resolved(&[
        ("panic-threshold-percentage", "fifty"),
        ("panic-window-percentage", "-11"),
        ("initial-scale", "-4"),
        ("activation-scale", "never"),
        ("window", "7s"),
    ]);
    let keys: Vec<_> = errors.iter().map(|e| e.key.rsplit('/').next().unwrap_or_default()).collect();
    assert_eq!(
        keys,
        ["panic-window-percentage", "panic-threshold-percentage", "initial-scale", "activation-scale"]
    );
    assert_eq!(settings, accepted(&[("window", "7s")]));
}

#[test]
fn schedule_raises_the_smallest_size_within_the_largest() {
    let of = |annotations: &[(&str, &str)], min: u32, max: u32| {
        let mut settings = accepted(annotations);
        (settings.scale.min, settings.scale.max) = (min, max);
        let scheduled = settings.apply_schedule(0).map(|scheduled| scheduled.minimum);
        (scheduled, settings.scale.min)
    };
    let daily = ("schedule", "00:00-24:00: 5");
    assert_eq!(of(&[], 2, 0), (None, 2));
    assert_eq!(of(&[daily], 0, 0), (Some(5), 5));
    assert_eq!(of(&[daily], 7, 0), (Some(5), 7));
    assert_eq!(of(&[daily], 0, 3), (Some(3), 3));
    assert_eq!(of(&[daily, ("reachability", "Unreachable")], 0, 0), (None, 0));
    assert_eq!(of(&[("schedule", "12:00-13:00: 5")], 0, 0), (Some(0), 0));
}

fn any_annotations() -> impl Strategy<Value = BTreeMap<String, String>> {
    let keys = prop::sample::select(vec![
        "window",
        "panic-window-percentage",
        "panic-threshold-percentage",
        "metric",
        "target",
        "target-utilization-percentage",
        "target-burst-capacity",
        "initial-scale",
        "activation-scale",
        "scale-down-delay",
        "scale-to-zero-pod-retention-period",
        "progress-deadline",
        "wake-timeout",
        "wake-queue-depth",
        "timeout",
        "idle-timeout",
        "start-patience",
        "reachability",
        "metric-aggregation-algorithm",
        "learn-target",
        "latency-objective",
        "learn-target-factor",
        "no-wake",
        "no-wake-response",
        "waiting-page",
        "sse-keep-alive",
        "schedule",
    ]);
    prop::collection::btree_map(
        keys.prop_map(|key| format!("{GROUP}/{key}")),
        crate::settings::config::tests::any_text(),
        0..8,
    )
}

fn any_sizes() -> impl Strategy<Value = SpecReplicaBounds> {
    let size = || prop::option::of(0u32..12);
    (size(), size(), any::<bool>()).prop_map(|(min, max, limited)| SpecReplicaBounds { min, max, limited })
}

proptest! {
    #[test]
    fn arbitrary_input_resolves_to_settings_within_bounds(
        data in crate::settings::config::tests::any_data(),
        annotations in any_annotations(),
        sizes in any_sizes(),
    ) {
        let config = AutoscalerConfig::parse(&data).unwrap_or_default();
        let (settings, errors) = Settings::resolve_given(&config, &annotations, sizes);
        prop_assert!((6..=3600).contains(&settings.window.stable.as_secs()));
        prop_assert!(settings.window.panic() >= Duration::from_secs(1));
        prop_assert!(settings.window.panic() <= settings.window.stable);
        prop_assert!((1.0..=100.0).contains(&settings.window.panic_percentage));
        prop_assert!(settings.window.panic_threshold_percentage > 0.0);
        prop_assert!(settings.target.capacity.is_none_or(|target| target >= 0.01 && target.is_finite()));
        for metric in [MetricName::Concurrency, MetricName::RequestsPerSecond] {
            let utilization = settings.utilization(metric);
            prop_assert!(utilization > 0.0 && utilization <= 1.0);
        }
        let capacity = settings.target.burst_capacity;
        prop_assert!(capacity.value().is_none_or(|requests| requests >= 0.0 || requests == -1.0));
        prop_assert!(settings.scale.max == 0 || settings.scale.min <= settings.scale.max);
        let mut scheduled = settings.clone();
        scheduled.apply_schedule(0);
        prop_assert!(scheduled.scale.min >= settings.scale.min);
        prop_assert!(settings.scale.max == 0 || scheduled.scale.min <= settings.scale.max);
        prop_assert!((1.0..=16.0).contains(&settings.learning.factor));
        prop_assert!(settings.scale.activation >= 1);
        let activated = settings.scale.activation > 1;
        prop_assert!(!activated || settings.scale.min <= settings.scale.activation);
        let is_unbounded = settings.scale.max == 0;
        prop_assert!(!activated || is_unbounded || settings.scale.activation <= settings.scale.max);
        prop_assert!(settings.wake.progress_deadline >= Duration::from_secs(1));
        prop_assert!(settings.zero.grace_period > Duration::ZERO);
        let unlimited = config.limits.max == 0 || (sizes.max.is_some() && !sizes.limited);
        prop_assert!(unlimited || (1..=config.limits.max).contains(&settings.scale.max));
        // A bound of the spec is ignored only with an error.
        let kept = |given: Option<u32>, resolved| given.is_none_or(|given| given == resolved);
        prop_assert!(!errors.is_empty() || kept(sizes.min, settings.scale.min));
        prop_assert!(!errors.is_empty() || kept(sizes.max, settings.scale.max));
    }
}

/// A request that waits for a node must not be answered before the node may be there.
#[test]
fn wake_timeout_and_unschedulable_patience_follow_each_other() {
    let resolved = |annotations: &[(&str, &str)]| {
        let wake = accepted(annotations).wake;
        (wake.unschedulable_patience.as_secs(), wake.hold_timeout().map(|timeout| timeout.as_secs()))
    };
    assert_eq!(resolved(&[]), (300, None), "the activators' default is the same");
    assert_eq!(resolved(&[("wake-timeout", "10m")]), (600, Some(600)));
    assert_eq!(resolved(&[("wake-timeout", "20s")]), (20, Some(20)));
    assert_eq!(resolved(&[("unschedulable-patience", "10m")]), (600, Some(600)));
    assert_eq!(resolved(&[("unschedulable-patience", "30s")]), (30, None));
    let both = [("wake-timeout", "20s"), ("unschedulable-patience", "10m")];
    assert_eq!(resolved(&both), (600, Some(20)));
}
