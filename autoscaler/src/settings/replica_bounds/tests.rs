//! Golden cases of Knative's `pkg/apis/autoscaling/annotation_validation_test.go` on sizes, and which of two that are at odds is
//! left out.

use std::collections::BTreeMap;

use super::*;

const PREFIX: &str = "autoscaling.rouse.dev/";
const UNSET: ReplicaBounds = ReplicaBounds { min: 0, max: 0, initial: 1, activation: 1 };

fn resolved(
    pairs: &[(&str, &str)],
    config: &AutoscalerConfig,
    given: SpecReplicaBounds,
) -> (ReplicaBounds, Vec<String>) {
    let annotations: BTreeMap<_, _> =
        pairs.iter().map(|(k, v)| (format!("{PREFIX}{k}"), (*v).to_owned())).collect();
    let mut reader = SettingReader::new(&annotations, PREFIX);
    let sizes = resolve(&mut reader, config, given);
    let words = reader.into_errors().iter().map(|e| e.to_string().replace(PREFIX, "")).collect();
    (sizes, words)
}

fn annotated(pairs: &[(&str, &str)]) -> (ReplicaBounds, Vec<String>) {
    resolved(pairs, &AutoscalerConfig::default(), SpecReplicaBounds::default())
}

fn cluster(min_scale: u32, max_scale: u32, max_scale_limit: u32) -> AutoscalerConfig {
    AutoscalerConfig { min_scale, max_scale, max_scale_limit, ..AutoscalerConfig::default() }
}

fn spec(min: u32, max: u32) -> SpecReplicaBounds {
    SpecReplicaBounds { min: Some(min), max: Some(max), limited: true }
}

#[test]
fn sizes_in_order_are_taken() {
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
fn sizes_that_are_none_are_named_and_left_out() {
    let whole = "a whole number from 0 to 2147483647";
    for (key, value, bound) in [
        ("min-scale", "-1", whole),
        ("max-scale", "-1", whole),
        ("max-scale", "2147483648", whole),
        ("min-scale", "foo", whole),
        ("initial-scale", "-1", whole),
        ("initial-scale", "invalid", whole),
        ("initial-scale", "0", "1 or more while the cluster's allow-zero-initial-scale is false"),
        ("activation-scale", "1", "a whole number from 2 to 2147483647"),
        ("activation-scale", "x", "a whole number from 2 to 2147483647"),
    ] {
        let words = format!("{key} is {value:?}, but must be {bound}");
        assert_eq!(annotated(&[(key, value)]), (UNSET, vec![words]));
    }
    let allowed = AutoscalerConfig { allow_zero_initial_scale: true, ..AutoscalerConfig::default() };
    let zero = resolved(&[("initial-scale", "0")], &allowed, SpecReplicaBounds::default());
    assert_eq!(zero, (ReplicaBounds { initial: 0, ..UNSET }, vec![]));
}

#[test]
fn two_at_odds_are_both_named_and_left_out() {
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
fn an_annotation_at_odds_with_the_cluster_is_left_out() {
    // Knative compares annotations with each other only; it would then scale to 5 from below and to 3 from above.
    let (sizes, words) = resolved(&[("min-scale", "5")], &cluster(1, 3, 0), SpecReplicaBounds::default());
    assert_eq!(sizes, ReplicaBounds { min: 1, max: 3, ..UNSET });
    assert_eq!(words, [r#"min-scale is "5", but must be at most the cluster's max-scale, which is 3"#]);
    let (sizes, words) = resolved(&[("max-scale", "2")], &cluster(3, 4, 0), SpecReplicaBounds::default());
    assert_eq!(sizes, ReplicaBounds { min: 3, max: 4, ..UNSET });
    assert_eq!(words, [r#"the cluster's min-scale is "3", but must be at most max-scale, which is 2"#]);
}

#[test]
fn no_annotation_exceeds_the_limit() {
    for (value, kept) in [("9", 9), ("10", 10), ("11", 1), ("0", 1)] {
        let (sizes, words) =
            resolved(&[("max-scale", value)], &cluster(0, 1, 10), SpecReplicaBounds::default());
        assert_eq!(sizes, ReplicaBounds { max: kept, ..UNSET }, "{value}");
        let complaint = format!(
            "max-scale is {value:?}, but must be from 1 to the cluster's max-scale-limit, which is 10"
        );
        assert_eq!(words, if kept == 1 { vec![complaint] } else { vec![] });
    }
}

#[test]
fn the_spec_rules_over_annotations() {
    let pairs = [("min-scale", "7"), ("max-scale", "3"), ("activation-scale", "5")];
    let (sizes, words) = resolved(&pairs, &cluster(0, 4, 0), spec(2, 50));
    assert_eq!((sizes, words), (ReplicaBounds { min: 2, max: 50, initial: 1, activation: 5 }, vec![]));
    // One of the two: the annotation gives way, the spec stays.
    let given = SpecReplicaBounds { min: Some(5), ..SpecReplicaBounds::default() };
    let (sizes, words) = resolved(&[("max-scale", "3")], &cluster(0, 0, 0), given);
    assert_eq!(sizes, ReplicaBounds { min: 5, ..UNSET });
    assert_eq!(words, [r#"spec.minReplicas is "5", but must be at most max-scale, which is 3"#]);
    // Against the cluster the spec gives way too; so it does twice where the annotation was in the way first.
    let (sizes, words) = resolved(&[("max-scale", "3")], &cluster(1, 4, 0), given);
    assert_eq!(sizes, ReplicaBounds { min: 1, max: 4, ..UNSET });
    assert_eq!(words.len(), 2, "{words:?}");
    // A slip in an annotation is told even where it would not count.
    assert_eq!(resolved(&[("min-scale", "x")], &cluster(0, 0, 0), spec(2, 5)).1.len(), 1);
}

#[test]
fn the_spec_is_held_to_the_limit_and_an_hpa_is_not() {
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
fn a_configuration_put_together_out_of_order_is_brought_into_order() {
    let (sizes, words) = resolved(&[], &cluster(9, 4, 0), SpecReplicaBounds::default());
    assert_eq!(sizes, ReplicaBounds { min: 4, max: 4, ..UNSET });
    assert_eq!(words.len(), 1);
}
