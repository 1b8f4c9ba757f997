//! Golden cases of Knative's `pkg/apis/autoscaling/annotation_validation_test.go` on scales, and
//! precedence in conflicts.

use std::collections::BTreeMap;

use super::*;

const PREFIX: &str = "autoscaling.rouse.dev/";
const UNSET: ReplicaBounds = ReplicaBounds { min: 0, max: 0, initial: 1, activation: 1 };

/// The sizes of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ReplicaBounds {
    min: u32,
    max: u32,
    initial: u32,
    activation: u32,
}

fn resolved(
    pairs: &[(&str, &str)],
    config: &AutoscalerConfig,
    given: SpecReplicaBounds,
) -> (ReplicaBounds, Vec<String>) {
    let annotations: BTreeMap<_, _> =
        pairs.iter().map(|(k, v)| (format!("{PREFIX}{k}"), (*v).to_owned())).collect();
    let mut reader = SettingReader::of_annotations(&annotations);
    let mut scale = ScaleSettings::read(&mut reader, Some(&config.defaults.scale));
    resolve(&mut scale, &mut reader, config, given);
    let ScaleSettings { min, max, initial, activation, .. } = scale;
    let sizes = ReplicaBounds { min, max, initial, activation };
    let words = reader.into_errors().iter().map(|e| e.to_string().replace(PREFIX, "")).collect();
    (sizes, words)
}

fn cluster(min_scale: u32, max_scale: u32, max_scale_limit: u32) -> AutoscalerConfig {
    let mut config = AutoscalerConfig::default();
    (config.defaults.scale.min, config.defaults.scale.max) = (min_scale, max_scale);
    config.limits.max = max_scale_limit;
    config
}

fn spec(min: u32, max: u32) -> SpecReplicaBounds {
    SpecReplicaBounds { min: Some(min), max: Some(max), limited: true }
}

/// Sizes with these bounds of the spec, of which 0 means none.
fn bounded(min: u32, max: u32, pairs: &[(&str, &str)]) -> (ReplicaBounds, Vec<String>) {
    let given = |size: u32| (size > 0).then_some(size);
    let given = SpecReplicaBounds { min: given(min), max: given(max), limited: true };
    resolved(pairs, &AutoscalerConfig::default(), given)
}

#[test]
fn accepts_consistent_bounds() {
    let activation = ("activation-scale", "2");
    for (min, max, pairs, sizes) in [
        (0, 0, vec![], UNSET),
        (5, 0, vec![], ReplicaBounds { min: 5, ..UNSET }),
        (0, 2, vec![], ReplicaBounds { max: 2, ..UNSET }),
        (2, 5, vec![], ReplicaBounds { min: 2, max: 5, ..UNSET }),
        (5, 5, vec![], ReplicaBounds { min: 5, max: 5, ..UNSET }),
        (1, 3, vec![activation], ReplicaBounds { min: 1, max: 3, activation: 2, ..UNSET }),
        (2, 2, vec![activation], ReplicaBounds { min: 2, max: 2, activation: 2, ..UNSET }),
        (0, 0, vec![("initial-scale", "2")], ReplicaBounds { initial: 2, ..UNSET }),
        (0, 0, vec![("initial-scale", "0")], ReplicaBounds { initial: 0, ..UNSET }),
    ] {
        assert_eq!(bounded(min, max, &pairs), (sizes, vec![]), "{min} {max} {pairs:?}");
    }
}

#[test]
fn reports_and_ignores_invalid_sizes() {
    let whole = "a whole number from 0 to 2147483647";
    for (key, value, bound) in [
        ("initial-scale", "-1", whole),
        ("initial-scale", "2147483648", whole),
        ("initial-scale", "invalid", whole),
        ("activation-scale", "1", "a whole number from 2 to 2147483647"),
        ("activation-scale", "x", "a whole number from 2 to 2147483647"),
    ] {
        let words = format!("{key} is {value:?}, but must be {bound}");
        assert_eq!(bounded(0, 0, &[(key, value)]), (UNSET, vec![words]));
    }
}

