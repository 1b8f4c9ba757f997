//! The pods between which connections are opened, and whether one is.
//!
//! Each pod that opens connections runs the sample app's client, which receives commands through a
//! forwarded port. In the pods of Rouse's Deployments it is an ephemeral container, so that the
//! connections have the address and the labels of the real caller. It stays until the pod ends.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use autoscaler::contract::{PROBE_ACTIVATOR, PROBE_HEADER};
use futures::future::try_join_all;
use hostile::{Attack, AttackCommand, AttackReport};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use system_tests::cluster::installation::{COMPONENTS, NAMESPACE, component_selector, system_api};
use system_tests::cluster::namespace::{
    CLIENT_POD, CLIENT_PORT, SAMPLE_APP, TestNamespace, is_ready, pods_of,
};
use system_tests::cluster::network_policies;
use system_tests::traffic::forwarded_port;
use system_tests::traffic::load::{Response, create_at_zero, until_first_response};
use system_tests::wait;
use system_tests::workloads::deadlines::POD_START;
use system_tests::workloads::workload::Workload;

use super::connection::{Connection, Destination, Party};

/// Time for a connection and the answer; much longer than either takes.
const TIMEOUT: Duration = Duration::from_secs(1);
/// For how long datagrams are sent.
const DATAGRAMS: Duration = Duration::from_millis(200);
/// Time for a command, with its way through the API server.
const COMMAND: Duration = Duration::from_secs(15);
const PROMETHEUS: &str = "prometheus";
/// Of the client in the pods of Rouse's Deployments, which have 8081 of their own.
const EPHEMERAL_PORT: u16 = 18_081;

/// The pods, with a workload that has one and another one at zero.
pub(super) struct Scene {
    client: Client,
    namespace: String,
    /// Of a Deployment with two: the one that opens connections and the one that accepts them.
    pods: BTreeMap<Party, (Pod, Pod)>,
    url_of_zero: String,
    api_server_is_foreign: bool,
}

// === impl Scene ===

impl Scene {
    /// Starts the pods.
    pub(super) async fn prepare(namespace: &TestNamespace) -> Result<Self> {
        let mut pods = BTreeMap::new();
        let url_of_zero = create_at_zero(&Workload::new("zero"), namespace, POD_START).await?;
        let single = [
            (Party::Client, namespace.api::<Pod>().get(CLIENT_POD).await?),
            (Party::Prometheus, start_prometheus(namespace).await?),
            (Party::Workload, start_workload(namespace).await?),
        ];
        pods.extend(single.map(|(party, pod)| (party, (pod.clone(), pod))));
        for component in COMPONENTS {
            let pair = two_pods_of(&namespace.client, component).await?;
            add_client(&namespace.client, &pair.0).await.with_context(|| pair.0.name_any())?;
            pods.insert(Party::Component(component), pair);
        }
        let api_server_is_foreign = std::env::var_os("USE_EXISTING_CLUSTER").is_some();
        let (client, namespace) = (namespace.client.clone(), namespace.name.clone());
        Ok(Self { client, namespace, pods, url_of_zero, api_server_is_foreign })
    }

    /// Waits until all connections are accepted.
    pub(super) async fn until_open(&self, connections: &[Connection], deadline: Duration) -> Result<()> {
        self.until(connections, true, deadline).await
    }

    /// The same, before any rule was removed.
    pub(super) async fn until_first_open(&self, of: &[Connection], deadline: Duration) -> Result<()> {
        let repeatable = of.iter().filter(|connection| connection.from != Party::ApiServer);
        self.until_open(&repeatable.copied().collect::<Vec<_>>(), deadline).await
    }

    /// Waits until all connections time out. The API server opens its own last, because it keeps
    /// one that is accepted before the rule is off.
    pub(super) async fn until_closed(&self, connections: &[Connection], deadline: Duration) -> Result<()> {
        let is_kept = |connection: &Connection| connection.from == Party::ApiServer;
        let (kept, others): (Vec<_>, Vec<_>) = connections.iter().copied().partition(is_kept);
        self.until(&others, false, deadline).await?;
        self.until(&kept, false, deadline).await
    }

    async fn until(&self, connections: &[Connection], open: bool, deadline: Duration) -> Result<()> {
        let state = if open { "accepted" } else { "dropped" };
        wait::until(&format!("connections to be {state}"), deadline, || async {
            let checked = connections.iter().filter(|connection| self.is_checked(connection));
            try_join_all(checked.map(|connection| self.ensure(connection, open))).await?;
            Ok(Some(()))
        })
        .await
    }

    /// Whether NetworkPolicies apply to the API server depends on where it runs; the cluster tool
    /// treats it as one on another node.
    fn is_checked(&self, connection: &Connection) -> bool {
        connection.from != Party::ApiServer || !self.api_server_is_foreign
    }

    async fn ensure(&self, connection: &Connection, open: bool) -> Result<()> {
        let is_open = self.is_open(connection).await.with_context(|| format!("{connection:?}"))?;
        ensure!(is_open == open, "{connection:?} {}", if is_open { "was accepted" } else { "timed out" });
        Ok(())
    }

