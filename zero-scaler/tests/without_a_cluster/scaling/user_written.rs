//! PodAutoscalers that a user writes, and targets other than a Deployment.

use simulator::hpa::Behavior;

use serde_json::json;

use crate::harness::cluster::{AUTOSCALER, Cluster, HPA, REPLICA_SET, SERVERLESS_SERVICE, condition};
use crate::harness::scenario::Scenario;

#[tokio::test(start_paused = true)]
async fn direct_scaler_writes_all_sizes_until_it_is_deleted() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.user_written("Direct");
    scenario.until_serving().await;
    scenario.decide(3, None);
    scenario.until("the decided size", |cluster| cluster.size() == 3).await;
    scenario.decide_panic(8, 30.0);
    scenario.until("the size of the panic", |cluster| cluster.size() == 8).await;
    scenario.decide(2, None);
    scenario.until("the size after the panic", |cluster| cluster.size() == 2).await;
    scenario.until_at_zero().await;
    scenario.decide(2, None);
    scenario.until("two replicas", |cluster| cluster.size() == 2).await;
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 3, 8, 2, 1, 0, 2]);
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());

    scenario.cluster.delete(AUTOSCALER);
    scenario.decide(4, None);
    scenario.settle().await;
    assert_eq!(scenario.cluster.size(), 2);
    let left = scenario.cluster.api.objects().into_iter().map(|(path, _)| path);
    let managed: Vec<String> =
        left.filter(|path| path.contains("autoscaling.rouse.dev") || path.contains("rouse-ip")).collect();
    assert_eq!(managed, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn hpa_of_another_target_is_none_of_a_user_written_podautoscaler() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.user_written("HPA");
    scenario.until_serving().await;
    scenario.cluster.copy_of_deployment("api");
    scenario.cluster.edit(HPA, |hpa| hpa["spec"]["scaleTargetRef"]["name"] = "api".into());
    scenario
        .until("the condition", |cluster| {
            let ready = condition(cluster, AUTOSCALER, "Ready");
            ready.contains("HPANotFound") && ready.contains("scales Deployment \\\"api\\\"")
        })
        .await;
    scenario.cluster.edit(HPA, |hpa| hpa["spec"]["scaleTargetRef"]["name"] = "web".into());
    scenario.until("Ready", |cluster| condition(cluster, AUTOSCALER, "Ready").starts_with(r#""True""#)).await;
}

#[tokio::test(start_paused = true)]
async fn invalid_target_of_a_podautoscaler_is_reported() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.user_written("Direct");
    scenario.until_serving().await;
    for target in ["0", "many"] {
        scenario.cluster.edit(AUTOSCALER, |autoscaler| autoscaler["spec"]["target"] = target.into());
        scenario
            .until("the condition", |cluster| {
                let ready = condition(cluster, AUTOSCALER, "Ready");
                ready.contains("BadTarget") && ready.contains(target)
            })
            .await;
    }
    scenario.cluster.edit(AUTOSCALER, |autoscaler| autoscaler["spec"]["target"] = "700m".into());
    scenario.until("Ready", |cluster| condition(cluster, AUTOSCALER, "Ready").starts_with(r#""True""#)).await;
}

/// A Deployment reverts each size of its ReplicaSet at once, as it would with any HPA.
#[tokio::test(start_paused = true)]
async fn replica_set_of_a_deployment_is_not_scaled() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.scale_a_replica_set();
    scenario.cluster.edit(REPLICA_SET, |set| {
        set["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop",
            "uid": "1", "controller": true}]);
    });
    scenario.decide_idle();
    scenario
        .until("the condition", |cluster| {
            let ready = condition(cluster, AUTOSCALER, "Ready");
            ready.contains("ScaleConflict")
                && ready.contains("name Deployment \\\"shop\\\" in scaleTargetRef")
        })
        .await;
    scenario.advance(std::time::Duration::from_secs(300)).await;
    assert_eq!(scenario.cluster.observed().sizes, [1]);
}

#[tokio::test(start_paused = true)]
async fn hpa_beside_user_written_podautoscaler_sizes_above_zero() {
    let mut scenario = Scenario::with_hpa(1, 50, Some(Behavior::like_the_kpa(std::time::Duration::ZERO)));
    scenario.cluster.user_written("HPA");
    scenario.until_serving().await;
    scenario.decide(4, None);
    scenario.until("the HPA follows", |cluster| cluster.size() == 4).await;
    assert_eq!(scenario.cluster.scale_writes(), 0);
    scenario.decide_panic(12, 60.0);
    scenario.until("the size of the panic", |cluster| cluster.size() == 12).await;
    scenario.decide(1, None);
    scenario.until("the HPA follows", |cluster| cluster.size() == 1).await;
    scenario.until_at_zero().await;
    scenario.decide(2, None);
    scenario.until("two replicas", |cluster| cluster.size() == 2).await;
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.scale_writes(), 3);
    assert_eq!(scenario.cluster.events("ForeignPodAutoscaler").len(), 0, "the same user wrote both");
    assert!(condition(&scenario.cluster, AUTOSCALER, "Ready").starts_with(r#""True""#));

    scenario.cluster.delete(HPA);
    scenario
        .until("condition HPANotFound", |cluster| {
            condition(cluster, AUTOSCALER, "Ready").contains("HPANotFound")
        })
        .await;
    assert!(scenario.cluster.api.get(SERVERLESS_SERVICE).is_some(), "the user's object still needs it");
}

#[tokio::test(start_paused = true)]
async fn beside_another_autoscaler_only_zero_is_left_and_reached() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.user_written("Other");
    scenario.until_serving().await;
    scenario.decide_panic(8, 30.0);
    scenario.settle().await;
    assert_eq!(scenario.cluster.size(), 1);
    scenario.until_at_zero().await;
    scenario.decide(3, None);
    scenario.until("the first size", |cluster| cluster.size() == 1).await;
    scenario.until_serving().await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 1]);
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn custom_resource_goes_to_zero_and_back() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.scale_an_undiscovered_gadget();
    let not_ready = |reason: &'static str, fix: &'static str| {
        move |cluster: &Cluster| {
            let ready = condition(cluster, AUTOSCALER, "Ready");
            ready.contains(reason) && ready.contains(fix)
        }
    };
    let unknown = not_ready("UnknownTargetKind", "correct scaleTargetRef");
    scenario.until("condition UnknownTargetKind", unknown).await;
    scenario.cluster.discover_gadgets(&["status"]);
    let without_scale = not_ready("TargetNotScalable", "name a Deployment");
    scenario.until("condition TargetNotScalable", without_scale).await;
    scenario.cluster.discover_gadgets(&["scale", "status"]);
    scenario.full_cycle().await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 2]);
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

/// The HPA controller ignores the version of scaleTargetRef.
#[tokio::test(start_paused = true)]
async fn target_in_a_version_that_is_not_served_goes_to_zero_and_back() {
    for (kind, version) in [("Deployment", "apps/v1beta1"), ("Gadget", "example.com/v1alpha1")] {
        let mut scenario = Scenario::new(1);
        if kind == "Gadget" {
            scenario.cluster.scale_a_gadget();
        }
        scenario.cluster.edit(HPA, |hpa| hpa["spec"]["scaleTargetRef"]["apiVersion"] = version.into());
        scenario.full_cycle().await;
        assert_eq!(scenario.cluster.observed().sizes, [1, 0, 2], "{version}");
        assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
    }
}
