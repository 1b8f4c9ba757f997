//! What these tests need: a cluster without Rouse, and a check that nothing of Rouse is left.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use system_tests::cluster::installation::NAMESPACE;
use system_tests::cluster::kubectl;
use system_tests::cluster::lock::{self, ClusterGuard};
use system_tests::cluster::namespace::{TestNamespace, is_ready, pods_of};
use system_tests::traffic::load::{Load, RunningLoad, ensure_all_ok};
use system_tests::wait;
use system_tests::workloads::rollout::{until_old_pods_are_gone, until_rolled_out};
use system_tests::workloads::workload::{Workload, replicas, until_replicas};

/// Enough for images that are on the node, and for the metrics-adapters' first windows.
pub(crate) const INSTALLED: Duration = Duration::from_secs(120);
/// Window, grace period and probes, on a loaded machine.
pub(crate) const AT_ZERO: Duration = Duration::from_secs(120);
/// Enough for pods to start on a loaded machine, one after the other.
pub(crate) const ROLLOUT: Duration = Duration::from_secs(120);
/// The drain of activators, and garbage collection.
const REMOVED: Duration = Duration::from_secs(120);
/// Longer than each test, which ends its loads.
const LONGEST: Duration = Duration::from_secs(1200);
/// What Kubernetes itself keeps in each namespace.
const OF_KUBERNETES: [&str; 2] = ["configmap/kube-root-ca.crt", "serviceaccount/default"];

/// A cluster without Rouse.
///
/// # Errors
/// When the cluster has something of Rouse.
pub(crate) async fn begin() -> Result<(Client, ClusterGuard)> {
    let guard = lock::turn().await.exclusive("install").await;
    let client = component_base::kubernetes::client("install-tests", env!("CARGO_PKG_VERSION")).await?;
    let found = objects().await?;
    ensure!(found.is_empty(), "the cluster has objects of Rouse: {}", found.join(" "));
    Ok((client, guard))
}

/// A load of five requests a second, until the test ends it.
pub(crate) async fn start_load(url: &str, namespace: &TestNamespace) -> Result<RunningLoad> {
    Load::rate(url, 5.0, LONGEST).start(namespace).await
}

/// Checks that all requests up to now got a 200. Returns their number.
pub(crate) async fn ensure_served(load: &mut RunningLoad) -> Result<usize> {
    let responses = load.until_now().await?;
    ensure_all_ok(&responses)?;
    Ok(responses.len())
}

/// Checks that a workload runs by Kubernetes' own means: it has a ready pod, no request of the load
/// failed, and its Service leads to the pods of the next rollout. During that rollout requests may
/// fail as they do without Rouse, because the sample app ends at once.
pub(crate) async fn ensure_serves_without_rouse(
    namespace: &TestNamespace,
    name: &str,
    load: &mut RunningLoad,
) -> Result<()> {
    ensure!(replicas(namespace, name).await? > 0, "{name} is at zero");
    ensure!(pods_of(namespace, name).await?.iter().any(is_ready), "{name} has no ready pod");
    let requests = ensure_served(load).await?;
    println!("{name} without Rouse: {requests} requests, all with status 200");
    namespace.api::<Deployment>().restart(name).await?;
    until_rolled_out(namespace, name, ROLLOUT).await?;
    until_old_pods_are_gone(namespace, name, ROLLOUT).await?;
    let url = Workload::new(name).url(namespace).await?;
    ensure_all_ok(&Load::rate(&url, 20.0, Duration::from_secs(2)).run(namespace).await?)
}

/// Checks that a workload with a target of 5 gets at least so many pods within this time under
/// load, and that no request fails meanwhile.
pub(crate) async fn ensure_scales_up(
    namespace: &TestNamespace,
    name: &str,
    url: &str,
    at_least: i32,
    within: Duration,
) -> Result<()> {
    let load = Load::concurrency(url, 15, Duration::from_millis(200), Duration::from_secs(30));
    let running = load.start(namespace).await?;
    let size = until_replicas(namespace, name, |size| size >= at_least, within).await?;
    let responses = running.finish().await?;
    ensure_all_ok(&responses)?;
    println!("{size} replicas under load; {} requests, all with status 200", responses.len());
    Ok(())
}

/// An APIService as the API server sends it, to compare byte for byte.
pub(crate) async fn api_service_text(client: &Client, name: &str) -> Result<String> {
    let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{name}");
    Ok(client.request_text(http::Request::get(path).body(Vec::new())?).await?)
}

/// Waits until nothing of Rouse is left, and deletes the namespace, which its user made.
pub(crate) async fn until_nothing_is_left() -> Result<()> {
    wait::until("nothing of Rouse to be left", REMOVED, || async {
        let found = objects().await?;
        ensure!(found.is_empty(), "{}", found.join(" "));
        Ok(Some(()))
    })
    .await?;
    kubectl::run(&["delete", "namespace", NAMESPACE, "--ignore-not-found"]).await?;
    Ok(())
}

/// Objects with a label of Rouse in the whole cluster, and all objects of its namespace, as
/// `kind/name`. Events expire by themselves.
async fn objects() -> Result<Vec<String>> {
    let labelled = "app.kubernetes.io/part-of=rouse";
    let attached = "endpointslice.kubernetes.io/managed-by=zero-scaler.autoscaling.rouse.dev";
    let managed = "autoscaling.rouse.dev/managed-slice";
    let mut found = Vec::new();
    for selected in [["--selector", labelled], ["--selector", attached], ["--selector", managed]] {
        found.extend(
            names(&kinds(&["--verbs=list"]).await?, &[&["--all-namespaces"], &selected[..]].concat()).await?,
        );
    }
    let of_namespace = kinds(&["--verbs=list", "--namespaced"]).await?;
    let all = names(&of_namespace, &["--namespace", NAMESPACE]).await?;
    found.extend(all.into_iter().filter(|name| !OF_KUBERNETES.contains(&name.as_str())));
    Ok(found)
}

/// The kinds that the API server serves itself, separated by commas.
async fn kinds(arguments: &[&str]) -> Result<String> {
    let listed = kubectl::run(&[&["api-resources", "--output", "name"], arguments].concat()).await?;
    let kinds = listed.lines().filter(|kind| !kind.starts_with("events") && !kind.contains("metrics.k8s.io"));
    Ok(kinds.collect::<Vec<_>>().join(","))
}

async fn names(kinds: &str, arguments: &[&str]) -> Result<Vec<String>> {
    let get = ["get", kinds, "--output", "name", "--ignore-not-found"];
    let listed = kubectl::run(&[&get[..], arguments].concat()).await?;
    Ok(listed.lines().map(str::to_owned).collect())
}
