//! The targets of a Service for Prometheus, as a PodMonitor and both forms of a ServiceMonitor find
//! them.
//!
//! As the pods of [`discovery`](super::discovery), they are in files, and are scraped by `kubectl
//! proxy`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use autoscaler::contract::SYSTEM_NAMESPACE;
use k8s_openapi::api::core::v1::{Endpoints, Pod};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::cluster::namespace::TestNamespace;
use crate::monitoring::discovery;

const INTERVAL: Duration = Duration::from_secs(1);
/// Prometheus scrapes as often.
const SCRAPE_INTERVAL: &str = "1s";
/// The app's own port.
const APP_PORT: u16 = 8080;

/// What Prometheus reads. Its name is that of the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Of a PodMonitor.
    Pod,
    /// Of a ServiceMonitor, by default of prometheus-operator.
    Endpoints,
    /// Of a ServiceMonitor with this `serviceDiscoveryRole`.
    EndpointSlice,
}

// === impl Role ===

impl Role {
    pub const ALL: [Self; 3] = [Self::Pod, Self::Endpoints, Self::EndpointSlice];

    pub fn job(self) -> &'static str {
        match self {
            Self::Pod => "pod",
            Self::Endpoints => "endpoints",
            Self::EndpointSlice => "endpointslice",
        }
    }

    fn file(self) -> String {
        format!("{}.json", self.job())
    }

    /// Addresses with their ports.
    async fn addresses(self, namespace: &TestNamespace, service: &str) -> Result<Vec<(String, u16)>> {
        let port = |port: i32| u16::try_from(port).ok();
        Ok(match self {
            Self::Pod => {
                let of_app = ListParams::default().labels(&format!("app={service}"));
                let pods = namespace.api::<Pod>().list(&of_app).await?.items;
                pods.into_iter().filter_map(|pod| Some((pod.status?.pod_ip?, APP_PORT))).collect()
            }
            Self::Endpoints => {
                let endpoints = namespace.api::<Endpoints>().get_opt(service).await?;
                let subsets = endpoints.and_then(|endpoints| endpoints.subsets).unwrap_or_default();
                let pairs = subsets.iter().flat_map(|subset| {
                    let ports = subset.ports.iter().flatten().filter_map(move |it| port(it.port));
                    let addresses = subset.addresses.iter().flatten();
                    addresses.flat_map(move |it| ports.clone().map(|port| (it.ip.clone(), port)))
                });
                pairs.collect()
            }
            Self::EndpointSlice => {
                let of_service =
                    ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
                let slices = namespace.api::<EndpointSlice>().list(&of_service).await?.items;
                let pairs = slices.iter().flat_map(|slice| {
                    let ports = slice.ports.iter().flatten().filter_map(move |it| port(it.port?));
                    let addresses = slice.endpoints.iter().flatten().flat_map(|it| &it.addresses);
                    addresses.flat_map(move |ip| ports.clone().map(|port| (ip.clone(), port)))
                });
                pairs.collect()
            }
        })
    }
}

/// A job of each role. The app responds with the number of bytes of the parameter: with none, to a
/// scrape that succeeds.
pub fn scrape_configs() -> Value {
    let config = |role: Role| {
        json!({
            "job_name": role.job(),
            "scrape_interval": SCRAPE_INTERVAL,
            "scrape_timeout": SCRAPE_INTERVAL,
            "params": {"bytes": ["0"]},
            "file_sd_configs": [{"files": [role.file()]}],
        })
    };
    Role::ALL.map(config).to_vec().into()
}

/// Writes the targets of the Service until the returned value is dropped. Its pods have the label
/// `app` with its name.
pub fn follow(namespace: &TestNamespace, service: &str, api: SocketAddr, folder: PathBuf) -> JoinSet<()> {
    let (namespace, service) = (namespace.clone(), service.to_owned());
    let mut task = JoinSet::new();
    task.spawn(async move {
        loop {
            for role in Role::ALL {
                let written = async {
                    let targets = targets(role, &namespace, &service, api).await?;
                    discovery::replace(&folder, &role.file(), targets)
                };
                if let Err(error) = written.await {
                    println!("targets of Prometheus: {error:#}");
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
    });
    task
}

async fn targets(
    role: Role,
    namespace: &TestNamespace,
    service: &str,
    api: SocketAddr,
) -> Result<Vec<Value>> {
    let addresses = role.addresses(namespace, service).await?;
    let pods = pods_by_address(namespace).await?;
    let target = |(ip, port): (String, u16)| {
        let (of, pod) = pods.get(&ip)?;
        let path = format!("/api/v1/namespaces/{of}/pods/{pod}:{port}/proxy/metrics");
        let labels = json!({"instance": format!("{ip}:{port}"), "__metrics_path__": path});
        Some(json!({"targets": [api.to_string()], "labels": labels}))
    };
    Ok(addresses.into_iter().filter_map(target).collect())
}

/// Namespace and name of pods, activators included.
async fn pods_by_address(namespace: &TestNamespace) -> Result<BTreeMap<String, (String, String)>> {
    let mut found = BTreeMap::new();
    for of in [&namespace.name, SYSTEM_NAMESPACE] {
        let pods: Api<Pod> = Api::namespaced(namespace.client.clone(), of);
        for pod in pods.list(&ListParams::default()).await? {
            let name = pod.name_any();
            let ip = pod.status.and_then(|status| status.pod_ip);
            found.extend(ip.map(|ip| (ip, (of.to_owned(), name))));
        }
    }
    Ok(found)
}
