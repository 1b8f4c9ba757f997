//! Golden cases of Knative's `pkg/apis/autoscaling/annotation_validation_test.go` and
//! `metric_test.go`, and effects of invalid annotations. Replica bounds have their own tests.

use proptest::prelude::*;

use super::*;

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
        ("min-scale", "2"),
        ("max-scale", "8"),
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
        ("no-wake", "GET /healthz"),
        ("no-wake-response", "503"),
        ("waiting-page", "true"),
        ("schedule", "Sat 10:00-14:00: 1"),
    ]);
    let expected = Settings {
        stable_window: Duration::from_secs(10),
        panic_window_percentage: 75.0,
        panic_threshold_percentage: 125.0,
        metric: Some(MetricName::RequestsPerSecond),
        target: Some(11.0),
        target_utilization: Some(0.8),
        target_burst_capacity: BurstCapacity::Never,
        min_scale: 2,
        max_scale: 8,
        initial_scale: 4,
        activation_scale: 3,
        scale_down_delay: Duration::from_secs(1291),
        scale_to_zero_pod_retention_period: Duration::from_millis(1500),
        progress_deadline: Duration::from_secs(5),
        wake_timeout: Some(Duration::from_secs(1200)),
        wake_queue_depth: Some(50),
        timeout: Duration::ZERO,
        response_start_timeout: Duration::from_millis(2500),
        idle_timeout: Duration::from_secs(86400),
        start_patience: Duration::ZERO,
        unschedulable_patience: Duration::from_secs(300),
        reachability: Reachability::Unreachable,
        aggregation: Aggregation::WeightedExponential,
        learn_target: LearnTarget::Apply,
        latency_objective: LatencyObjective::parse("200ms@p95"),
        learning_factor: 8.0,
        sidecar: SidecarMode::Required,
        no_wake: NoWakeRules::parse("GET /healthz").unwrap(),
        no_wake_response: NoWakeResponse::parse("503").unwrap(),
        waiting_page: true,
        schedule: Schedule::parse("Sat 10:00-14:00: 1"),
        ..accepted(&[])
    };
    assert_eq!(settings, expected);
}

#[test]
fn metric_none_leaves_the_metric_that_shows_idleness() {
    assert_eq!(accepted(&[("metric", "none")]), accepted(&[]));
}

#[test]
fn config_map_applies_without_annotations() {
    let config = AutoscalerConfig {
        enable_scale_to_zero: false,
        max_scale_up_rate: 10.0,
        max_scale_down_rate: 3.0,
        container_concurrency_target_percentage: 0.5,
        container_concurrency_target_default: 10.0,
        requests_per_second_target_default: 20.0,
        target_burst_capacity: BurstCapacity::Spare(5.0),
        stable_window: Duration::from_secs(30),
        panic_window_percentage: 20.0,
        panic_threshold_percentage: 300.0,
        activator_capacity: 50.0,
        initial_scale: 2,
        min_scale: 3,
        max_scale: 4,
        scale_down_delay: Duration::from_secs(8),
        scale_to_zero_grace_period: Duration::from_secs(9),
        scale_to_zero_pod_retention_period: Duration::from_secs(10),
        start_patience: Duration::from_secs(11),
        unschedulable_patience: Duration::from_secs(12),
        learn_target: LearnTarget::Off,
        learning_factor: 2.0,
        ..AutoscalerConfig::default()
    };
    let expected = Settings {
        stable_window: Duration::from_secs(30),
        panic_window_percentage: 20.0,
        panic_threshold_percentage: 300.0,
        metric: None,
        target: None,
        target_utilization: None,
        container_concurrency_target_percentage: 0.5,
        container_concurrency_target_default: 10.0,
        requests_per_second_target_default: 20.0,
        target_burst_capacity: BurstCapacity::Spare(5.0),
        activator_capacity: 50.0,
        max_scale_up_rate: 10.0,
        max_scale_down_rate: 3.0,
        min_scale: 3,
        max_scale: 4,
        initial_scale: 2,
        activation_scale: 1,
        scale_down_delay: Duration::from_secs(8),
        scale_to_zero_grace_period: Duration::from_secs(9),
        scale_to_zero_pod_retention_period: Duration::from_secs(10),
        progress_deadline: Duration::from_secs(600),
        wake_timeout: None,
        wake_queue_depth: None,
        timeout: Duration::from_secs(300),
        response_start_timeout: Duration::from_secs(300),
        idle_timeout: Duration::ZERO,
        start_patience: Duration::from_secs(11),
        unschedulable_patience: Duration::from_secs(12),
        enable_scale_to_zero: false,
        reachability: Reachability::Reachable,
        aggregation: Aggregation::Linear,
        learn_target: LearnTarget::Off,
        latency_objective: None,
        learning_factor: 2.0,
        sidecar: SidecarMode::Required,
        selector: None,
        no_wake: NoWakeRules::default(),
        no_wake_response: NoWakeResponse::default(),
        waiting_page: false,
        schedule: None,
    };
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
    assert_eq!(accepted(&[("target", "700m")]).target, Some(0.7));
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
        ("target-burst-capacity", "-11", "0 or more, or -1"),
        ("target-burst-capacity", "qarashen", "0 or more, or -1"),
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
        ("learn-target", "on", "Off, Recommend or Apply"),
        ("learn-target", "", "Off, Recommend or Apply"),
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
        ("min-scale", "-4"),
        ("max-scale", "never"),
        ("window", "7s"),
    ]);
    let keys: Vec<_> = errors.iter().map(|e| e.key.rsplit('/').next().unwrap_or_default()).collect();
    assert_eq!(keys, ["panic-window-percentage", "panic-threshold-percentage", "min-scale", "max-scale"]);
    assert_eq!(settings, accepted(&[("window", "7s")]));
}

