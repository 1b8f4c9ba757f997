//! Firewalls between the control plane and the pods, as rules of nft: the metrics API and the
//! webhook for the sidecar work by the values of `docs/howto/operate/platforms.md`, and stop where
//! the page says so.

use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use system_tests::cluster::helm::Helm;
use system_tests::cluster::installation::{
    API_SERVICE, COMPONENTS, NAMESPACE, until_ready, until_rolled_out, until_unserved,
};
use system_tests::cluster::kubectl;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::cluster::packet_filter::PacketFilter;
use system_tests::traffic::load::{create_at_zero, send_one_request};
use system_tests::workloads::injection::{ensure_have_sidecars, until_injection};
use system_tests::workloads::workload::{Workload, until_replicas};

use crate::installed::{AT_ZERO, INSTALLED, ROLLOUT, begin, until_nothing_is_left};

/// Ports of probes, of Rouse's pods, sidecars, CoreDNS and the tests' client, which gets its
/// commands there as well.
const PROBED: &str = "8022, 8080, 8081, 8181, 9090";
/// The old metrics-adapter stays for a minute beside the new one.
const REPLACED: Duration = Duration::from_secs(300);
/// The webhook in place of the policy, because the API server calls it.
const VALUES: [&str; 4] =
    ["--set", "sidecar.injection=webhook", "--set-string", "config.scale-to-zero-grace-period=3s"];
/// One replica: each node has at most one, and the change to the pods' network starts another one.
const HOST_NETWORK: [&str; 2] =
    ["--set", "metricsAdapter.replicas=1,metricsAdapter.hostNetwork=true,metricsAdapter.securePort=10260"];
const DEFAULT_PORT: [&str; 2] =
    ["--set", "metricsAdapter.replicas=1,metricsAdapter.hostNetwork=false,metricsAdapter.securePort=10250"];
const CLOSED_PORT: [&str; 2] = ["--set", "metricsAdapter.securePort=6443"];

#[tokio::test]
#[ignore = "needs a cluster of the cluster tool, without Rouse: run make test-install"]
async fn webhook_and_metrics_api_work_where_the_control_plane_reaches_few_ports() -> Result<()> {
    let (client, guard) = begin().await?;
    let helm = Helm::from_environment()?;
    let namespace = TestNamespace::create(client.clone(), "rouse-test-firewall").await?.with_guard(guard);

    let firewall = only_ports("")?;
    kubectl::run(&["create", "namespace", NAMESPACE]).await?;
    kubectl::run(&["label", "namespace", NAMESPACE, "pod-security.kubernetes.io/enforce=privileged"]).await?;
    helm.install(&[VALUES.as_slice(), &HOST_NETWORK].concat()).await?;
    ensure_wakes(&client, &namespace, "host").await.context("no route to pods")?;
    helm.upgrade(&DEFAULT_PORT).await?;
    ensure_unreachable(&client, &namespace).await.context("no route to pods")?;
    drop(firewall);

    let firewall = only_ports(", 443, 10250")?;
    ensure_wakes(&client, &namespace, "pods").await.context("443 and 10250 are open")?;
    helm.upgrade(&CLOSED_PORT).await?;
    ensure_unreachable(&client, &namespace).await.context("6443 is closed")?;
    drop(firewall);
    until_ready(&client, INSTALLED).await?;
    until_injection(&namespace, true).await?;

    println!("{}", helm.uninstall().await?);
    until_nothing_is_left().await?;
    namespace.delete().await
}

/// Drops connections of the first node to other ports of pods than these: those of the API server,
/// because kubelets are let through.
fn only_ports(open: &str) -> Result<PacketFilter> {
    let first_packet = "tcp flags & (syn | ack) == syn";
    let rule =
        format!("ip daddr 10.244.0.0/16 {first_packet} tcp dport != {{ {PROBED}{open} }} counter drop");
    PacketFilter::add("ip control-plane", "output", &rule)
}

/// The API server reaches none of the metrics-adapters, of which no older one runs.
async fn ensure_unreachable(client: &Client, namespace: &TestNamespace) -> Result<()> {
    until_rolled_out(client, "metrics-adapter", REPLACED).await?;
    until_unserved(client, API_SERVICE, INSTALLED).await?;
    until_injection(namespace, false).await
}

/// A labelled workload gets its sidecar, wakes and goes to zero again.
async fn ensure_wakes(client: &Client, namespace: &TestNamespace, name: &str) -> Result<()> {
    for component in COMPONENTS {
        until_rolled_out(client, component, REPLACED).await?;
    }
    until_ready(client, INSTALLED).await?;
    until_injection(namespace, true).await?;
    let url = create_at_zero(&Workload { attached: true, ..Workload::new(name) }, namespace, ROLLOUT).await?;
    let response = send_one_request(&url, namespace).await?;
    println!("{name}: a wake took {:.0} ms", response.ms);
    ensure_have_sidecars(namespace, name).await?;
    until_replicas(namespace, name, |size| size == 0, AT_ZERO).await?;
    Ok(())
}
