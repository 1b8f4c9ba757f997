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

fn annotated(pairs: &[(&str, &str)]) -> (ReplicaBounds, Vec<String>) {
    resolved(pairs, &AutoscalerConfig::default(), SpecReplicaBounds::default())
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

#[test]
fn accepts_consistent_bounds() {
    for (pairs, sizes) in [
        (vec![], UNSET),
        (vec![("min-scale", "0"), ("max-scale", "0")], UNSET),
        (vec![("min-scale", "5")], ReplicaBounds { min: 5, ..UNSET }),
        (vec![("max-scale", "2")], ReplicaBounds { max: 2, ..UNSET }),
        (vec![("min-scale", "2"), ("max-scale", "5")], ReplicaBounds { min: 2, max: 5, ..UNSET }),
        (vec![("min-scale", "5"), ("max-scale", "5")], ReplicaBounds { min: 5, max: 5, ..UNSET }),
        (
            vec![("min-scale", "1"), ("activation-scale", "2"), ("max-scale", "3")],
            ReplicaBounds { min: 1, max: 3, activation: 2, ..UNSET },
        ),
        (
            vec![("min-scale", "2"), ("activation-scale", "2"), ("max-scale", "2")],
            ReplicaBounds { min: 2, max: 2, activation: 2, ..UNSET },
        ),
        (vec![("initial-scale", "2")], ReplicaBounds { initial: 2, ..UNSET }),
    ] {
        assert_eq!(annotated(&pairs), (sizes, vec![]), "{pairs:?}");
    }
}

#[test]
fn reports_and_ignores_invalid_bounds() {
    let whole = "a whole number from 0 to 2147483647";
    for (key, value, bound) in [
        ("min-scale", "-1", whole),
        ("max-scale", "-1", whole),
        ("max-scale", "2147483648", whole),
        ("min-scale", "foo", whole),
        ("initial-scale", "-1", whole),
        ("initial-scale", "invalid", whole),
        ("activation-scale", "1", "a whole number from 2 to 2147483647"),
        ("activation-scale", "x", "a whole number from 2 to 2147483647"),
    ] {
        let words = format!("{key} is {value:?}, but must be {bound}");
        assert_eq!(annotated(&[(key, value)]), (UNSET, vec![words]));
    }
    let zero = annotated(&[("initial-scale", "0")]);
    assert_eq!(zero, (ReplicaBounds { initial: 0, ..UNSET }, vec![]));
}

#[test]
fn reports_and_ignores_conflicting_annotations() {
    let (sizes, words) = annotated(&[("min-scale", "5"), ("max-scale", "2")]);
    assert_eq!(sizes, UNSET);
    assert_eq!(words, [r#"min-scale is "5", but must be at most max-scale, which is 2"#]);
    let (sizes, words) = annotated(&[("min-scale", "3"), ("activation-scale", "2")]);
    assert_eq!(sizes, ReplicaBounds { min: 3, ..UNSET });
    assert_eq!(words, [r#"activation-scale is "2", but must be at least min-scale, which is 3"#]);
    let (sizes, words) = annotated(&[("max-scale", "1"), ("activation-scale", "2")]);
    assert_eq!(sizes, ReplicaBounds { max: 1, ..UNSET });
    assert_eq!(words, [r#"activation-scale is "2", but must be at most max-scale, which is 1"#]);
}

#[test]
fn ignores_annotation_that_conflicts_with_the_config_map() {
    // Knative compares annotations only with each other. It would scale up to 5 and down to 3.
    let (sizes, words) = resolved(&[("min-scale", "5")], &cluster(1, 3, 0), SpecReplicaBounds::default());
    assert_eq!(sizes, ReplicaBounds { min: 1, max: 3, ..UNSET });
    assert_eq!(words, [r#"min-scale is "5", but must be at most the cluster's max-scale, which is 3"#]);
    let (sizes, words) = resolved(&[("max-scale", "2")], &cluster(3, 4, 0), SpecReplicaBounds::default());
    assert_eq!(sizes, ReplicaBounds { min: 3, max: 4, ..UNSET });
    assert_eq!(words, [r#"the cluster's min-scale is "3", but must be at most max-scale, which is 2"#]);
}

#[test]
fn annotation_max_scale_is_within_max_scale_limit() {
    for (value, kept) in [("9", 9), ("10", 10), ("11", 1), ("0", 1)] {
        let (sizes, words) =
            resolved(&[("max-scale", value)], &cluster(0, 1, 10), SpecReplicaBounds::default());
        assert_eq!(sizes, ReplicaBounds { max: kept, ..UNSET }, "{value}");
        let expected = format!(
            "max-scale is {value:?}, but must be from 1 to the cluster's max-scale-limit, which is 10"
        );
        assert_eq!(words, if kept == 1 { vec![expected] } else { vec![] });
    }
}

#[test]
fn spec_takes_precedence_over_annotations() {
    let pairs = [("min-scale", "7"), ("max-scale", "3"), ("activation-scale", "5")];
    let (sizes, words) = resolved(&pairs, &cluster(0, 4, 0), spec(2, 50));
    assert_eq!((sizes, words), (ReplicaBounds { min: 2, max: 50, initial: 1, activation: 5 }, vec![]));
    // In a conflict of both, the annotation is ignored.
    let given = SpecReplicaBounds { min: Some(5), ..SpecReplicaBounds::default() };
    let (sizes, words) = resolved(&[("max-scale", "3")], &cluster(0, 0, 0), given);
    assert_eq!(sizes, ReplicaBounds { min: 5, ..UNSET });
    assert_eq!(words, [r#"spec.minReplicas is "5", but must be at most max-scale, which is 3"#]);
    // First the annotation conflicts with the spec, then the spec with the ConfigMap.
    let (sizes, words) = resolved(&[("max-scale", "3")], &cluster(1, 4, 0), given);
    assert_eq!(sizes, ReplicaBounds { min: 1, max: 4, ..UNSET });
    assert_eq!(words.len(), 2, "{words:?}");
    // An invalid annotation is reported even though the spec takes precedence.
    assert_eq!(resolved(&[("min-scale", "x")], &cluster(0, 0, 0), spec(2, 5)).1.len(), 1);
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
