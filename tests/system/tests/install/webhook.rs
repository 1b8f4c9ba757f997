//! The sidecar's webhook, which any cluster can have: pods get the sidecar from it, start without
//! one while no metrics-adapter runs, and their workload reports that.

use std::time::Duration;

use anyhow::{Result, ensure};
use autoscaler::api::{PodAutoscaler, condition};
use clap::Parser;
use cli::app;
use cli::args::Cli;
use cli::connection::Session;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{DeleteParams, ListParams};
use system_tests::cluster::helm::Helm;
use system_tests::cluster::installation::{
    NAMESPACE, scale_component, set_grace_period, until_component_is_gone, until_ready,
};
use system_tests::cluster::namespace::{TestNamespace, is_ready, pods_of};
use system_tests::traffic::load::{create_at_zero, send_one_request};
use system_tests::wait;
use system_tests::workloads::injection::{ensure_have_sidecars, has_sidecar, until_injection};
use system_tests::workloads::rollout::until_rolled_out;
use system_tests::workloads::workload::{Workload, until_replicas};

use crate::installed::{AT_ZERO, INSTALLED, ROLLOUT, begin, until_nothing_is_left};

/// A workload that wakes and goes to zero.
const WAKING: &str = "waking";
/// A workload of one pod, which stays.
const STEADY: &str = "steady";
/// Enough for a condition after the pod is ready.
const REPORTED: Duration = Duration::from_secs(60);

#[tokio::test]
#[ignore = "needs a cluster without Rouse: run make test-install"]
async fn webhook_adds_sidecars_and_holds_no_pod_back_while_it_is_away() -> Result<()> {
    let (client, guard) = begin().await?;
    let helm = Helm::from_environment()?;
    let notes = helm.install(&["--set", "sidecar.injection=webhook"]).await?;
    ensure!(notes.contains("by a webhook."), "{notes}");
    until_ready(&client, INSTALLED).await?;
    set_grace_period(&client, "3s").await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-test-webhook").await?.with_guard(guard);
    until_injection(&namespace, true).await?;

    let url = create_at_zero(&Workload::new(WAKING), &namespace, ROLLOUT).await?;
    let response = send_one_request(&url, &namespace).await?;
    println!("a wake with the sidecar of the webhook took {:.0} ms", response.ms);
    ensure_have_sidecars(&namespace, WAKING).await?;
    until_replicas(&namespace, WAKING, |size| size == 0, AT_ZERO).await?;

    let steady = Workload::new(STEADY).annotated("scale-to-zero", "false");
    steady.create(&namespace).await?;
    until_rolled_out(&namespace, STEADY, ROLLOUT).await?;
    ensure_have_sidecars(&namespace, STEADY).await?;
    starts_without_metrics_adapter(&client, &namespace).await?;
    until_reported(&namespace, true).await?;
    namespace.api::<Deployment>().restart(STEADY).await?;
    until_rolled_out(&namespace, STEADY, ROLLOUT).await?;
    until_reported(&namespace, false).await?;

    println!("{}", helm.uninstall().await?);
    until_nothing_is_left().await?;
    namespace.delete().await
}

/// Replaces the pod of the steady workload while no metrics-adapter runs: it is ready without a
/// sidecar.
async fn starts_without_metrics_adapter(client: &Client, namespace: &TestNamespace) -> Result<()> {
    scale_component(client, "metrics-adapter", 0).await?;
    until_component_is_gone(client, "metrics-adapter", ROLLOUT).await?;
    until_injection(namespace, false).await?;
    ensure_check_names_the_webhook(namespace).await?;
    let selected = ListParams::default().labels(&format!("app={STEADY}"));
    namespace.api::<Pod>().delete_collection(&DeleteParams::default(), &selected).await?;
    wait::until("a ready pod without a sidecar", ROLLOUT, || async {
        let pods = pods_of(namespace, STEADY).await?;
        Ok(pods.iter().any(|pod| is_ready(pod) && !has_sidecar(pod)).then_some(()))
    })
    .await?;
    scale_component(client, "metrics-adapter", 2).await?;
    until_ready(client, INSTALLED).await?;
    until_injection(namespace, true).await
}

/// `kubectl rouse check` finds that new pods would get no sidecar.
async fn ensure_check_names_the_webhook(namespace: &TestNamespace) -> Result<()> {
    let cli = Cli::try_parse_from(["kubectl-rouse", "check"])?;
    let session = Session {
        client: namespace.client.clone(),
        namespace: namespace.name.clone(),
        only_namespace: Some(namespace.name.clone()),
        system_namespace: NAMESPACE.to_owned(),
    };
    let mut report = Vec::new();
    app::execute(&cli.command, &session, cli.output, &mut report).await?;
    let report = String::from_utf8(report)?;
    ensure!(
        report.contains("a dry run that creates a labelled pod returned it without a sidecar"),
        "{report}"
    );
    Ok(())
}

/// Waits until the steady workload reports that its pod has no sidecar, or does not any more.
async fn until_reported(namespace: &TestNamespace, wanted: bool) -> Result<()> {
    wait::until(&format!("SidecarMissing: {wanted}"), REPORTED, || async {
        let status = namespace.api::<PodAutoscaler>().get(STEADY).await?.status.unwrap_or_default();
        let reason = condition(&status.conditions, "Ready").map(|ready| ready.reason.clone());
        ensure!((reason.as_deref() == Some("SidecarMissing")) == wanted, "Ready has the reason {reason:?}");
        Ok(Some(()))
    })
    .await
}