#[test]
fn panic_window_is_rounded_as_in_knative() {
    // metric_test.go: (stable s, percent) -> panic s. The last three are not in it: the minimum of
    // one bucket; 20.5 s in seconds but one nanosecond less in nanoseconds; exactly half a second.
    for (stable, percent, panic) in [
        (60, 10.0, 6),
        (10, 10.0, 1),
        (600, 10.0, 60),
        (60, 51.0, 31),
        (60, 50.0, 30),
        (6, 1.0, 1),
        (125, 16.4, 20),
        (25, 10.0, 3),
    ] {
        let mut settings = accepted(&[]);
        settings.stable_window = Duration::from_secs(stable);
        settings.panic_window_percentage = percent;
        assert_eq!(settings.panic_window(), Duration::from_secs(panic), "{stable} s, {percent} %");
    }
}

#[test]
fn schedule_raises_the_smallest_size_within_the_largest() {
    let of = |annotations: &[(&str, &str)]| {
        let mut settings = accepted(annotations);
        let scheduled = settings.apply_schedule(0).map(|scheduled| scheduled.minimum);
        (scheduled, settings.min_scale)
    };
    let daily = ("schedule", "00:00-24:00: 5");
    assert_eq!(of(&[("min-scale", "2")]), (None, 2));
    assert_eq!(of(&[daily]), (Some(5), 5));
    assert_eq!(of(&[daily, ("min-scale", "7")]), (Some(5), 7));
    assert_eq!(of(&[daily, ("max-scale", "3")]), (Some(3), 3));
    assert_eq!(of(&[daily, ("reachability", "Unreachable")]), (None, 0));
    assert_eq!(of(&[("schedule", "12:00-13:00: 5")]), (Some(0), 0));
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
        "min-scale",
        "max-scale",
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
        prop_assert!((6..=3600).contains(&settings.stable_window.as_secs()));
        prop_assert!(settings.panic_window() >= Duration::from_secs(1));
        prop_assert!(settings.panic_window() <= settings.stable_window);
        prop_assert!((1.0..=100.0).contains(&settings.panic_window_percentage));
        prop_assert!(settings.panic_threshold_percentage > 0.0);
        prop_assert!(settings.target.is_none_or(|target| target >= 0.01 && target.is_finite()));
        for metric in [MetricName::Concurrency, MetricName::RequestsPerSecond] {
            let utilization = settings.utilization(metric);
            prop_assert!(utilization > 0.0 && utilization <= 1.0);
        }
        prop_assert!(settings.target_burst_capacity.value() >= 0.0 || settings.target_burst_capacity == BurstCapacity::Always);
        prop_assert!(settings.max_scale == 0 || settings.min_scale <= settings.max_scale);
        let mut scheduled = settings.clone();
        scheduled.apply_schedule(0);
        prop_assert!(scheduled.min_scale >= settings.min_scale);
        prop_assert!(settings.max_scale == 0 || scheduled.min_scale <= settings.max_scale);
        prop_assert!((1.0..=16.0).contains(&settings.learning_factor));
        prop_assert!(settings.activation_scale >= 1);
        let activated = settings.activation_scale > 1;
        prop_assert!(!activated || settings.min_scale <= settings.activation_scale);
        prop_assert!(!activated || settings.max_scale == 0 || settings.activation_scale <= settings.max_scale);
        prop_assert!(settings.initial_scale > 0 || config.allow_zero_initial_scale);
        prop_assert!(settings.progress_deadline >= Duration::from_secs(1));
        prop_assert!(settings.scale_to_zero_grace_period > Duration::ZERO);
        let unlimited = config.max_scale_limit == 0 || (sizes.max.is_some() && !sizes.limited);
        prop_assert!(unlimited || (1..=config.max_scale_limit).contains(&settings.max_scale));
        // A bound of the spec is ignored only with an error.
        let kept = |given: Option<u32>, resolved| given.is_none_or(|given| given == resolved);
        prop_assert!(!errors.is_empty() || kept(sizes.min, settings.min_scale));
        prop_assert!(!errors.is_empty() || kept(sizes.max, settings.max_scale));
    }
}
