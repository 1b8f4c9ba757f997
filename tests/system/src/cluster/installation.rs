//! The installation of Rouse: whether it is up, its settings, and ways to restart, scale and kill
//! its parts.

use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use crate::cluster::container_process;
use crate::cluster::lock;
use crate::cluster::namespace::{TestNamespace, is_ready};
use crate::cluster::network_policies;
use crate::cluster::scale::write_scale;
use crate::wait;

/// Namespace of the installation.
pub const NAMESPACE: &str = autoscaler::contract::SYSTEM_NAMESPACE;
/// The Deployments of an installation.
pub const COMPONENTS: [&str; 3] = ["metrics-adapter", "zero-scaler", ACTIVATOR];
/// The Deployment that an HPA of the installation scales.
const ACTIVATOR: &str = "activator";
/// The adapter's APIService.
pub const API_SERVICE: &str = "v1beta1.external.metrics.k8s.io";
/// The APIService of custom metrics, where another adapter owns that one.
pub const CUSTOM_API_SERVICE: &str = "v1beta2.custom.metrics.k8s.io";
/// Time for all components to become available before a test.
const AVAILABLE: Duration = Duration::from_secs(90);
/// The grace period of all tests; the stock 30 s would make each of them that much longer.
const SHORT_GRACE: &str = "3s";

/// A namespace for a test that shares the cluster with others (see [`lock`]).
///
/// # Errors
/// When a component is not available, or the namespace cannot be created.
pub async fn begin_shared(name: &str) -> Result<TestNamespace> {
    let guard = lock::shared(name).await;
    let client = client().await?;
    prepare_installation(&client).await?;
    Ok(create_isolated(client, name).await?.with_guard(guard))
}

/// A namespace for a test that has the cluster to itself (see [`lock`]). The namespace is created
/// while another test may still use the cluster.
///
/// # Errors
/// When a component is not available, or the namespace cannot be created.
pub async fn begin_exclusive(name: &str) -> Result<TestNamespace> {
    let turn = lock::turn().await;
    let client = client().await?;
    let namespace = create_isolated(client.clone(), name).await?;
    let guard = turn.exclusive(name).await;
    prepare_installation(&client).await?;
    Ok(namespace.with_guard(guard))
}

async fn client() -> Result<Client> {
    Ok(component_base::kubernetes::client("system-tests", env!("CARGO_PKG_VERSION")).await?)
}

/// Waits for all components, and sets the grace period, which a test may have changed.
async fn prepare_installation(client: &Client) -> Result<()> {
    until_ready(client, AVAILABLE).await?;
    set_grace_period(client, SHORT_GRACE).await
}

async fn create_isolated(client: Client, name: &str) -> Result<TestNamespace> {
    let namespace = TestNamespace::create(client, &format!("rouse-test-{name}")).await?;
    network_policies::isolate(&namespace).await?;
    Ok(namespace)
}

/// Waits until every component is available and the metrics API is served.
///
/// # Errors
/// After the deadline, with what is missing.
pub async fn until_ready(client: &Client, deadline: Duration) -> Result<()> {
    until_available(client, deadline).await?;
    until_served(client, API_SERVICE, deadline).await
}

/// Waits until the API server reaches the server of an APIService.
///
/// # Errors
/// After the deadline, with why it does not.
pub async fn until_served(client: &Client, api_service: &str, deadline: Duration) -> Result<()> {
    let services: Api<APIService> = Api::all(client.clone());
    wait::until(&format!("APIService {api_service} to be available"), deadline, || async {
        let service = services.get(api_service).await?;
        let conditions = service.status.and_then(|status| status.conditions).unwrap_or_default();
        match conditions.iter().find(|c| c.type_ == "Available") {
            Some(condition) if condition.status == "True" => Ok(Some(())),
            Some(condition) => anyhow::bail!("{}", condition.message.as_deref().unwrap_or_default()),
            None => Ok(None),
        }
    })
    .await
}

/// Waits until the API server does not reach the server of an APIService.
///
/// # Errors
/// After the deadline.
pub async fn until_unserved(client: &Client, api_service: &str, deadline: Duration) -> Result<()> {
    let services: Api<APIService> = Api::all(client.clone());
    wait::until(&format!("APIService {api_service} not to be available"), deadline, || async {
        let service = services.get(api_service).await?;
        let conditions = service.status.and_then(|status| status.conditions).unwrap_or_default();
        Ok(conditions.iter().any(|it| it.type_ == "Available" && it.status == "False").then_some(()))
    })
    .await
}

/// Waits until every component is available, whichever metrics API is served.
///
/// # Errors
/// After the deadline, with what is missing.
pub async fn until_available(client: &Client, deadline: Duration) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    for component in COMPONENTS {
        wait::until(&format!("{component} to be available"), deadline, || async {
            Ok(is_available(&deployments.get(component).await?).then_some(()))
        })
        .await?;
    }
    until_scaled(client, deadline).await
}

/// Waits until the activators have the size that their HPA gives them after an installation.
async fn until_scaled(client: &Client, deadline: Duration) -> Result<()> {
    let hpas: Api<HorizontalPodAutoscaler> = system_api(client);
    let deployments: Api<Deployment> = system_api(client);
    wait::until(&format!("the HPA to scale {ACTIVATOR}"), deadline, || async {
        let least = hpas.get(ACTIVATOR).await?.spec.min_replicas.unwrap_or(1);
        let deployment = deployments.get(ACTIVATOR).await?;
        let scaled = deployment.spec.replicas.is_some_and(|size| size >= least);
        Ok((scaled && is_available(&deployment)).then_some(()))
    })
    .await
}

