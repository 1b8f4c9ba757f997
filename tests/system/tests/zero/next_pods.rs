//! Workloads that must not go to zero, because what comes back would not serve, and objects of
//! Rouse that the API server refuses. Each is served meanwhile, and recovers.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::PodAutoscaler;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::{SAMPLE_APP, TestNamespace};
use system_tests::traffic::load::{send_one_request, until_first_response};
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::limits::{create_limit, create_quota, delete_limit, delete_quota};
use system_tests::workloads::workload::{Workload, replicas, state, until_replicas};

/// Enough for idleness, a check and the condition.
const REPORTED: Duration = Duration::from_secs(90);

async fn until_reason(namespace: &TestNamespace, name: &str, reason: &str) -> Result<String> {
    let autoscalers: Api<PodAutoscaler> = namespace.api();
    let reported = wait::until(reason, REPORTED, || async {
        let status = autoscalers.get_opt(name).await?.and_then(|it| it.status).unwrap_or_default();
        let is_reported = status.reason.as_deref() == Some(reason);
        Ok(is_reported.then(|| status.message.unwrap_or_default()))
    });
    match reported.await {
        Ok(message) => Ok(message),
        Err(error) => Err(error).context(state(namespace, name).await),
    }
}

async fn set_image(namespace: &TestNamespace, name: &str, image: &str) -> Result<()> {
    let deployments: Api<Deployment> = namespace.api();
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}}});
    deployments.patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn workload_keeps_the_pod_that_serves_during_a_failed_rollout() -> Result<()> {
    let namespace = begin_shared("rollout").await?;
    let workload = Workload::new("rollout");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    set_image(&namespace, "rollout", "rouse/sample-app:no-such-version").await?;
    let message = until_reason(&namespace, "rollout", "RolloutIncomplete").await?;
    ensure!(message.contains("1 of 2 pods"), "{message}");
    send_one_request(&url, &namespace).await.context("a request after the idle time")?;
    set_image(&namespace, "rollout", SAMPLE_APP).await?;
    until_replicas(&namespace, "rollout", |n| n == 0, TO_ZERO).await?;
    send_one_request(&url, &namespace).await.context("a request at zero")?;
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn workload_stays_above_zero_while_a_new_pod_would_be_refused() -> Result<()> {
    let namespace = begin_shared("refused-pods").await?;
    let workload = Workload::new("refused");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    create_limit(&namespace, "small", json!({"type": "Pod", "max": {"memory": "1Mi"}})).await?;
    let message = until_reason(&namespace, "refused", "PodsRefused").await?;
    ensure!(message.contains("forbidden"), "{message}");
    ensure!(replicas(&namespace, "refused").await? == 1, "{}", state(&namespace, "refused").await);
    delete_limit(&namespace, "small").await?;
    until_replicas(&namespace, "refused", |n| n == 0, TO_ZERO).await?;
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn refused_object_of_a_workload_is_reported_until_it_is_accepted() -> Result<()> {
    let namespace = begin_shared("refused-objects").await?;
    create_quota(&namespace, "small", json!({"count/serverlessservices.autoscaling.rouse.dev": "0"})).await?;
    let workload = Workload::new("refused");
    workload.create(&namespace).await?;
    let message = until_reason(&namespace, "refused", "WriteRefused").await?;
    ensure!(message.contains("exceeded quota: small"), "{message}");
    delete_quota(&namespace, "small").await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, REPORTED).await?;
    until_replicas(&namespace, "refused", |n| n == 0, TO_ZERO).await?;
    namespace.end().await
}
