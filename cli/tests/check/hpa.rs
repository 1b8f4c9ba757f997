//! Faults of HPAs, targets and annotations.

use serde_json::{Value, json};

use crate::healthy::{
    AUTOSCALER, HPA, POD, WEB, assert_only, condition, findings, healthy, hpa, put_status, put_version, set,
    unreconciled,
};
use crate::support::run;

const OBJECT: &str = "HorizontalPodAutoscaler shop/web";

fn web_hpa() -> String {
    format!("{HPA}/web")
}

#[tokio::test]
async fn names_both_hpas_of_one_target() {
    let api = unreconciled();
    let mut other = hpa("web-cpu");
    other["spec"]["metrics"] = json!([]);
    api.put(&format!("{HPA}/web-cpu"), other);
    assert_only(&api, "HorizontalPodAutoscaler shop/web", "MultipleHPAs", "delete hpa web-cpu").await;
}

#[tokio::test]
async fn names_hpa_without_tolerance_where_the_cluster_keeps_it() {
    let api = healthy();
    let advice =
        condition("HPAAccepted", "True", "ToleranceNotZero", "spec.behavior.scaleUp has no tolerance: \"0\"");
    put_status(&api, &json!({"conditions": [advice]}));
    assert_only(&api, "PodAutoscaler shop/web", "ToleranceNotZero", "tolerance: \"0\"").await;
    put_version(&api, "34");
    set(&api, WEB, "/spec/template/spec/initContainers", json!([{"name": "queue-proxy"}]));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
}

#[tokio::test]
async fn names_the_owner_of_a_second_hpa() {
    let api = unreconciled();
    let mut other = hpa("keda-hpa-web");
    other["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "name": "web", "uid": "1"}]);
    api.put(&format!("{HPA}/keda-hpa-web"), other);
    let text = run(&api, &["check"]).await.unwrap().text;
    assert!(text.contains("delete ScaledObject web, which owns HPA keda-hpa-web"), "{text}");
}

#[tokio::test]
async fn names_hpa_beside_a_workload_that_rouse_scales_alone() {
    let api = healthy();
    api.remove(&web_hpa());
    set(&api, AUTOSCALER, "/spec/scaler", json!("Direct"));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
    let mut other = hpa("web-cpu");
    other["spec"]["metrics"] = json!([]);
    api.put(&format!("{HPA}/web-cpu"), other);
    assert_only(&api, "HorizontalPodAutoscaler shop/web-cpu", "MultipleHPAs", "delete hpa web-cpu").await;
}

#[tokio::test]
async fn names_objects_of_other_autoscalers_on_the_target() {
    let api = healthy();
    let scaled = |name: &str| {
        json!({
            "apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"scaleTargetRef": {"name": name}},
        })
    };
    let path = "/apis/keda.sh/v1alpha1/namespaces/shop/scaledobjects/web";
    api.put(path, scaled("other"));
    assert_eq!(findings(&api).await, Vec::<Value>::new());
    api.put(path, scaled("web"));
    assert_only(&api, "Deployment shop/web", "ScaleConflict", "delete the object that scales the target")
        .await;
    assert!(run(&api, &["check"]).await.unwrap().text.contains("ScaledObject shop/web writes its size too"));
    set(&api, AUTOSCALER, "/spec/scaler", json!("Other"));
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "KEDA may scale it above zero");
    let rollout = json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"workloadRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
    });
    api.put("/apis/argoproj.io/v1alpha1/namespaces/shop/rollouts/web", rollout);
    assert_only(&api, "Deployment shop/web", "ScaleConflict", "delete the object that scales the target")
        .await;
    assert!(run(&api, &["check"]).await.unwrap().text.contains("Rollout shop/web writes its size too"));
}

#[tokio::test]
async fn names_target_that_does_not_exist() {
    let api = unreconciled();
    api.remove(WEB);
    assert_only(&api, OBJECT, "TargetNotFound", "correct scaleTargetRef").await;
}

#[tokio::test]
async fn names_hpa_that_is_not_followed_because_of_its_type() {
    let api = healthy();
    api.remove(AUTOSCALER);
    set(&api, &web_hpa(), "/spec/metrics/0/external/target", json!({"type": "Value", "value": "70"}));
    assert_only(&api, OBJECT, "TargetNotAverageValue", "AverageValue").await;
}

#[tokio::test]
async fn names_hpa_with_a_metric_that_is_none_of_rouse() {
    let api = healthy();
    api.remove(AUTOSCALER);
    set(&api, &web_hpa(), "/spec/metrics/0/external/metric/name", json!("concurency"));
    assert_only(&api, OBJECT, "NoMetric", "use the metric concurrency").await;
    set(&api, WEB, "/spec/template/metadata/labels", json!({"app": "web"}));
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "it may be another adapter's");
    set(&api, &web_hpa(), "/metadata/annotations", json!({"autoscaling.rouse.dev/scale-to-zero": "true"}));
    assert_only(&api, OBJECT, "NoMetric", "use the metric concurrency").await;
}

