//! Rouse beside KEDA itself on one cluster, in both orders of installation: `make test-keda`.

mod keda;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use system_tests::cluster::helm::Helm;
use system_tests::cluster::installation::{
    self, API_SERVICE, CUSTOM_API_SERVICE, until_available, until_served,
};
use system_tests::cluster::kubectl;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::load::{send_one_request, until_first_response};
use system_tests::wait;
use system_tests::workloads::rollout::until_pods_are_gone;
use system_tests::workloads::workload::{Workload, until_replicas};

use self::keda::{Consumer, KEDA_SERVICE, Keda, create_scaled_object};
use crate::installed::{
    AT_ZERO, INSTALLED, ROLLOUT, begin, ensure_scales_up, ensure_served, ensure_serves_without_rouse,
    start_load, until_nothing_is_left,
};

/// Name of the workload that Rouse scales.
const WEB: &str = "web";
/// The grace period of these tests.
const GRACE: [&str; 2] = ["--set-string", "config.scale-to-zero-grace-period=3s"];
/// How long changes of the APIService are counted.
const OBSERVED: Duration = Duration::from_secs(30);
/// Changes in that time while both programs write: two metrics-adapters restore their CA at most
/// five times each, and KEDA writes after each of these. Without delays it is 900.
const MOST_CHANGES: usize = 20;

