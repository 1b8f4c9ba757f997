//! A limit that only the pods state: a burst at zero, and a rollout that doubles the limit under
//! load.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::{PodAutoscaler, condition};
use autoscaler::contract::CONTAINER_CONCURRENCY;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::{TestNamespace, pods_of};
use system_tests::traffic::load::{LONGEST, Load, create_at_zero, ensure_all_ok};
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, ROLLOUT};
use system_tests::workloads::rollout::until_rolled_out;
use system_tests::workloads::workload::{Workload, until_replicas};

const NAME: &str = "pod-limits";
/// More than all pods serve at a time, and than fit into the queue of one sidecar.
const CLIENTS: u32 = 200;
const WORK: Duration = Duration::from_millis(100);
const PODS: i32 = 2;
const LIMIT: u32 = 10;
/// Kubernetes' label of the pods of one template.
const TEMPLATE_LABEL: &str = "pod-template-hash";

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn burst_and_rollout_keep_to_the_limit_that_each_pod_states() -> Result<()> {
    let namespace = begin_shared(NAME).await?;
    let workload = Workload {
        container_concurrency: LIMIT,
        target: "7".to_owned(),
        max_replicas: PODS,
        ..Workload::new(NAME)
    };
    let url = create_at_zero(&workload, &namespace, POD_START).await?;
    let mut load = Load::concurrency(&url, CLIENTS, WORK, LONGEST).start(&namespace).await?;
    until_replicas(&namespace, NAME, |replicas| replicas == PODS, POD_START).await?;
    until_rolled_out(&namespace, NAME, ROLLOUT).await?;
    let mut limits = BTreeMap::from([(template(&namespace).await?, LIMIT)]);
    let mut responses = load.until_now().await?;

    let annotations = json!({CONTAINER_CONCURRENCY: (2 * LIMIT).to_string()});
    let patch = Patch::Strategic(json!({"spec": {"template": {"metadata": {"annotations": annotations}}}}));
    namespace.api::<Deployment>().patch(NAME, &PatchParams::default(), &patch).await?;
    until_rolled_out(&namespace, NAME, ROLLOUT).await?;
    limits.insert(template(&namespace).await?, 2 * LIMIT);
    responses.extend(load.until_now().await?);

    println!("{} requests; limits by template: {limits:?}", responses.len());
    ensure_all_ok(&responses)?;
    ensure!(limits.len() == 2, "one template: {limits:?}");
    for (template, limit) in &limits {
        let of_template = responses.iter().filter(|response| response.pod.contains(template.as_str()));
        let most = of_template.map(|response| response.concurrent).max();
        ensure!(most == Some(*limit as usize), "pods with the limit {limit} had {most:?} requests at a time");
    }
    let status = namespace.api::<PodAutoscaler>().get(NAME).await?.status.unwrap_or_default();
    let degraded = condition(&status.conditions, "Degraded").map(|it| it.message.clone());
    ensure!(degraded.is_none(), "{degraded:?}");
    drop(load);
    namespace.end().await
}

/// The hash of the template of all pods that are not ending.
async fn template(namespace: &TestNamespace) -> Result<String> {
    wait::until("pods of one template", ROLLOUT, || async {
        let pods = pods_of(namespace, NAME).await?;
        let templates: Vec<&String> =
            pods.iter().filter_map(|pod| pod.labels().get(TEMPLATE_LABEL)).collect();
        let first = templates.first().context("no pod")?;
        Ok(templates.iter().all(|template| template == first).then(|| (*first).clone()))
    })
    .await
}
