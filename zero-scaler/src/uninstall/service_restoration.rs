//! Restores the Services of all workloads.

use autoscaler::Key;
use autoscaler::api::ServerlessService;
use autoscaler::contract::QUEUE_PROXY;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};

use crate::uninstall::app_port::{accepts_connections, app_port, is_ready};
use crate::uninstall::error::UninstallError;
use crate::uninstall::restored_service::patch;
use crate::uninstall::workloads_awake::serverless_services;

/// Workloads at a time. Each takes about three requests.
const CONCURRENT: usize = 16;
/// Attempts to write a Service that other writers change.
const ATTEMPTS: u32 = 5;
/// Name of this writer in managed fields.
const FIELD_MANAGER: &str = "rouse-uninstall";

/// A Service that Rouse served, with ready pods or without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoredService {
    /// Namespace and name of the Service.
    pub key: Key,
    /// Whether it has ready pods, so that requests fail without endpoints.
    pub has_ready_pods: bool,
}

/// Restores the Services that have leased ports. Others need nothing: Rouse does not route them.
///
/// # Errors
/// When the API server refuses a request.
pub async fn restore_all(client: &Client) -> Result<Vec<RestoredService>, UninstallError> {
    let services = serverless_services(client).await?;
    let served = services.into_iter().filter(|sks| sks.status.as_ref().is_some_and(|s| !s.ports.is_empty()));
    let restored = stream::iter(served).map(|sks| async move { restore(client, &sks).await });
    let restored: Vec<_> = restored.buffer_unordered(CONCURRENT).try_collect().await?;
    Ok(restored.into_iter().flatten().collect())
}

/// Restores the Service of a workload.
///
/// # Errors
/// When the API server refuses a request.
pub(crate) async fn restore(
    client: &Client,
    sks: &ServerlessService,
) -> Result<Option<RestoredService>, UninstallError> {
    let Some(namespace) = sks.metadata.namespace.as_deref() else { return Ok(None) };
    let key = Key::new(namespace, &sks.spec.service);
    let pods = pods(client, namespace, sks).await?;
    let port = verified_port(&pods, sks, &key).await;
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let failed = || format!("restore Service {:?} in namespace {namespace:?}", sks.spec.service);
    for attempt in 1.. {
        let Some(service) =
            services.get_opt(&sks.spec.service).await.map_err(UninstallError::api(failed()))?
        else {
            return Ok(None);
        };
        let Some(patch) = patch(&service, sks, port) else { break };
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match services.patch(&sks.spec.service, &params, &Patch::Merge(&patch)).await {
            Ok(_) => {
                tracing::info!(service = %key, spec = patch.get("spec").map(display), "Service restored");
                break;
            }
            Err(kube::Error::Api(status)) if status.code == 409 && attempt < ATTEMPTS => {}
            Err(error) => return Err(UninstallError::api(failed())(error)),
        }
    }
    Ok(Some(RestoredService { key, has_ready_pods: pods.iter().any(is_ready) }))
}

/// The app's port, if the ready pods accept connections there.
async fn verified_port(pods: &[Pod], sks: &ServerlessService, service: &Key) -> Option<u16> {
    if !sks.spec.sidecar.is_required() {
        return None;
    }
    let port = app_port(pods);
    if let Some(port) = port
        && accepts_connections(pods, port).await
    {
        return Some(port);
    }
    tracing::warn!(
        %service, ?port,
        "Service keeps targetPort {QUEUE_PROXY}: no ready pod accepts connections on a port of the app; pods that start \
         later have no sidecar, so set targetPort before the next rollout"
    );
    None
}

async fn pods(client: &Client, namespace: &str, sks: &ServerlessService) -> Result<Vec<Pod>, UninstallError> {
    let selected = ListParams::default().labels(&sks.spec.selector);
    let listed = Api::<Pod>::namespaced(client.clone(), namespace).list(&selected).await;
    Ok(listed.map_err(UninstallError::api(format!("list pods {:?}", sks.spec.selector)))?.items)
}
