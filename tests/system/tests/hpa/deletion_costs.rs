//! The stock HPA takes nine of ten pods away, and not the one with a request that outlasts the
//! grace period.
//!
//! `ATTEMPTS=50` repeats it; each takes some two minutes.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use system_tests::cluster::installation::begin_exclusive;
use system_tests::cluster::namespace::{TestNamespace, pods_of};
use system_tests::traffic::load::{self, LONGEST, Load, until_route_programmed};
use system_tests::workloads::deadlines::POD_START;
use system_tests::workloads::rollout::until_rolled_out;
use system_tests::workloads::workload::{Workload, until_replicas};

const NAME: &str = "long";
const COST: &str = "controller.kubernetes.io/pod-deletion-cost";
/// Enough for ten pods on a loaded machine.
const STARTED: Duration = Duration::from_secs(180);
/// Twice the grace period of a pod.
const LONG: Duration = Duration::from_secs(60);
const RESPONSE: Duration = Duration::from_secs(90);

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn pod_with_a_long_request_outlives_a_scale_down_to_one() -> Result<()> {
    let attempts = std::env::var("ATTEMPTS").ok().and_then(|attempts| attempts.parse().ok()).unwrap_or(1);
    let namespace = begin_exclusive("deletion-costs").await?;
    let workload = Workload { target: "5".to_owned(), replicas: 10, ..Workload::new(NAME) };
    let workload = workload.annotated("scale-to-zero", "false").annotated("window", "20s");
    workload.create(&namespace).await?;
    fast_descent(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_route_programmed(&url, &namespace, NAME, POD_START).await?;
    let mut lost = Vec::new();
    for attempt in 1..=attempts {
        let error = descend(&namespace, &url).await.err();
        println!("attempt {attempt} of {attempts}: {error:?}");
        lost.extend(error);
    }
    ensure!(lost.is_empty(), "{} of {attempts} long requests were lost: {lost:?}", lost.len());
    namespace.end().await
}

/// To one pod in one step, which is the hardest case.
async fn fast_descent(namespace: &TestNamespace) -> Result<()> {
    let policies = json!([{"type": "Percent", "value": 100, "periodSeconds": 1}]);
    let patch = Patch::Merge(json!({"spec": {"behavior": {"scaleDown": {"policies": policies}}}}));
    let hpas = namespace.api::<HorizontalPodAutoscaler>();
    hpas.patch(NAME, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// From ten pods under load to one, with a long request that begins before the load ends.
async fn descend(namespace: &TestNamespace, url: &str) -> Result<()> {
    let running = Load::concurrency(url, 48, Duration::from_millis(100), LONGEST).start(namespace).await?;
    until_replicas(namespace, NAME, |n| n == 10, STARTED).await?;
    until_rolled_out(namespace, NAME, STARTED).await?;
    let long = Load { work: LONG, timeout: RESPONSE, ..Load::one_request(url) }.start(namespace).await?;
    // The load ends within a second of the long request's begin.
    drop(running);
    until_replicas(namespace, NAME, |n| n == 1, LONG)
        .await
        .context("the long request outlasts the descent")?;
    let costs: Vec<_> =
        pods_of(namespace, NAME).await?.into_iter().filter_map(|pod| pod.metadata.annotations).collect();
    ensure!(costs.iter().filter(|annotations| annotations.contains_key(COST)).count() <= 1, "{costs:?}");
    load::ensure_all_ok(&long.finish().await?)
}