#[test]
fn reports_and_ignores_activation_scale_that_conflicts_with_a_bound() {
    let (sizes, words) = bounded(3, 0, &[("activation-scale", "2")]);
    assert_eq!(sizes, ReplicaBounds { min: 3, ..UNSET });
    assert_eq!(words, [r#"activation-scale is "2", but must be at least spec.minReplicas, which is 3"#]);
    let (sizes, words) = bounded(0, 1, &[("activation-scale", "2")]);
    assert_eq!(sizes, ReplicaBounds { max: 1, ..UNSET });
    assert_eq!(words, [r#"activation-scale is "2", but must be at most spec.maxReplicas, which is 1"#]);
}

#[test]
fn ignores_bounds_of_the_spec_that_conflict_with_each_other() {
    let (sizes, words) = bounded(5, 2, &[]);
    assert_eq!(sizes, UNSET);
    assert_eq!(words, [r#"spec.minReplicas is "5", but must be at most spec.maxReplicas, which is 2"#]);
}

#[test]
fn ignores_bound_of_the_spec_that_conflicts_with_the_config_map() {
    let (sizes, words) = resolved(&[], &cluster(1, 3, 0), SpecReplicaBounds { max: None, ..spec(5, 0) });
    assert_eq!(sizes, ReplicaBounds { min: 1, max: 3, ..UNSET });
    assert_eq!(
        words,
        [r#"spec.minReplicas is "5", but must be at most the cluster's max-scale, which is 3"#]
    );
    let (sizes, words) = resolved(&[], &cluster(3, 4, 0), SpecReplicaBounds { min: None, ..spec(0, 2) });
    assert_eq!(sizes, ReplicaBounds { min: 3, max: 4, ..UNSET });
    assert_eq!(
        words,
        [r#"the cluster's min-scale is "3", but must be at most spec.maxReplicas, which is 2"#]
    );
}

#[test]
fn max_replicas_are_within_max_scale_limit() {
    for (value, kept) in [(9, 9), (10, 10), (11, 1), (0, 1)] {
        let given = SpecReplicaBounds { min: None, ..spec(0, value) };
        let (sizes, words) = resolved(&[], &cluster(0, 1, 10), given);
        assert_eq!(sizes, ReplicaBounds { max: kept, ..UNSET }, "{value}");
        let bound = "from 1 to the cluster's max-scale-limit, which is 10";
        let expected = format!("spec.maxReplicas is \"{value}\", but must be {bound}");
        assert_eq!(words, if kept == 1 { vec![expected] } else { vec![] });
    }
}

#[test]
fn spec_takes_precedence_over_the_config_map() {
    let (sizes, words) = resolved(&[("activation-scale", "5")], &cluster(1, 4, 0), spec(2, 50));
    assert_eq!((sizes, words), (ReplicaBounds { min: 2, max: 50, initial: 1, activation: 5 }, vec![]));
}

#[test]
fn max_scale_limit_applies_to_the_spec_but_not_to_an_hpa() {
    let (sizes, words) = resolved(&[], &cluster(0, 5, 10), spec(1, 50));
    assert_eq!(sizes, ReplicaBounds { min: 1, max: 5, ..UNSET });
    assert_eq!(
        words,
        [r#"spec.maxReplicas is "50", but must be from 1 to the cluster's max-scale-limit, which is 10"#]
    );
    let hpa = SpecReplicaBounds { limited: false, ..spec(1, 50) };
    assert_eq!(resolved(&[], &cluster(0, 5, 10), hpa), (ReplicaBounds { min: 1, max: 50, ..UNSET }, vec![]));
}

#[test]
fn lowers_min_to_max_when_the_config_conflicts_with_itself() {
    let (sizes, words) = resolved(&[], &cluster(9, 4, 0), SpecReplicaBounds::default());
    assert_eq!(sizes, ReplicaBounds { min: 4, max: 4, ..UNSET });
    assert_eq!(words.len(), 1);
}
