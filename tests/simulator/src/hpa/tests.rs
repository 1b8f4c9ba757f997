//! Golden vectors: results of a controller of 1.33 or later for an External metric with an
//! `averageValue`. The comments give the row of the table of HPA vectors. Rows 25 (conflict on the
//! write) and 26 (two HPAs for the same pods) are about API objects and are left out.

use super::*;

const NOW: Duration = Duration::from_secs(10_000);

/// `None` is the default tolerance of 10 %.
fn with_tolerance(tolerance: Option<f64>) -> Behavior {
    let mut behavior = Behavior::like_the_kpa(Duration::ZERO);
    (behavior.up.tolerance, behavior.down.tolerance) = (tolerance, tolerance);
    behavior
}

fn hpa(min: i32, max: i32, behavior: impl Into<Option<Behavior>>) -> Hpa {
    Hpa::new(HpaSpec { min, max, targets: vec![70_000], behavior: behavior.into() })
}

/// Runs a sync with `usage` in whole units and `status.replicas` equal to `spec.replicas`.
fn sync(hpa: &mut Hpa, spec: i32, usage: i64) -> (i32, SyncReason) {
    let sync = hpa.sync(ObservedTarget { spec, status: spec, usages: &[Ok(usage * 1000)] }, NOW);
    (sync.replicas, sync.reason)
}

fn of(usage: f64, target: f64, status: i32, tolerance: Option<f64>) -> i32 {
    let milli = |value: f64| (value * 1000.0).ceil() as i64;
    proposal(milli(usage), milli(target), status, with_tolerance(tolerance).tolerances())
}

#[test]
fn proposal_is_usage_over_target_unless_within_tolerance() {
    assert_eq!(of(350.0, 70.0, 4, None), 5); // 1
    assert_eq!(of(286.0, 70.0, 4, None), 4); // 2
    assert_eq!(of(286.0, 70.0, 4, Some(0.0)), 5); // 2
    assert_eq!(of(315.0, 70.0, 4, None), 5); // 3
    assert_eq!(of(1100.0, 100.0, 10, None), 10); // 4
    assert_eq!(of(900.0, 100.0, 10, None), 10); // 5
    assert_eq!(of(0.001, 70.0, 1, None), 1); // 6
    assert_eq!(of(0.0, 70.0, 1, None), 0); // 6
    assert_eq!(of(0.0, 70.0, 0, None), 0); // 7
    assert_eq!(of(70.001, 70.0, 0, None), 2); // 7
}

#[test]
fn usage_of_zero_gives_the_minimum() {
    // 6, 7: a pod that was just created does not count in status.
    for status in [0, 1] {
        let sync =
            hpa(1, 50, with_tolerance(None)).sync(ObservedTarget { spec: 1, status, usages: &[Ok(0)] }, NOW);
        assert_eq!(sync, SyncResult { replicas: 1, reason: SyncReason::TooFewReplicas, failed: false });
    }
}

#[test]
fn sums_items_and_rejects_an_empty_list() {
    assert_eq!(sum(&[100_000, 100_000, 150_000]), Ok(350_000)); // 8
    assert_eq!(sum(&[i64::MAX, 1]), Ok(i64::MAX));
    assert_eq!(sum(&[]), Err(NoMetric)); // 9
}

#[test]
fn unreadable_metric_keeps_the_size() {
    // 9
    let sync = hpa(1, 50, with_tolerance(None))
        .sync(ObservedTarget { spec: 7, status: 7, usages: &[Err(NoMetric)] }, NOW);
    assert_eq!(sync, SyncResult { replicas: 7, reason: SyncReason::FailedGetExternalMetric, failed: true });
}

#[test]
fn one_unreadable_metric_of_two_allows_only_growth() {
    // 10
    let two = HpaSpec { min: 1, max: 50, targets: vec![70_000, 70_000], behavior: Some(Behavior::default()) };
    let sync = |usage| {
        let observed = ObservedTarget { spec: 5, status: 5, usages: &[Ok(usage), Err(NoMetric)] };
        let sync = Hpa::new(two.clone()).sync(observed, NOW);
        (sync.replicas, sync.failed)
    };
    assert_eq!(sync(3 * 70_000), (5, true));
    assert_eq!(sync(8 * 70_000), (8, true));
}

#[test]
fn surge_pod_becomes_the_size_unless_tolerance_is_zero() {
    // 11
    for (tolerance, replicas) in [(None, 21), (Some(0.0), 20)] {
        let observed = ObservedTarget { spec: 20, status: 21, usages: &[Ok(20 * 70_000)] };
        assert_eq!(hpa(1, 50, with_tolerance(tolerance)).sync(observed, NOW).replicas, replicas);
    }
}

