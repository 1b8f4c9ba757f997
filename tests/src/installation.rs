//! Whether Rouse is installed and up, and the settings under which a test runs.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::namespace::{TestNamespace, is_ready};
use crate::wait;
use crate::workload::write_size;

/// Namespace of the installation.
pub const NAMESPACE: &str = autoscaler::contract::SYSTEM_NAMESPACE;
/// The Deployments of an installation.
pub const PARTS: [&str; 3] = ["metrics-adapter", "zero-scaler", "activator"];
/// The adapter's APIService.
pub const API_SERVICE: &str = "v1beta1.external.metrics.k8s.io";
/// Time for all parts to be there before a test.
const UP: Duration = Duration::from_secs(90);
/// The grace period of tests that wait for workloads to sleep.
const SHORT_GRACE: &str = "3s";

/// A namespace for a test, once every part is available.
///
/// # Errors
/// When parts are missing, or the namespace cannot be made.
pub async fn begin(name: &str) -> Result<TestNamespace> {
    let client = runtime::kubernetes::client("system-tests", env!("CARGO_PKG_VERSION")).await?;
    until_ready(&client, UP).await?;
    TestNamespace::create(client, &format!("rouse-test-{name}")).await
}

/// The same for a test that waits for workloads to sleep, with a short grace period.
///
/// # Errors
/// As [`begin`], and when the ConfigMap cannot be changed.
pub async fn begin_with_short_grace(name: &str) -> Result<TestNamespace> {
    let namespace = begin(name).await?;
    set_grace_period(&namespace.client, SHORT_GRACE).await?;
    Ok(namespace)
}

/// Waits until every part is available and the API answers.
///
/// # Errors
/// After the deadline, with what is missing.
pub async fn until_ready(client: &Client, deadline: Duration) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    for part in PARTS {
        wait::until(&format!("{part} to be available"), deadline, || async {
            Ok(is_available(&deployments.get(part).await?).then_some(()))
        })
        .await?;
    }
    let services: Api<APIService> = Api::all(client.clone());
    wait::until(&format!("APIService {API_SERVICE} to be available"), deadline, || async {
        let service = services.get(API_SERVICE).await?;
        let conditions = service.status.and_then(|status| status.conditions).unwrap_or_default();
        match conditions.iter().find(|c| c.type_ == "Available") {
            Some(condition) if condition.status == "True" => Ok(Some(())),
            Some(condition) => anyhow::bail!("{}", condition.message.as_deref().unwrap_or_default()),
            None => Ok(None),
        }
    })
    .await
}

/// Lets workloads go to zero after `grace` in Proxy mode; the stock 30 s would make every test that much longer.
///
/// # Errors
/// When the ConfigMap cannot be changed.
pub async fn set_grace_period(client: &Client, grace: &str) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let patch = json!({"data": {"scale-to-zero-grace-period": grace}});
    maps.patch(autoscaler::contract::CONFIG_MAP, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Scales one of our own Deployments.
///
/// # Errors
/// When the API refuses.
pub async fn scale_part(client: &Client, part: &str, replicas: i32) -> Result<()> {
    write_size(&of_ours::<Deployment>(client), part, replicas).await
}

/// Does something while no zero-scaler runs: nobody then makes anything of an HPA but what its metric says.
///
/// # Errors
/// When the zero-scalers do not go or come back, and what `then` fails with.
pub async fn without_zero_scaler<T>(client: &Client, then: impl Future<Output = Result<T>>) -> Result<T> {
    scale_part(client, "zero-scaler", 0).await?;
    wait::until("the zero-scalers to be gone", Duration::from_secs(60), || async {
        let pods = of_ours::<Pod>(client).list(&of_part("zero-scaler")).await?;
        Ok(pods.items.is_empty().then_some(()))
    })
    .await?;
    let outcome = then.await;
    scale_part(client, "zero-scaler", 2).await?;
    until_ready(client, Duration::from_secs(60)).await?;
    outcome
}

/// Replaces the pods of one of our own Deployments, as `kubectl rollout restart` does.
///
/// # Errors
/// When the API refuses.
pub async fn restart_part(client: &Client, part: &str) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    deployments.restart(part).await?;
    Ok(())
}

