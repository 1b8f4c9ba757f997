//! Reads the objects of the cluster and of the installation.

use std::collections::BTreeMap;

use autoscaler::contract::{CONFIG_MAP, CUSTOM_API, EXTERNAL_API, INJECT_LABEL, INJECTION};
use futures::{StreamExt, stream};
use http::Request;
use http::header::DATE;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DynamicObject, PostParams};
use kube::client::Body;
use kube::core::NamespaceResourceScope;
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::cluster::manifests::{manifests, resource};
use super::cluster_objects::{
    CUSTOM_RESOURCES, ClusterObjects, DEPLOYMENTS, InstalledObject, LEASES, serving_secret,
};
use super::cluster_version::ClusterVersion;
use super::fetched::Fetched;
use crate::connection::Session;
use crate::error::CommandError;
use crate::workloads::list_all;

/// Requests for objects of the manifests at the same time.
const CONCURRENT_READS: usize = 8;

/// Reads all objects. Only the version must be readable: every client may read it.
pub(super) async fn read(session: &Session, now: Timestamp) -> Result<ClusterObjects, CommandError> {
    let client = &session.client;
    let info = client.apiserver_version().await;
    let info = info.map_err(|error| CommandError::request("version of the API server", error))?;
    let version = ClusterVersion::parse(&info.major, &info.minor).ok_or_else(|| {
        CommandError::Argument(format!("the API server's version {:?} is not a number", info.git_version))
    })?;
    let mut cluster = ClusterObjects {
        now: server_time(client).await.unwrap_or(now),
        system_namespace: session.system_namespace.clone(),
        version,
        external_api: Api::all(client.clone()).get(EXTERNAL_API).await.into(),
        custom_api: Api::all(client.clone()).get(CUSTOM_API).await.into(),
        custom_resources: Default::default(),
        injection: Api::all(client.clone()).get(INJECTION).await.into(),
        injection_binding: Api::all(client.clone()).get(INJECTION).await.into(),
        injection_webhook: Api::all(client.clone()).get(INJECTION).await.into(),
        labelled_pod: Fetched::NotFound,
        deployments: named(session, DEPLOYMENTS).await,
        certificate: Fetched::NotFound,
        system: Api::all(client.clone()).get(&session.system_namespace).await.into(),
        pods: list_all(&system_api::<Pod>(session)).await.into(),
        network_policies: list_all(&system_api(session)).await.into(),
        settings: system_api(session).get(CONFIG_MAP).await.into(),
        leases: named(session, LEASES).await,
        installed: installed(session).await,
    };
    for name in CUSTOM_RESOURCES {
        cluster.custom_resources.insert(name, Api::all(client.clone()).get(name).await.into());
    }
    if cluster.injection.is_absent() && cluster.injection_webhook.found().is_some() {
        cluster.labelled_pod = labelled_pod(session).await;
    }
    cluster.certificate = system_api::<Secret>(session).get(&serving_secret(&cluster)).await.into();
    Ok(cluster)
}

/// Has the API server call the webhook. The pod meets each Pod Security level.
async fn labelled_pod(session: &Session) -> Fetched<Pod> {
    let pod = serde_json::from_value(json!({
        "metadata": {"generateName": "rouse-check-", "labels": {INJECT_LABEL: "true"}},
        "spec": {
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "app",
                "image": "app",
                "ports": [{"containerPort": 8080}],
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    }));
    let pods: Api<Pod> = Api::namespaced(session.client.clone(), &session.namespace);
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    match pod {
        Ok(pod) => pods.create(&dry_run, &pod).await.into(),
        Err(error) => Fetched::Unreadable(error.to_string()),
    }
}

/// The API server's clock, because the clock of the user's machine may differ.
async fn server_time(client: &Client) -> Option<Timestamp> {
    let request = Request::get("/version").body(Body::empty()).ok()?;
    let response = client.send(request).await.ok()?;
    let date = response.headers().get(DATE)?.to_str().ok()?;
    rfc2822::DateTimeParser::new().parse_timestamp(date).ok()
}

/// Objects of the installation's namespace, by name.
async fn named<K, const N: usize>(
    session: &Session,
    names: [&'static str; N],
) -> BTreeMap<&'static str, Fetched<K>>
where
    K: kube::Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    let mut objects = BTreeMap::new();
    for name in names {
        objects.insert(name, system_api(session).get(name).await.into());
    }
    objects
}

async fn installed(session: &Session) -> Vec<InstalledObject> {
    stream::iter(manifests(&session.system_namespace))
        .map(|manifest| async move {
            let found = object_of(&session.client, &manifest).await;
            InstalledObject { manifest, found }
        })
        .buffered(CONCURRENT_READS)
        .collect()
        .await
}

/// The object that a manifest names.
async fn object_of(client: &Client, manifest: &Value) -> Fetched<Value> {
    let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let Some(resource) = resource(manifest) else { return Fetched::NotFound };
    let api: Api<DynamicObject> = match text("/metadata/namespace") {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let object = api.get(text("/metadata/name")).await;
    object.map(|object| serde_json::to_value(object).unwrap_or_default()).into()
}

fn system_api<K>(session: &Session) -> Api<K>
where
    K: kube::Resource<Scope = NamespaceResourceScope>,
    K::DynamicType: Default,
{
    Api::namespaced(session.client.clone(), &session.system_namespace)
}