#[test]
fn policies_limit_growth_by_the_hpas_own_changes() {
    // 12
    for (current, replicas) in [(1, 5), (3, 7), (5, 10)] {
        let limited = sync(&mut hpa(1, 500, Behavior::default()), current, 100 * 70);
        assert_eq!(limited, (replicas, SyncReason::ScaleUpLimit), "{current}");
    }
    // 13
    let mut added = hpa(1, 500, Behavior::default());
    added.events.record(4, NOW - Duration::from_secs(14));
    assert_eq!(sync(&mut added, 8, 100 * 70), (8, SyncReason::ScaleUpLimit));
    // 14
    let mut patched = hpa(1, 500, Behavior::default());
    assert_eq!(sync(&mut patched, 8, 100 * 70), (16, SyncReason::ScaleUpLimit));
    // 15
    let mut like_the_kpa = hpa(1, 2500, with_tolerance(Some(0.0)));
    assert_eq!(
        like_the_kpa.spec.behavior.as_ref().unwrap().up.up_limit(3, &ScaleEvents::default(), NOW),
        3000
    );
    assert_eq!(sync(&mut like_the_kpa, 3, 5000 * 70), (2500, SyncReason::TooManyReplicas));
}

#[test]
fn scale_event_expires_at_the_end_of_its_period() {
    let mut hpa = hpa(1, 500, Behavior::default());
    hpa.events.record(4, NOW - Duration::from_secs(15));
    assert_eq!(sync(&mut hpa, 8, 100 * 70), (16, SyncReason::ScaleUpLimit));
}

#[test]
fn removes_at_most_half_of_the_pods_in_a_period() {
    // 16
    let rules = Behavior::like_the_kpa(Duration::ZERO).down;
    let limits = [1, 2, 3, 5, 9, 10].map(|current| rules.down_limit(current, &ScaleEvents::default(), NOW));
    assert_eq!(limits, [0, 1, 1, 2, 4, 5]);
    assert_eq!(sync(&mut hpa(1, 50, with_tolerance(None)), 10, 0), (5, SyncReason::ScaleDownLimit));
}

#[test]
fn select_policy_selects_largest_smallest_or_no_change() {
    let period = Duration::from_secs(15);
    let policies = vec![
        ScalingPolicy { kind: PolicyKind::Pods, value: 4, period },
        ScalingPolicy { kind: PolicyKind::Percent, value: 100, period },
    ];
    let limits = |select| {
        let rules = ScalingRules {
            stabilization: Duration::ZERO,
            select,
            policies: policies.clone(),
            tolerance: None,
        };
        let events = ScaleEvents::default();
        (rules.up_limit(10, &events, NOW), rules.down_limit(10, &events, NOW))
    };
    assert_eq!(limits(SelectPolicy::Max), (20, 0));
    assert_eq!(limits(SelectPolicy::Min), (14, 6));
    assert_eq!(limits(SelectPolicy::Disabled), (10, 10));
}

#[test]
fn stabilization_uses_only_the_hpas_own_proposals() {
    let free = |down| {
        let mut behavior = Behavior::like_the_kpa(Duration::from_secs(down));
        behavior.down.policies = vec![ScalingPolicy { kind: PolicyKind::Percent, value: 100, period: NOW }];
        hpa(1, 50, behavior)
    };
    // 17: 20 is a size written from outside.
    let mut none = free(0);
    none.history.record(5, NOW - Duration::from_secs(15));
    assert_eq!(sync(&mut none, 20, 5 * 70), (5, SyncReason::DesiredWithinRange));
    // 18
    let mut held = free(300);
    held.history.record(18, NOW - Duration::from_secs(299));
    assert_eq!(sync(&mut held, 20, 5 * 70), (18, SyncReason::ScaleDownStabilized));
    // 19
    let mut woken = free(300);
    woken.history.record(9, NOW - Duration::from_secs(200));
    assert_eq!(sync(&mut woken, 1, 3 * 70), (3, SyncReason::DesiredWithinRange));
    let mut without_behavior = hpa(1, 50, None);
    without_behavior.history.record(9, NOW - Duration::from_secs(200));
    assert_eq!(sync(&mut without_behavior, 1, 3 * 70).0, 4);
}

#[test]
fn new_controller_records_the_current_size_as_a_proposal() {
    let mut fresh = hpa(1, 50, Behavior::default());
    assert_eq!(sync(&mut fresh, 10, 70), (10, SyncReason::ScaleDownStabilized));
}

#[test]
fn corrects_size_out_of_bounds_without_a_metric() {
    let at = |spec| {
        hpa(2, 50, Behavior::default())
            .sync(ObservedTarget { spec, status: spec, usages: &[Err(NoMetric)] }, NOW)
    };
    // 20
    assert_eq!(at(60), SyncResult { replicas: 50, reason: SyncReason::AboveMaxReplicas, failed: false });
    // 21
    assert_eq!(at(1), SyncResult { replicas: 2, reason: SyncReason::BelowMinReplicas, failed: false });
}

#[test]
fn keeps_target_at_zero_unless_the_hpa_scaled_it_there() {
    // 22, 24
    for min in [1, 0] {
        assert_eq!(sync(&mut hpa(min, 50, Behavior::default()), 0, 140), (0, SyncReason::ScalingDisabled));
    }
    // 23
    let mut own_zero = hpa(0, 50, with_tolerance(None));
    assert_eq!(sync(&mut own_zero, 1, 0), (0, SyncReason::DesiredWithinRange));
    assert_eq!(sync(&mut own_zero, 0, 140), (2, SyncReason::DesiredWithinRange));
    assert_eq!(
        sync(&mut own_zero, 0, 140),
        (0, SyncReason::ScalingDisabled),
        "now at zero by a write of another client"
    );
}