/// Sets how long a workload stays in Proxy mode before it goes to zero.
///
/// # Errors
/// When the ConfigMap cannot be changed.
pub async fn set_grace_period(client: &Client, grace: &str) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let patch = json!({"data": {"scale-to-zero-grace-period": grace}});
    maps.patch(autoscaler::contract::CONFIG_MAP, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Scales one of the installation's Deployments.
///
/// # Errors
/// When the API refuses.
pub async fn scale_component(client: &Client, component: &str, replicas: i32) -> Result<()> {
    write_scale(&system_api::<Deployment>(client), component, replicas).await
}

/// Waits until a component has no pod, also none that is ending.
///
/// # Errors
/// After the deadline.
pub async fn until_component_is_gone(client: &Client, component: &str, deadline: Duration) -> Result<()> {
    wait::until(&format!("the pods of {component} to be gone"), deadline, || async {
        let pods = system_api::<Pod>(client).list(&component_selector(component)).await?;
        Ok(pods.items.is_empty().then_some(()))
    })
    .await
}

/// Runs `then` while no zero-scaler runs: sizes follow the HPAs alone.
///
/// # Errors
/// When the zero-scalers do not stop or come back, and when `then` fails.
pub async fn without_zero_scaler<T>(client: &Client, then: impl Future<Output = Result<T>>) -> Result<T> {
    scale_component(client, "zero-scaler", 0).await?;
    until_component_is_gone(client, "zero-scaler", Duration::from_secs(60)).await?;
    let result = then.await;
    scale_component(client, "zero-scaler", 2).await?;
    until_ready(client, Duration::from_secs(60)).await?;
    result
}

/// Replaces the pods of one of the installation's Deployments, as `kubectl rollout restart` does.
///
/// # Errors
/// When the API refuses.
pub async fn restart_component(client: &Client, component: &str) -> Result<()> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
    deployments.restart(component).await?;
    Ok(())
}

/// Waits until all pods of one of the installation's Deployments are of its newest template.
///
/// # Errors
/// After the deadline.
pub async fn until_rolled_out(client: &Client, component: &str, deadline: Duration) -> Result<()> {
    let deployments: Api<Deployment> = system_api(client);
    wait::until(&format!("{component} to be rolled out"), deadline, || async {
        let deployment = deployments.get(component).await?;
        let desired = deployment.spec.replicas.unwrap_or(1);
        let status = deployment.status.clone().unwrap_or_default();
        let newest = status.updated_replicas == Some(desired) && status.replicas == Some(desired);
        Ok((newest && is_available(&deployment)).then_some(()))
    })
    .await
}

/// The pod that holds a component's Lease.
///
/// # Errors
/// When the Lease has no holder.
pub async fn leader(client: &Client, component: &str) -> Result<String> {
    let lease: Lease = system_api(client).get(component).await?;
    let holder = lease.spec.and_then(|spec| spec.holder_identity).filter(|holder| !holder.is_empty());
    let holder = holder.with_context(|| format!("the Lease {component} has no holder"))?;
    // A metrics-adapter appends its start time and its address to the pod's name.
    Ok(holder.split_once('_').map_or(holder.as_str(), |(pod, _)| pod).to_owned())
}

/// Waits until another pod than `previous` holds a component's Lease.
///
/// # Errors
/// After the deadline.
pub async fn until_other_leads(
    client: &Client,
    component: &str,
    previous: &str,
    deadline: Duration,
) -> Result<()> {
    wait::until(&format!("another {component} to lead"), deadline, || async {
        Ok((leader(client, component).await? != previous).then_some(()))
    })
    .await
}

/// The ready pods of a component.
///
/// # Errors
/// When the API refuses.
pub async fn ready_pods(client: &Client, component: &str) -> Result<Vec<String>> {
    let pods: Vec<Pod> = system_api(client).list(&component_selector(component)).await?.items;
    Ok(pods.iter().filter(|pod| is_ready(pod)).map(ResourceExt::name_any).collect())
}

/// Selects the pods of a component.
pub fn component_selector(component: &str) -> ListParams {
    ListParams::default().labels(&format!("app.kubernetes.io/name={component}"))
}

/// Kills the process of one of the installation's pods with SIGKILL; the kubelet restarts it in the
/// same pod.
///
/// # Errors
/// When the process does not run on this machine, or may not be killed by this user.
pub fn kill_process(pod: &str) -> Result<()> {
    container_process::kill(container_process::find(pod, None)?)
}

/// Kills the process of one of the installation's pods. Deletes the pod without grace where the
/// process runs elsewhere.
///
/// # Errors
/// When the API refuses.
pub async fn kill(client: &Client, pod: &str) -> Result<()> {
    let Err(error) = kill_process(pod) else { return Ok(()) };
    println!("{error:#}: deleting its pod instead");
    kill_pod(client, pod).await
}

/// Deletes one of the installation's pods without grace: it has next to no time to shut down.
///
/// # Errors
/// When the API refuses.
pub async fn kill_pod(client: &Client, pod: &str) -> Result<()> {
    system_api::<Pod>(client).delete(pod, &DeleteParams::default().grace_period(0)).await?;
    Ok(())
}

/// An API of the installation's namespace.
pub fn system_api<K>(client: &Client) -> Api<K>
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
    K::DynamicType: Default,
{
    Api::namespaced(client.clone(), NAMESPACE)
}

/// Whether all replicas are ready. They count as available in Kubernetes only after
/// `minReadySeconds`, in which a metrics-adapter fills its windows.
fn is_available(deployment: &Deployment) -> bool {
    let desired = deployment.spec.replicas.unwrap_or(1);
    let status = deployment.status.as_ref();
    let current = status.and_then(|s| s.observed_generation) == deployment.metadata.generation;
    current && status.and_then(|s| s.ready_replicas).unwrap_or(0) >= desired
}
