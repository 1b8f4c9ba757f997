//! Golden cases of Knative's `pkg/autoscaler/config/config_test.go`, in its order, and error texts.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::settings::values::burst_capacity::BurstCapacity;
use crate::settings::values::learn_target::LearnTarget;

fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn parsed(pairs: &[(&str, &str)]) -> AutoscalerConfig {
    AutoscalerConfig::parse(&data(pairs)).unwrap()
}

fn error_texts(pairs: &[(&str, &str)]) -> Vec<String> {
    match AutoscalerConfig::parse(&data(pairs)) {
        Ok(config) => panic!("{pairs:?} was accepted: {config:?}"),
        Err(errors) => errors.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn empty_config_map_has_the_defaults_of_knative() {
    let config = parsed(&[]);
    assert_eq!(config, AutoscalerConfig::default());
    assert!(config.defaults.zero.enabled);
    assert_eq!((config.defaults.scale.max_up_rate, config.defaults.scale.max_down_rate), (1000.0, 2.0));
    assert_eq!(config.defaults.target.default_concurrency_utilization, 0.7);
    assert_eq!(config.defaults.target.default_concurrency, 100.0);
    assert_eq!(config.defaults.target.default_requests_per_second, 200.0);
    assert_eq!(config.defaults.target.burst_capacity, BurstCapacity::BySize);
    assert_eq!(
        (config.defaults.window.panic_percentage, config.defaults.window.panic_threshold_percentage),
        (10.0, 200.0)
    );
    assert_eq!(
        (
            config.defaults.scale.initial,
            config.defaults.scale.min,
            config.defaults.scale.max,
            config.limits.max
        ),
        (1, 0, 0, 0)
    );
    let seconds = [
        config.defaults.window.stable,
        config.defaults.scale.down_delay,
        config.defaults.zero.grace_period,
        config.defaults.zero.pod_retention,
    ]
    .map(|d| d.as_secs());
    assert_eq!(seconds, [60, 0, 30, 0]);
}

#[test]
fn parses_every_key() {
    // Case "overridden", plus the keys that it omits.
    let config = parsed(&[
        ("max-scale-up-rate", "1.01"),
        ("max-scale-down-rate", "3"),
        ("container-concurrency-target-percentage", "0.71"),
        ("container-concurrency-target-default", "10.5"),
        ("requests-per-second-target-default", "10.11"),
        ("target-burst-capacity", "12345"),
        ("scale-down-delay", "15m"),
        ("stable-window", "5m"),
        ("unknown", "2s"),
        ("panic-window-percentage", "20"),
        ("panic-threshold-percentage", "300"),
        ("scale-to-zero-pod-retention-period", "2m3s"),
        ("scale-to-zero-grace-period", "33s"),
        ("enable-scale-to-zero", "false"),
        ("initial-scale", "0"),
        ("min-scale", "1"),
        ("max-scale", "10"),
        ("max-scale-limit", "11"),
        ("start-patience", "7s"),
        ("unschedulable-patience", "5m"),
        ("learn-target", "Apply"),
        ("learn-target-factor", "2.5"),
    ]);
    let mut expected = AutoscalerConfig::default();
    expected.defaults.zero.enabled = false;
    expected.defaults.scale.max_up_rate = 1.01;
    expected.defaults.scale.max_down_rate = 3.0;
    expected.defaults.target.default_concurrency_utilization = 0.71;
    expected.defaults.target.default_concurrency = 10.5;
    expected.defaults.target.default_requests_per_second = 10.11;
    expected.defaults.target.burst_capacity = BurstCapacity::Spare(12345.0);
    expected.defaults.window.stable = Duration::from_secs(300);
    expected.defaults.window.panic_percentage = 20.0;
    expected.defaults.window.panic_threshold_percentage = 300.0;
    expected.defaults.scale.initial = 0;
    expected.defaults.scale.min = 1;
    expected.defaults.scale.max = 10;
    expected.limits.max = 11;
    expected.defaults.scale.down_delay = Duration::from_secs(900);
    expected.defaults.zero.grace_period = Duration::from_secs(33);
    expected.defaults.zero.pod_retention = Duration::from_secs(123);
    expected.defaults.wake.start_patience = Duration::from_secs(7);
    expected.defaults.wake.unschedulable_patience = Duration::from_secs(300);
    expected.defaults.learning.mode = LearnTarget::Apply;
    expected.defaults.learning.factor = 2.5;
    assert_eq!(config, expected);
}

#[test]
fn accepts_values_at_the_bounds() {
    for pair in [
        ("max-scale-up-rate", "1.001"),
        ("max-scale-down-rate", "1.001"),
        ("container-concurrency-target-percentage", "100"),
        ("container-concurrency-target-percentage", "0.0001"),
        ("container-concurrency-target-default", "0.015"),
        ("requests-per-second-target-default", "0.01"),
        ("target-burst-capacity", "0"),
        ("target-burst-capacity", "-1"),
        ("stable-window", "6s"),
        ("stable-window", "1h"),
        ("panic-window-percentage", "1"),
        ("panic-window-percentage", "100"),
        // In Knative, only the annotation of the threshold has bounds.
        ("panic-threshold-percentage", "5"),
        ("panic-threshold-percentage", "10009"),
        ("scale-to-zero-grace-period", "1ns"),
        ("scale-to-zero-pod-retention-period", "0"),
        ("scale-to-zero-pod-retention-period", "1.5s"),
        ("scale-down-delay", "48h"),
        ("enable-scale-to-zero", "TRUE"),
        ("min-scale", "4"),
        ("max-scale", "2147483647"),
        ("initial-scale", "2147483647"),
        ("learn-target", "Off"),
        ("learn-target-factor", "1"),
        ("learn-target-factor", "16"),
    ] {
        parsed(&[pair]);
    }
}

#[test]
fn target_percentage_up_to_one_is_a_fraction() {
    for (text, fraction) in [("55", 0.55), ("0.5", 0.5), ("1", 1.0), ("1.5", 0.015), ("100", 1.0)] {
        let config = parsed(&[("container-concurrency-target-percentage", text)]);
        assert_eq!(config.defaults.target.default_concurrency_utilization, fraction, "{text}");
    }
}

#[test]
fn error_names_key_value_and_bound() {
    for (key, value, bound) in [
        ("max-scale-up-rate", "not a float", "above 1"),
        ("max-scale-up-rate", "1", "above 1"),
        ("max-scale-up-rate", "inf", "above 1"),
        ("max-scale-down-rate", "-55", "above 1"),
        ("max-scale-down-rate", "1", "above 1"),
        ("scale-down-delay", "-1m23s", "whole seconds, 0s or longer"),
        ("scale-down-delay", "61984ms", "whole seconds, 0s or longer"),
        ("scale-to-zero-pod-retention-period", "-4m11s", "0s or longer"),
        ("scale-to-zero-grace-period", "0s", "longer than 0s"),
        ("scale-to-zero-grace-period", "-1s", "longer than 0s"),
        ("stable-window", "not a duration", "whole seconds from 6s to 1h"),
        ("stable-window", "1h1s", "whole seconds from 6s to 1h"),
        ("stable-window", "1h0.5s", "whole seconds from 6s to 1h"),
        ("stable-window", "1s", "whole seconds from 6s to 1h"),
        ("stable-window", "5999ms", "whole seconds from 6s to 1h"),
        ("stable-window", "61984ms", "whole seconds from 6s to 1h"),
        ("stable-window", "60", "whole seconds from 6s to 1h"),
        ("target-burst-capacity", "-11", "auto, 0 or more, or -1"),
        ("target-burst-capacity", "NaN", "auto, 0 or more, or -1"),
        ("container-concurrency-target-percentage", "-42", "above 0, at most 100"),
        ("container-concurrency-target-percentage", "0", "above 0, at most 100"),
        ("container-concurrency-target-percentage", "142.4", "above 0, at most 100"),
        ("container-concurrency-target-default", "0", "above 0"),
        ("requests-per-second-target-default", "-5.25", "0.01 or more"),
        ("requests-per-second-target-default", "0.009", "0.01 or more"),
        ("panic-window-percentage", "0.1", "1 to 100"),
        ("panic-window-percentage", "110", "1 to 100"),
        ("panic-threshold-percentage", "0", "above 0"),
        ("initial-scale", "-1", "a whole number from 0 to 2147483647"),
        ("initial-scale", "invalid", "a whole number from 0 to 2147483647"),
        ("min-scale", "1.5", "a whole number from 0 to 2147483647"),
        ("max-scale", "-1", "a whole number from 0 to 2147483647"),
        ("max-scale", "2147483648", "a whole number from 0 to 2147483647"),
        ("max-scale-limit", "-9", "a whole number from 0 to 2147483647"),
        ("enable-scale-to-zero", "yes", "true or false"),
        ("learn-target", "apply", "Auto, Off, Recommend or Apply"),
        ("learn-target-factor", "0.9", "1 to 16"),
        ("learn-target-factor", "17", "1 to 16"),
    ] {
        assert_eq!(error_texts(&[(key, value)]), [format!("{key} is {value:?}, but must be {bound}")]);
    }
}

#[test]
fn error_of_conflicting_keys_names_both() {
    for (pairs, expected) in [
        (
            // 1 is a fraction: 100 percent.
            vec![
                ("container-concurrency-target-percentage", "1"),
                ("container-concurrency-target-default", "0.001"),
            ],
            r#"container-concurrency-target-default is "0.001", but must be at least 0.01 after multiplication by container-concurrency-target-percentage, which is 1"#,
        ),
        (
            vec![("container-concurrency-target-percentage", "0.00001")],
            r#"container-concurrency-target-default is "100", but must be at least 0.01 after multiplication by container-concurrency-target-percentage, which is 0.00001"#,
        ),
        (
            vec![("container-concurrency-target-default", "0.014")],
            r#"container-concurrency-target-default is "0.014", but must be at least 0.01 after multiplication by container-concurrency-target-percentage, which is 70"#,
        ),
        (
            vec![("max-scale", "10"), ("max-scale-limit", "9")],
            r#"max-scale is "10", but must be from 1 to max-scale-limit, which is 9"#,
        ),
        (
            vec![("max-scale-limit", "11")],
            r#"max-scale is "0", but must be from 1 to max-scale-limit, which is 11"#,
        ),
        (
            vec![("min-scale", "4"), ("max-scale", "3")],
            r#"min-scale is "4", but must be at most max-scale, which is 3"#,
        ),
    ] {
        assert_eq!(error_texts(&pairs), [expected]);
    }
    // At the limit, and with equal minimum and maximum.
    parsed(&[("max-scale", "9"), ("max-scale-limit", "9"), ("min-scale", "9")]);
    parsed(&[("max-scale", "1"), ("max-scale-limit", "9")]);
}

#[test]
fn reports_all_errors_at_once_without_consequential_errors() {
    let keys = |pairs| {
        let errors = AutoscalerConfig::parse(&data(pairs)).unwrap_err();
        errors.into_iter().map(|e| e.key).collect::<Vec<_>>()
    };
    let bad = [
        ("max-scale-up-rate", "1"),
        ("stable-window", "2h"),
        ("enable-scale-to-zero", "yes"),
        ("scale-to-zero-grace-period", "0s"),
        ("min-scale", "4"),
        ("max-scale", "3"),
        ("initial-scale", "-1"),
    ];
    let named = [
        "enable-scale-to-zero",
        "scale-to-zero-grace-period",
        "stable-window",
        "max-scale-up-rate",
        "initial-scale",
        "min-scale",
    ];
    assert_eq!(keys(&bad), named);
    // Each valid value conflicts with the default of the invalid key.
    assert_eq!(keys(&[("max-scale", "x"), ("max-scale-limit", "5")]), ["max-scale"]);
    assert_eq!(
        keys(&[("max-scale", "3"), ("max-scale-limit", "-5"), ("min-scale", "4")]),
        ["max-scale-limit", "min-scale"]
    );
    assert_eq!(keys(&[("min-scale", "4"), ("max-scale", "-1")]), ["max-scale"]);
    assert_eq!(keys(&[("min-scale", "-4"), ("max-scale", "1")]), ["min-scale"]);
    assert_eq!(keys(&[("initial-scale", "?")]), ["initial-scale"]);
    let product = [
        ("container-concurrency-target-percentage", "0.00001"),
        ("container-concurrency-target-default", "?"),
    ];
    assert_eq!(keys(&product), ["container-concurrency-target-default"]);
    let product =
        [("container-concurrency-target-percentage", "?"), ("container-concurrency-target-default", "0.001")];
    assert_eq!(keys(&product), ["container-concurrency-target-percentage"]);
}

/// ConfigMap data with existing keys and arbitrary values.
pub(crate) fn any_data() -> impl Strategy<Value = BTreeMap<String, String>> {
    let keys = prop::sample::select(vec![
        "enable-scale-to-zero",
        "max-scale-up-rate",
        "max-scale-down-rate",
        "container-concurrency-target-percentage",
        "container-concurrency-target-default",
        "requests-per-second-target-default",
        "target-burst-capacity",
        "stable-window",
        "panic-window-percentage",
        "panic-threshold-percentage",
        "initial-scale",
        "min-scale",
        "max-scale",
        "max-scale-limit",
        "scale-down-delay",
        "scale-to-zero-grace-period",
        "scale-to-zero-pod-retention-period",
        "start-patience",
        "unschedulable-patience",
        "learn-target",
        "learn-target-factor",
    ]);
    prop::collection::btree_map(keys.prop_map(str::to_owned), any_text(), 0..8)
}

/// Valid, almost valid and invalid values.
pub(crate) fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        (0u32..12).prop_map(|n| n.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|v| v.to_string()),
        (0u64..5000, prop::sample::select(vec!["s", "m", "h", "ms", "us", "ns", ""]))
            .prop_map(|(n, unit)| format!("{n}{unit}")),
        prop::sample::select(vec!["true", "false", "0", "-1", "NaN", "inf", "", " 7 "])
            .prop_map(str::to_owned),
        "\\PC{0,12}",
    ]
}