#[tokio::test]
#[ignore = "needs KEDA and a cluster without Rouse: run make test-keda"]
async fn scales_on_custom_metrics_while_keda_scales_its_own() -> Result<()> {
    let (client, guard) = begin().await?;
    let keda = Keda::load(&client)?;
    keda.apply(&[]).await?;
    keda.until_started().await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-test-keda").await?.with_guard(guard);
    let consumer = Consumer::create(&namespace).await?;
    consumer.ensure_follows(&[2, 0]).await.context("before Rouse")?;
    let before = keda.api_service().await?;

    let helm = Helm::from_environment()?;
    let notes = helm.install(&GRACE).await?;
    ensure!(notes.contains("Metrics API: custom") && notes.contains(KEDA_SERVICE), "{notes}");
    until_available(&client, INSTALLED).await?;
    until_served(&client, CUSTOM_API_SERVICE, INSTALLED).await?;
    keda.ensure_unchanged(&before).await?;

    let url = create_web(&namespace, true).await?;
    let both = tokio::try_join!(ensure_scales(&url, &namespace), consumer.ensure_follows(&[1, 3, 1, 0, 2]));
    both.context("at the same time")?;
    let refused =
        create_scaled_object(&namespace, WEB).await.err().context("KEDA accepts a second scaler")?;
    ensure!(format!("{refused:#}").contains("already managed by the hpa 'web'"), "{refused:#}");
    keda.ensure_unchanged(&before).await?;

    let mut load = start_load(&url, &namespace).await?;
    println!("{}", helm.uninstall().await?);
    ensure_serves_without_rouse(&namespace, WEB, &mut load).await?;
    consumer.ensure_follows(&[1, 0, 2]).await.context("after Rouse")?;
    keda.ensure_unchanged(&before).await.context("after helm uninstall")?;
    keda.delete().await?;
    until_nothing_is_left().await?;
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs KEDA and a cluster without Rouse: run make test-keda"]
async fn leaves_api_to_keda_that_is_installed_later() -> Result<()> {
    let (client, guard) = begin().await?;
    let helm = Helm::from_environment()?;
    helm.install(&GRACE).await?;
    installation::until_ready(&client, INSTALLED).await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-test-later").await?.with_guard(guard);
    let url = create_web(&namespace, false).await?;
    let mut load = start_load(&url, &namespace).await?;

    // The APIService stays with Rouse, and KEDA's operator writes its CA into it all the same.
    let keda = Keda::load(&client)?;
    let refused = keda.apply(&[]).await.err().context("the API server takes the APIService from Helm")?;
    ensure!(format!("{refused:#}").contains(".spec.service.name"), "{refused:#}");
    until_event(&client, "CaBundleOverwritten", "keda").await?;
    let changes = keda.changes(OBSERVED).await?;
    println!("both write the caBundle: {changes} changes in {} s", OBSERVED.as_secs());
    ensure!(changes <= MOST_CHANGES, "{changes} changes");

    keda.apply(&["--force-conflicts"]).await?;
    keda.until_started().await?;
    until_event(&client, "OwnedByOtherServer", KEDA_SERVICE).await?;
    let taken = keda.api_service().await?;
    ensure!(keda.changes(OBSERVED).await? == 0, "the APIService of KEDA changed");
    keda.ensure_unchanged(&taken).await?;
    println!("while KEDA took the API: {} requests, all with status 200", ensure_served(&mut load).await?);

    // The steps of docs/howto/coming-from/keda.md.
    let custom = ["--set", "metricsApi=custom"];
    let refused = helm.upgrade(&custom).await.err().context("Helm deletes the APIService of KEDA")?;
    let keep = ["annotate", "apiservice", API_SERVICE, "helm.sh/resource-policy=keep"];
    ensure!(format!("{refused:#}").contains(&keep.join(" ")), "{refused:#}");
    kubectl::run(&keep).await?;
    helm.upgrade(&custom).await?;
    until_served(&client, CUSTOM_API_SERVICE, INSTALLED).await?;
    change_to_custom_metrics(&namespace).await?;
    println!("with custom metrics: {} requests, all with status 200", ensure_served(&mut load).await?);
    drop(load);
    let consumer = Consumer::create(&namespace).await?;
    tokio::try_join!(ensure_scales(&url, &namespace), consumer.ensure_follows(&[1, 3, 0]))?;

    helm.uninstall().await?;
    consumer.ensure_follows(&[2]).await.context("after Rouse")?;
    keda.delete().await?;
    until_nothing_is_left().await?;
    namespace.delete().await
}

/// Creates a workload with an HPA. Returns its URL.
async fn create_web(namespace: &TestNamespace, custom_metrics: bool) -> Result<String> {
    let workload = web(custom_metrics);
    workload.create(namespace).await?;
    let url = workload.url(namespace).await?;
    until_first_response(&url, namespace, ROLLOUT).await?;
    Ok(url)
}

fn web(custom_metrics: bool) -> Workload {
    Workload { target: "5".to_owned(), max_replicas: 5, attached: true, custom_metrics, ..Workload::new(WEB) }
}

async fn change_to_custom_metrics(namespace: &TestNamespace) -> Result<()> {
    let autoscalers: Api<HorizontalPodAutoscaler> = namespace.api();
    let patch = json!({"spec": {"metrics": web(true).hpa_metrics()}});
    autoscalers.patch(WEB, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// The life of the workload: to zero, a wake, up under load by its HPA, to zero, and a wake.
async fn ensure_scales(url: &str, namespace: &TestNamespace) -> Result<()> {
    ensure_wakes(url, namespace).await?;
    ensure_scales_up(namespace, WEB, url, 3, Duration::from_secs(60)).await?;
    ensure_wakes(url, namespace).await
}

/// Waits until no pod is left, and sends a request.
async fn ensure_wakes(url: &str, namespace: &TestNamespace) -> Result<()> {
    until_replicas(namespace, WEB, |size| size == 0, AT_ZERO).await?;
    until_pods_are_gone(namespace, WEB, AT_ZERO).await?;
    let response = send_one_request(url, namespace).await?;
    println!("a wake took {:.0} ms", response.ms);
    Ok(())
}

/// Waits for an event on the APIService with `part` in its message.
async fn until_event(client: &kube::Client, reason: &str, part: &str) -> Result<()> {
    let events: Api<Event> = Api::all(client.clone());
    let selected =
        ListParams::default().fields(&format!("reason={reason},involvedObject.name={API_SERVICE}"));
    let message = wait::until(&format!("an event {reason}"), Duration::from_secs(180), || async {
        let events = events.list(&selected).await?.items;
        let mut messages = events.into_iter().filter_map(|event| event.message);
        Ok(messages.find(|message| message.contains(part)))
    })
    .await?;
    println!("{reason}: {message}");
    Ok(())
}