#[tokio::test]
async fn names_deployment_at_zero_that_no_workload_wakes() {
    let api = healthy();
    let mut stopped = api.get(WEB).unwrap();
    stopped["metadata"]["name"] = json!("old");
    stopped["spec"]["selector"]["matchLabels"] = json!({"app": "old"});
    stopped["spec"]["template"]["metadata"]["labels"]["app"] = json!("old");
    stopped["spec"]["replicas"] = json!(0);
    api.put("/apis/apps/v1/namespaces/shop/deployments/old", stopped);
    assert_only(&api, "Deployment shop/old", "NotManaged", "kubectl rouse init deployment/old").await;
}

#[tokio::test]
async fn names_conditions_of_the_hpa_controller_that_last() {
    let api = healthy();
    let status = |kind: &str, reason: &str| {
        let since = "2026-01-01T00:00:00Z";
        json!({"desiredReplicas": 1, "conditions": [
            {"type": kind, "status": "False", "reason": reason, "message": "why", "lastTransitionTime": since},
        ]})
    };
    for (kind, reason, fix) in [
        ("ScalingActive", "FailedGetResourceMetric", "metrics-server"),
        ("ScalingActive", "FailedGetExternalMetric", "troubleshooting"),
        ("AbleToScale", "FailedGetScale", "scaleTargetRef"),
        ("AbleToScale", "FailedUpdateScale", "admission"),
    ] {
        set(&api, &web_hpa(), "/status", status(kind, reason));
        assert_only(&api, OBJECT, reason, fix).await;
    }
    set(&api, &web_hpa(), "/status", status("ScalingActive", "ScalingDisabled"));
    assert_eq!(findings(&api).await, Vec::<Value>::new(), "it rests at zero");
}

#[tokio::test]
async fn names_what_keeps_a_workload_above_zero_as_its_condition_does() {
    let api = healthy();
    for (kind, reason, fix) in [
        ("HPAAccepted", "ScalingDisabled", "remove that selectPolicy"),
        ("Degraded", "RolloutIncomplete", "rollout undo deployment/web"),
        ("Degraded", "VolumesDeleted", "whenScaled to Retain"),
        ("Degraded", "PodsRefused", "ResourceQuota"),
        ("Degraded", "HPASlow", "--kube-api-qps"),
        ("Ready", "WriteRefused", "admission policy"),
    ] {
        let status = if kind == "Ready" { "False" } else { "True" };
        put_status(&api, &json!({"conditions": [condition(kind, status, reason, "why")]}));
        assert_only(&api, "PodAutoscaler shop/web", reason, fix).await;
    }
}

#[tokio::test]
async fn names_annotations_that_nothing_reads() {
    let api = healthy();
    let annotate = |path: &str, at: &str, name: &str| {
        set(&api, path, at, json!({format!("autoscaling.rouse.dev/{name}"): "1"}));
    };
    annotate(&web_hpa(), "/metadata/annotations", "window");
    annotate(WEB, "/spec/template/metadata/annotations", "queue-depth");
    assert_eq!(findings(&api).await, Vec::<Value>::new());
    annotate(&web_hpa(), "/metadata/annotations", "scale-to-zeroo");
    assert_only(&api, OBJECT, "UnknownAnnotation", "correct its name").await;
    annotate(&web_hpa(), "/metadata/annotations", "targetBurstCapacity");
    assert_only(&api, OBJECT, "UnknownAnnotation", "correct its name").await;
    annotate(&web_hpa(), "/metadata/annotations", "app-port");
    assert_only(&api, OBJECT, "MisplacedAnnotation", "move it to the pod template").await;
    set(&api, &web_hpa(), "/metadata/annotations", json!({}));
    annotate(WEB, "/spec/template/metadata/annotations", "window");
    assert_only(&api, "Deployment shop/web", "MisplacedAnnotation", "move it to the HPA").await;
    set(&api, WEB, "/spec/template/metadata/annotations", json!({}));
    annotate(WEB, "/metadata/annotations", "scale-to-zero");
    assert_only(&api, "Deployment shop/web", "MisplacedAnnotation", "move it to the HPA").await;
    set(&api, WEB, "/metadata/annotations", json!({}));
    api.remove(&web_hpa());
    annotate(AUTOSCALER, "/metadata/annotations", "scale-to-zero");
    assert_only(&api, "PodAutoscaler shop/web", "MisplacedAnnotation", "a field of its spec").await;
}

#[tokio::test]
async fn names_pod_autoscaler_that_no_zero_scaler_reconciles() {
    let api = healthy();
    put_status(&api, &Value::Null);
    assert_only(&api, "PodAutoscaler shop/web", "NotReconciled", "logs of Deployment zero-scaler").await;
}

#[tokio::test]
async fn names_what_keeps_pods_from_being_created_or_rolled_out() {
    let api = healthy();
    set(&api, WEB, "/spec/paused", json!(true));
    assert_only(&api, "Deployment shop/web", "RolloutPaused", "rollout resume deployment/web").await;
    set(&api, WEB, "/spec/paused", json!(false));
    let failure = json!({"conditions": [{"type": "ReplicaFailure", "status": "True", "message": "exceeded quota: small"}]});
    set(&api, WEB, "/status", failure);
    api.remove(POD);
    assert_only(&api, "Deployment shop/web", "PodsNotCreated", "ResourceQuota").await;
    assert!(run(&api, &["check"]).await.unwrap().text.contains("exceeded quota: small"));
}
