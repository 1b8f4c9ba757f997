//! Reads the objects of the cluster and of the installation.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Api;
use kube::core::NamespaceResourceScope;

use super::cluster_objects::{
    CUSTOM_API, CUSTOM_RESOURCES, ClusterObjects, DEPLOYMENTS, EXTERNAL_API, INJECTION, serving_secret,
};
use super::cluster_version::ClusterVersion;
use super::fetched::Fetched;
use crate::connection::Session;
use crate::error::CommandError;
use crate::workloads::list_all;

/// Reads all objects. Only the version must be readable: every client may read it.
pub(super) async fn read(session: &Session, now: Timestamp) -> Result<ClusterObjects, CommandError> {
    let client = &session.client;
    let info = client.apiserver_version().await;
    let info = info.map_err(|error| CommandError::request("version of the API server", error))?;
    let version = ClusterVersion::parse(&info.major, &info.minor).ok_or_else(|| {
        CommandError::Argument(format!("the API server's version {:?} is not a number", info.git_version))
    })?;
    let mut cluster = ClusterObjects {
        now,
        system_namespace: session.system_namespace.clone(),
        version,
        external_api: Api::all(client.clone()).get(EXTERNAL_API).await.into(),
        custom_api: Api::all(client.clone()).get(CUSTOM_API).await.into(),
        custom_resources: Default::default(),
        injection: Api::all(client.clone()).get(INJECTION).await.into(),
        injection_binding: Api::all(client.clone()).get(INJECTION).await.into(),
        deployments: Default::default(),
        certificate: Fetched::NotFound,
        system: Api::all(client.clone()).get(&session.system_namespace).await.into(),
        pods: list_all(&system_api::<Pod>(session)).await.into(),
    };
    for name in CUSTOM_RESOURCES {
        cluster.custom_resources.insert(name, Api::all(client.clone()).get(name).await.into());
    }
    for name in DEPLOYMENTS {
        cluster.deployments.insert(name, system_api(session).get(name).await.into());
    }
    cluster.certificate = system_api::<Secret>(session).get(&serving_secret(&cluster)).await.into();
    Ok(cluster)
}

fn system_api<K>(session: &Session) -> Api<K>
where
    K: kube::Resource<Scope = NamespaceResourceScope>,
    K::DynamicType: Default,
{
    Api::namespaced(session.client.clone(), &session.system_namespace)
}
