//! Another writer of the size, and targets and HPAs that change hands.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::cluster::{AUTOSCALER, Cluster, HPA, SERVERLESS_SERVICE, condition};
use crate::harness::scenario::Scenario;

const HPA_ON_CPU: &str = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/cpu";
const LONG: Duration = Duration::from_secs(120);

fn hpa_on_cpu(cluster: &Cluster) {
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    cluster.api.put(
        HPA_ON_CPU,
        json!({"spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 4, "maxReplicas": 6,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]}}),
    );
}

/// Scales the target as another field manager, which then owns its size.
fn scale_by(cluster: &Cluster, manager: &str, replicas: i64) {
    let fields: Value = json!({"f:spec": {"f:replicas": {}}});
    cluster.edit(cluster.target(), |object| {
        object["spec"]["replicas"] = replicas.into();
        object["metadata"]["managedFields"] = json!([{"manager": manager, "operation": "Update",
            "fieldsType": "FieldsV1", "fieldsV1": fields}]);
    });
}

#[tokio::test(start_paused = true)]
async fn direct_scaler_leaves_sizes_above_zero_to_an_hpa_of_its_target() {
    let mut scenario = Scenario::new(1);
    scenario.cluster.user_written("Direct");
    scenario.until_serving().await;
    hpa_on_cpu(&scenario.cluster);
    scenario
        .until("condition", |cluster| condition(cluster, AUTOSCALER, "Degraded").contains("HPA cpu"))
        .await;
    scale_by(&scenario.cluster, "kube-controller-manager", 4);
    scenario.decide(2, None);
    scenario.advance(LONG).await;
    assert_eq!(scenario.cluster.size(), 4);
    let degraded = condition(&scenario.cluster, AUTOSCALER, "Degraded");
    assert!(degraded.contains("ScaleConflict") && degraded.contains("delete hpa cpu"), "{degraded}");
    assert_eq!(scenario.cluster.events("ScaleConflict").len(), 1);
    // Without the HPA it scales again at once.
    scenario.cluster.api.remove(HPA_ON_CPU);
    scenario.until("the decided size", |cluster| cluster.size() == 2).await;
    scenario.settle().await;
    assert_eq!(condition(&scenario.cluster, AUTOSCALER, "Degraded"), "");
}

#[tokio::test(start_paused = true)]
async fn yields_to_a_controller_that_reverts_zero_again_and_again() {
    for is_watched in [true, false] {
        let scenario = Scenario::new(1);
        if !is_watched {
            scenario.cluster.scale_a_replica_set();
        }
        yields_to_an_operator(scenario).await;
    }
}

async fn yields_to_an_operator(mut scenario: Scenario) {
    scenario.until_serving().await;
    for _ in 0..3 {
        scenario.until_at_zero().await;
        scale_by(&scenario.cluster, "operator", 1);
        scenario.advance(Duration::from_secs(2)).await;
    }
    scenario.advance(LONG).await;
    assert_eq!(scenario.cluster.size(), 1);
    let degraded = condition(&scenario.cluster, AUTOSCALER, "Degraded");
    assert!(degraded.contains("ScaleConflict") && degraded.contains("operator"), "{degraded}");
    // It tries again later, and stays at zero if nothing reverts that.
    scenario.advance(Duration::from_secs(600)).await;
    scenario.until_at_zero().await;
    assert_eq!(condition(&scenario.cluster, AUTOSCALER, "Degraded"), "");
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn former_target_of_a_changed_hpa_leaves_zero_within_seconds() {
    for gadget in [false, true] {
        let mut scenario = Scenario::new(1);
        if gadget {
            scenario.cluster.scale_a_gadget();
        }
        scenario.until_serving().await;
        scenario.until_at_zero().await;
        scenario.cluster.copy_of_deployment("api");
        scenario.cluster.edit(HPA, |hpa| {
            hpa["spec"]["scaleTargetRef"] =
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"});
        });
        scenario.advance(Duration::from_secs(3)).await;
        assert_eq!(scenario.cluster.size(), 1, "custom resource: {gadget}");
    }
}

/// The path of an object.
type Dependent = fn(&Scenario) -> String;

/// Garbage collection removes the owner reference after the API server has marked the owner. The
/// watch of the owners may be behind that of their dependents.
#[tokio::test(start_paused = true)]
async fn orphaning_deletion_that_watches_report_late_leaves_its_dependents_without_owner() {
    let slice = |scenario: &Scenario| {
        let mut objects = scenario.cluster.api.objects().into_iter();
        let is_owned = |object: &Value| object.pointer("/metadata/ownerReferences/0").is_some();
        objects.find(|(path, object)| path.contains("/shop/endpointslices/") && is_owned(object)).unwrap().0
    };
    let cases: [(&str, &str, Dependent); 3] = [
        (HPA, "/apis/autoscaling/v2/horizontalpodautoscalers", |_| AUTOSCALER.to_owned()),
        (AUTOSCALER, "/apis/autoscaling.rouse.dev/v1alpha1/podautoscalers", |_| {
            SERVERLESS_SERVICE.to_owned()
        }),
        (SERVERLESS_SERVICE, "/apis/autoscaling.rouse.dev/v1alpha1/serverlessservices", slice),
    ];
    for (owner, resource, dependent) in cases {
        let mut scenario = Scenario::at_zero().await;
        let dependent = dependent(&scenario);
        scenario.cluster.api.pause_watches(Some(resource));
        scenario.cluster.edit(owner, |owner| {
            owner["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            owner["metadata"]["finalizers"] = json!(["orphan"]);
        });
        scenario.cluster.edit(&dependent, |it| it["metadata"]["ownerReferences"] = Value::Null);
        scenario.advance(Duration::from_secs(10)).await;
        assert_eq!(scenario.cluster.field(&dependent, "/metadata/ownerReferences"), Value::Null, "{owner}");
    }
}

/// Each write of the PodAutoscaler has the owner, so none is sent between the mark of an orphaning
/// deletion and the removal of the reference.
#[tokio::test(start_paused = true)]
async fn podautoscaler_is_not_written_for_an_hpa_that_is_being_deleted() {
    let mut scenario = Scenario::at_zero().await;
    scenario.cluster.api.pause_watches(Some("/apis/autoscaling/v2/horizontalpodautoscalers"));
    scenario.cluster.edit(HPA, |hpa| {
        hpa["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        hpa["metadata"]["finalizers"] = json!(["orphan"]);
    });
    scenario.cluster.edit(AUTOSCALER, |autoscaler| autoscaler["spec"]["maxReplicas"] = 9.into());
    scenario.advance(Duration::from_secs(10)).await;
    assert_eq!(scenario.cluster.field(AUTOSCALER, "/spec/maxReplicas"), 9);
}

#[tokio::test(start_paused = true)]
async fn podautoscaler_of_an_orphaning_deletion_follows_the_next_hpa() {
    let mut scenario = Scenario::at_zero().await;
    let hpa = scenario.cluster.api.get(HPA).unwrap();
    scenario.cluster.api.remove(HPA);
    scenario.cluster.edit(AUTOSCALER, |autoscaler| autoscaler["metadata"]["ownerReferences"] = Value::Null);
    scenario
        .until("HPANotFound", |cluster| condition(cluster, AUTOSCALER, "HPAAccepted").contains("HPANotFound"))
        .await;
    let mut new = json!({"metadata": {"annotations": hpa["metadata"]["annotations"]}, "spec": hpa["spec"]});
    new["spec"]["maxReplicas"] = 9.into();
    scenario.cluster.api.put(HPA, new);
    scenario.until("the new bounds", |cluster| cluster.field(AUTOSCALER, "/spec/maxReplicas") == 9).await;
    let owner = scenario.cluster.field(AUTOSCALER, "/metadata/ownerReferences/0/kind");
    assert_eq!(owner, "HorizontalPodAutoscaler");
    scenario.decide(2, None);
    scenario.until("two replicas", |cluster| cluster.size() == 2).await;
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
}
