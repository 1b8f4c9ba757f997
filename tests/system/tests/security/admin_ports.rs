//! A pod without credentials that holds connections to the ports of probes keeps no kubelet away:
//! liveness and readiness succeed, and no container restarts.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::contract::{ADMIN_PORT, QUEUE_PROXY_ADMIN_PORT};
use futures::future::try_join_all;
use hostile::{Attack, AttackCommand};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::Api;
use system_tests::cluster::installation::{begin_exclusive, component_selector, ready_pods, system_api};
use system_tests::cluster::namespace::{CLIENT_POD, TestNamespace, is_ready, pods_of};
use system_tests::cluster::network_policies;
use system_tests::traffic::attack;
use system_tests::traffic::load::until_first_response;
use system_tests::wait;
use system_tests::workloads::deadlines::POD_START;
use system_tests::workloads::workload::Workload;
use tokio::time::{Instant, sleep, timeout};

const VICTIM: &str = "victim";
/// Connections to each port by each attack.
const CONNECTIONS: usize = 64;
/// For how long they are held; longer than three periods of the activators' readiness probe.
const ATTACK: Duration = Duration::from_secs(10);
/// Time for a server to have accepted all connections.
const BUILD_UP: Duration = Duration::from_secs(1);
/// The timeout of a kubelet's probe, by default.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
const PROBE_INTERVAL: Duration = Duration::from_millis(250);

/// A port that is attacked, and the paths that kubelets probe there.
struct AdminPort {
    namespace: String,
    pod: String,
    address: SocketAddr,
    paths: &'static [&'static str],
}

/// Whether a pod is Ready, and the restarts of its containers.
type PodState = BTreeMap<String, (bool, i32)>;

// === impl AdminPort ===

impl AdminPort {
    fn of(pod: &Pod, port: u16, paths: &'static [&'static str]) -> Result<Self> {
        let ip = pod.status.as_ref().and_then(|status| status.pod_ip.as_ref());
        let ip = ip.with_context(|| format!("{} has no address", pod.name_any()))?.parse()?;
        let namespace = pod.namespace().unwrap_or_default();
        Ok(Self { namespace, pod: pod.name_any(), address: SocketAddr::new(ip, port), paths })
    }

    /// Sends the requests of a kubelet, from the API server's address.
    async fn probe(&self, namespace: &TestNamespace) -> Result<()> {
        for path in self.paths {
            let Self { namespace: of, pod, address, .. } = self;
            let uri = format!("/api/v1/namespaces/{of}/pods/{pod}:{}/proxy{path}", address.port());
            let request = http::Request::get(&uri).body(Vec::new())?;
            let response = timeout(PROBE_TIMEOUT, namespace.client.request_text(request)).await;
            response.with_context(|| format!("timeout of {uri}"))?.context(uri)?;
        }
        Ok(())
    }
}

/// The victim's sidecar and the activators.
async fn admin_ports(namespace: &TestNamespace) -> Result<Vec<AdminPort>> {
    let sidecar = wait::until("the victim to be ready", POD_START, || async {
        Ok(pods_of(namespace, VICTIM).await?.into_iter().find(is_ready))
    });
    let mut ports = vec![AdminPort::of(&sidecar.await?, QUEUE_PROXY_ADMIN_PORT, &["/ready"])?];
    let pods: Api<Pod> = system_api(&namespace.client);
    for activator in ready_pods(&namespace.client, "activator").await? {
        ports.push(AdminPort::of(&pods.get(&activator).await?, ADMIN_PORT, &["/live", "/ready"])?);
    }
    Ok(ports)
}

async fn states(namespace: &TestNamespace) -> Result<PodState> {
    let mut pods = pods_of(namespace, VICTIM).await?;
    pods.extend(system_api(&namespace.client).list(&component_selector("activator")).await?.items);
    let state = |pod: &Pod| {
        let status = pod.status.clone().unwrap_or_default();
        let containers =
            status.container_statuses.into_iter().chain(status.init_container_statuses).flatten();
        (is_ready(pod), containers.map(|container| container.restart_count).sum())
    };
    // An earlier test may have replaced pods that still drain.
    let stay = pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    Ok(stay.map(|pod| (pod.name_any(), state(pod))).collect())
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn probes_succeed_beside_held_connections_to_their_ports() -> Result<()> {
    let namespace = begin_exclusive("admin-ports").await?;
    network_policies::open(&namespace).await?;
    let workload = Workload { max_replicas: 1, ..Workload::new(VICTIM) }.annotated("scale-to-zero", "false");
    workload.create(&namespace).await?;
    until_first_response(&workload.url(&namespace).await?, &namespace, POD_START).await?;
    let ports = admin_ports(&namespace).await?;
    let before = states(&namespace).await?;
    ensure!(before.values().all(|(ready, _)| *ready), "not ready before: {before:?}");
    for attack in [Attack::Idle, Attack::SilentHttp2] {
        let commands: Vec<_> = ports
            .iter()
            .map(|port| AttackCommand {
                attack,
                target: port.address,
                tls: false,
                connections: CONNECTIONS,
                duration: ATTACK,
            })
            .collect();
        let attacks = try_join_all(commands.iter().map(|c| attack::run(&namespace, CLIENT_POD, c)));
        let (reports, probes) = tokio::join!(attacks, probe_all(&ports, &before, &namespace));
        let probes = probes.with_context(|| format!("beside {attack} connections"))?;
        let opened: Vec<u64> = reports?.iter().map(|report| report.opened).collect();
        ensure!(opened.iter().all(|opened| *opened >= CONNECTIONS as u64), "not attacked: {opened:?}");
        println!("{attack}: {opened:?} connections to {} ports, {probes} probes answered", ports.len());
    }
    // Probes of kubelets may have begun before the end.
    sleep(PROBE_TIMEOUT).await;
    ensure_unchanged(&before, &namespace).await?;
    namespace.end().await
}

/// Probes all ports until the end of the attack, and returns how often.
async fn probe_all(ports: &[AdminPort], before: &PodState, namespace: &TestNamespace) -> Result<usize> {
    let end = Instant::now() + ATTACK;
    let mut probes = 0;
    sleep(BUILD_UP).await;
    while Instant::now() < end {
        for port in ports {
            port.probe(namespace).await?;
            probes += port.paths.len();
        }
        ensure_unchanged(before, namespace).await?;
        sleep(PROBE_INTERVAL).await;
    }
    Ok(probes)
}

async fn ensure_unchanged(before: &PodState, namespace: &TestNamespace) -> Result<()> {
    let now = states(namespace).await?;
    ensure!(now == *before, "Ready and restarts were {before:?} and are {now:?}");
    Ok(())
}