/// Waits until all pods of one of our own Deployments are the newest ones.
///
/// # Errors
/// After the deadline.
pub async fn until_rolled_out(client: &Client, part: &str, deadline: Duration) -> Result<()> {
    let deployments: Api<Deployment> = of_ours(client);
    wait::until(&format!("{part} to be rolled out"), deadline, || async {
        let deployment = deployments.get(part).await?;
        let wanted = deployment.spec.replicas.unwrap_or(1);
        let status = deployment.status.clone().unwrap_or_default();
        let newest = status.updated_replicas == Some(wanted) && status.replicas == Some(wanted);
        Ok((newest && is_available(&deployment)).then_some(()))
    })
    .await
}

/// The pod of a part that leads.
///
/// # Errors
/// When nobody does.
pub async fn leader(client: &Client, part: &str) -> Result<String> {
    let lease: Lease = of_ours(client).get(part).await?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity).filter(|holder| !holder.is_empty());
    let holder = holder.with_context(|| format!("nobody holds the Lease {part}"))?;
    // An adapter's name has its start and its address behind it.
    Ok(holder.split_once('_').map_or(holder.as_str(), |(pod, _)| pod).to_owned())
}

/// The ready pods of a part.
///
/// # Errors
/// When the API refuses.
pub async fn pods(client: &Client, part: &str) -> Result<Vec<String>> {
    let pods: Vec<Pod> = of_ours(client).list(&of_part(part)).await?.items;
    Ok(pods.iter().filter(|pod| is_ready(pod)).map(ResourceExt::name_any).collect())
}

/// Selects the pods of a part.
pub fn of_part(part: &str) -> ListParams {
    ListParams::default().labels(&format!("app.kubernetes.io/name={part}"))
}

/// Kills the process in one of our own pods, which the kubelet then starts again in the same pod. It says nothing to anybody any
/// more, while a pod that is deleted without grace still hears a signal.
///
/// # Errors
/// When the process is not on this machine, as on a cluster elsewhere, or not ours to kill.
pub fn kill_process(pod: &str) -> Result<()> {
    let name = format!("POD_NAME={pod}");
    let is_it = |process: &std::path::Path| {
        let environment = std::fs::read(process.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == name.as_bytes())
    };
    let processes = std::fs::read_dir("/proc")?.filter_map(|entry| Some(entry.ok()?.path()));
    let process = processes.into_iter().find(|path| is_it(path));
    let process = process.with_context(|| format!("no process of {pod} on this machine"))?;
    let id = process.file_name().context("a process has an id")?;
    let killed = std::process::Command::new("kill").arg("-KILL").arg(id).status()?;
    anyhow::ensure!(killed.success(), "{pod} could not be killed");
    Ok(())
}

/// Kills the process in one of our own pods; where it is not on this machine, deletes the pod without grace.
///
/// # Errors
/// When the API refuses.
pub async fn kill(client: &Client, pod: &str) -> Result<()> {
    let Err(error) = kill_process(pod) else { return Ok(()) };
    println!("{error:#}: its pod is deleted instead");
    kill_pod(client, pod).await
}

/// Deletes one of our own pods without grace: it has next to no time to say anything.
///
/// # Errors
/// When the API refuses.
pub async fn kill_pod(client: &Client, pod: &str) -> Result<()> {
    of_ours::<Pod>(client).delete(pod, &DeleteParams::default().grace_period(0)).await?;
    Ok(())
}

/// An API of our own namespace.
pub fn of_ours<K>(client: &Client) -> Api<K>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    Api::namespaced(client.clone(), NAMESPACE)
}

/// Whether all replicas are ready. Kubernetes calls them available later: a metrics-adapter has to fill its windows first.
fn is_available(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.replicas.unwrap_or(1);
    let status = deployment.status.as_ref();
    let current = status.and_then(|s| s.observed_generation) == deployment.metadata.generation;
    current && status.and_then(|s| s.ready_replicas).unwrap_or(0) >= wanted
}
