//! What keeps activators in the path.

use super::*;

#[test]
fn pods_with_a_temporary_limit_get_their_requests_from_activators() {
    let limited = |mode, limit| {
        let mut observed = edited(active(), |autoscaler| annotate(autoscaler, "learn-target", "Apply"));
        let report = LearningReport { temporary_limit: limit, ..*learned(mode, 8.0).unwrap() };
        observed.decision.as_mut().unwrap().learning = Some(Box::new(report));
        let plan = decide(&observed, None);
        (plan.mode, plan.temporary_limit)
    };
    let serves = (SksMode::Serve, None);
    assert_eq!(limited(LearnTarget::Apply, None), serves);
    assert_eq!(limited(LearnTarget::Apply, Some(5)), (SksMode::Proxy, Some(5)));
    assert_eq!(limited(LearnTarget::Apply, Some(1001)), serves, "above the most");
    assert_eq!(limited(LearnTarget::Recommend, Some(5)), serves, "the target is the user's");
}

#[test]
fn service_behind_a_load_balancer_that_is_slow_to_follow_keeps_all_activators_in_the_path() {
    let service = |policy: &str| {
        let spec = json!({"externalTrafficPolicy": policy, "selector": {"app": "web"}});
        Some(Arc::new(serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap()))
    };
    let route = |service| {
        let plan = decide(&ObservedWorkload { service, ..active() }, None);
        (plan.mode, plan.activators)
    };
    assert_eq!(route(service("Local")), (SksMode::Proxy, u32::MAX));
    let (mode, activators) = route(service("Cluster"));
    assert!(mode == SksMode::Serve && activators < 10, "{mode:?}, {activators}");
    let targets =
        json!({"metadata": {"annotations": {"alb.ingress.kubernetes.io/target-type": "ip"}}, "spec": {}});
    let targets = Some(Arc::new(serde_json::from_value(targets).unwrap()));
    assert_eq!(route(targets), (SksMode::Proxy, u32::MAX), "each switch would replace all targets");
}