    /// Opens a connection; false if it timed out.
    async fn is_open(&self, connection: &Connection) -> Result<bool> {
        match connection.to {
            Destination::Tcp(to, port) if connection.from == Party::ApiServer => {
                self.is_proxied(&self.pod(to)?.1.name_any(), port).await
            }
            Destination::Tcp(to, port) => {
                let address = self.address(to)?;
                self.is_answered(connection.from, &format!("http://{address}:{port}/")).await
            }
            Destination::ServiceAtZero => self.is_answered(connection.from, &self.url_of_zero).await,
            Destination::Udp(to, port) => {
                let target = format!("{}:{port}", self.address(to)?).parse()?;
                let (attack, duration) = (Attack::Datagrams, DATAGRAMS);
                let command = AttackCommand { attack, target, tls: false, connections: 1, duration };
                let report = self.command(connection.from, &format!("/attack?{}", command.query())).await?;
                let report: AttackReport = serde_json::from_str(&report).with_context(|| report.clone())?;
                Ok(report.received > 0)
            }
        }
    }

    /// Sends one request, which activators take for a probe and do not hold.
    async fn is_answered(&self, from: Party, url: &str) -> Result<bool> {
        let timeout = TIMEOUT.as_secs_f64();
        let header = format!("{PROBE_HEADER}:{PROBE_ACTIVATOR}");
        let one = "rate=10&seconds=0.05&newConnections=true";
        let path = format!("/send?url={url}&{one}&timeout={timeout}&header={header}");
        let text = self.command(from, &path).await?;
        let response: Response = serde_json::from_str(&text).with_context(|| text.clone())?;
        match response.error.as_str() {
            error if error.starts_with("no response within") => Ok(false),
            error if error.contains("(Connect)") => bail!("{url}: {error}"),
            // Including a port that answers plain text with a TLS alert.
            _ => Ok(true),
        }
    }

    /// Sends a request through the API server, which connects to a pod of Rouse by TLS.
    async fn is_proxied(&self, pod: &str, port: u16) -> Result<bool> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/https:{pod}:{port}/proxy/healthz");
        let request = http::Request::get(path).body(Vec::new())?;
        Ok(tokio::time::timeout(TIMEOUT, self.client.request_text(request))
            .await
            .is_ok_and(|text| text.is_ok()))
    }

    /// Sends a command to the client in a pod, and returns the line of its result.
    async fn command(&self, from: Party, path: &str) -> Result<String> {
        let (pod, _) = self.pod(from)?;
        let (pods, port) = match from {
            Party::Component(_) => (system_api(&self.client), EPHEMERAL_PORT),
            _ => (Api::namespaced(self.client.clone(), &self.namespace), CLIENT_PORT),
        };
        let name = pod.name_any();
        let response = forwarded_port::get(&pods, &name, port, path);
        let response = tokio::time::timeout(COMMAND, response).await.context("no result of a command")??;
        let line = response.body().lines().find(|line| !line.is_empty());
        Ok(line.with_context(|| format!("an empty result: {response:?}"))?.to_owned())
    }

    fn pod(&self, of: Party) -> Result<&(Pod, Pod)> {
        self.pods.get(&of).with_context(|| format!("no pod of {of:?}"))
    }

    fn address(&self, of: Party) -> Result<&str> {
        let (_, pod) = self.pod(of)?;
        pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()).context("a pod without address")
    }
}

/// A pod that is a client of nothing, with a policy that opens its egress.
async fn start_prometheus(namespace: &TestNamespace) -> Result<Pod> {
    let labels = json!({"app.kubernetes.io/name": PROMETHEUS});
    let spec = json!({"podSelector": {"matchLabels": labels}, "policyTypes": ["Egress"], "egress": [{}]});
    network_policies::create(namespace, json!({"metadata": {"name": PROMETHEUS}, "spec": spec})).await?;
    let pod = json!({
        "metadata": {"name": PROMETHEUS, "labels": labels},
        "spec": {
            "automountServiceAccountToken": false,
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "client",
                "image": SAMPLE_APP,
                "imagePullPolicy": "IfNotPresent",
                "args": ["client", "--port", CLIENT_PORT.to_string()],
            }],
        },
    });
    Ok(namespace.api().create(&PostParams::default(), &serde_json::from_value(pod)?).await?)
}

/// The pod of a workload that stays at one.
async fn start_workload(namespace: &TestNamespace) -> Result<Pod> {
    let workload = Workload { max_replicas: 1, ..Workload::new("one") }.annotated("scale-to-zero", "false");
    workload.create(namespace).await?;
    until_first_response(&workload.url(namespace).await?, namespace, POD_START).await?;
    wait::until("the workload's pod to be ready", POD_START, || async {
        Ok(pods_of(namespace, &workload.name).await?.into_iter().find(is_ready))
    })
    .await
}

async fn two_pods_of(client: &Client, component: &str) -> Result<(Pod, Pod)> {
    let pods = system_api::<Pod>(client).list(&component_selector(component)).await?.items;
    let mut ready = pods.into_iter().filter(is_ready);
    ready.next().zip(ready.next()).with_context(|| format!("{component} has no two ready pods"))
}

/// Adds the ephemeral container. It has what the namespace's pod security standard demands.
async fn add_client(client: &Client, pod: &Pod) -> Result<()> {
    let container = json!({
        "name": "connections",
        "image": SAMPLE_APP,
        "imagePullPolicy": "IfNotPresent",
        "args": ["client", "--port", EPHEMERAL_PORT.to_string()],
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
    });
    let patch = Patch::Strategic(json!({"spec": {"ephemeralContainers": [container]}}));
    let pods = system_api::<Pod>(client);
    pods.patch_ephemeral_containers(&pod.name_any(), &PatchParams::default(), &patch).await?;
    Ok(())
}
