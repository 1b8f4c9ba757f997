//! What the pod template alone states of its sidecars, for the decider and for activators.

use serde_json::{Value, json};

use crate::harness::cluster::{AUTOSCALER, Cluster, DEPLOYMENT, HPA, SERVERLESS_SERVICE, condition};
use crate::harness::scenario::Scenario;

const METRIC: &str = "/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/metrics/web";
const LIMIT: &str = "autoscaling.rouse.dev/container-concurrency";
const NO_WAKE: &str = "autoscaling.rouse.dev/no-wake";

fn annotate_template(cluster: &Cluster, limit: &str) {
    let annotations = json!({LIMIT: limit, NO_WAKE: "HEAD"});
    cluster.edit(DEPLOYMENT, |it| it["spec"]["template"]["metadata"]["annotations"] = annotations);
}

fn limit(cluster: &Cluster) -> Value {
    cluster.field(METRIC, "/spec/containerConcurrency")
}

fn rules(cluster: &Cluster) -> Value {
    cluster.field(SERVERLESS_SERVICE, "/spec/noWake/requests")
}

#[tokio::test(start_paused = true)]
async fn limit_and_rules_of_the_pod_template_need_none_on_the_hpa() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    assert_eq!(limit(&scenario.cluster), Value::Null);
    annotate_template(&scenario.cluster, "10");
    scenario.until("the limit", |cluster| limit(cluster) == 10 && rules(cluster) == "HEAD").await;
    scenario.settle().await;
    assert_eq!(condition(&scenario.cluster, AUTOSCALER, "Degraded"), "");
    let of_workload = scenario.cluster.field(SERVERLESS_SERVICE, "/spec/containerConcurrency");
    assert_eq!(of_workload, 0, "activators read the limit of each pod");

    annotate_template(&scenario.cluster, "many");
    scenario.settle().await;
    assert_eq!(limit(&scenario.cluster), 10, "pods of the former template serve");
    annotate_template(&scenario.cluster, "20");
    scenario.until("the new limit", |cluster| limit(cluster) == 20).await;

    scenario.cluster.edit(HPA, |hpa| hpa["metadata"]["annotations"][NO_WAKE] = "/healthz".into());
    scenario.until("the rules of the HPA", |cluster| rules(cluster) == "/healthz").await;
    let differs = |cluster: &Cluster| condition(cluster, AUTOSCALER, "Degraded").contains("NoWakeMismatch");
    scenario.until("the condition", differs).await;
}