proptest! {
    #[test]
    fn arbitrary_data_is_within_bounds_or_rejected(data in any_data()) {
        let Ok(config) = AutoscalerConfig::parse(&data) else { return Ok(()) };
        let AutoscalerConfig { defaults, limits } = config;
        let Settings { zero, window, target, learning, scale, .. } = defaults;
        prop_assert!(scale.max_up_rate > 1.0 && scale.max_up_rate.is_finite());
        prop_assert!(scale.max_down_rate > 1.0 && scale.max_down_rate.is_finite());
        let fraction = target.default_concurrency_utilization;
        prop_assert!(fraction > 0.0 && fraction <= 1.0);
        prop_assert!(fraction * target.default_concurrency >= 0.01);
        prop_assert!(target.default_requests_per_second >= 0.01);
        prop_assert!(target.burst_capacity.value().is_none_or(|requests| requests >= 0.0 || requests == -1.0));
        prop_assert!((6..=3600).contains(&window.stable.as_secs()));
        prop_assert!((1.0..=100.0).contains(&window.panic_percentage));
        prop_assert!((1.0..=16.0).contains(&learning.factor));
        prop_assert!(scale.max == 0 || scale.min <= scale.max);
        prop_assert!(limits.max == 0 || (1..=limits.max).contains(&scale.max));
        prop_assert!(zero.grace_period > Duration::ZERO);
        prop_assert!(scale.down_delay.subsec_nanos() == 0);
    }
}
