//! What else users write than a Deployment with an HPA that stays above zero, and what remains when they take it back:
//! `make test-system`.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::PodAutoscaler;
use autoscaler::contract::SLICE_MANAGER;
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::json;
use system_tests::installation::begin_with_short_grace;
use system_tests::load::{self, Load, one_answer, until_activators_answer, until_answered};
use system_tests::namespace::TestNamespace;
use system_tests::target::{Scaled, Targets};
use system_tests::timeline::{Happening, Timeline};
use system_tests::wait;
use system_tests::workload::{Workload, replicas, scale, state, until_replicas};

/// Enough for a pod's start on a loaded machine.
const POD_START: Duration = Duration::from_secs(60);
/// Enough for a window of 6 s, a grace period of 3 s, the HPA's way down and the ends of pods.
const TO_ZERO: Duration = Duration::from_secs(180);
/// Enough for a look at the objects, garbage collection and kube-proxy.
const SOON: Duration = Duration::from_secs(60);

/// Applies a PodAutoscaler that asks for 5 requests a pod, for the Service `service`.
async fn autoscale(namespace: &TestNamespace, target: serde_json::Value, service: &str) -> Result<()> {
    let mut autoscaler = PodAutoscaler::new(
        service,
        serde_json::from_value(json!({
            "scaleTargetRef": target, "scaler": "Direct", "service": service,
            "target": "5", "maxReplicas": 10, "scaleToZero": true,
        }))?,
    );
    autoscaler.metadata.annotations =
        Some([("autoscaling.rouse.dev/window".to_owned(), "6s".to_owned())].into());
    let autoscalers: Api<PodAutoscaler> = namespace.api();
    autoscalers.create(&PostParams::default(), &autoscaler).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn without_an_hpa_a_workload_is_woken_grows_and_sleeps_again() -> Result<()> {
    let namespace = begin_with_short_grace("direct").await?;
    let workload = Workload { replicas: 0, ..Workload::new("direct") };
    workload.create_without_autoscaler(&namespace).await?;
    autoscale(&namespace, json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "direct"}), "direct")
        .await?;
    let url = workload.url(&namespace).await?;
    until_activators_answer(&url, &namespace, SOON).await?;
    let mut timeline = Timeline::follow(&namespace, "direct");
    one_answer(&url, &namespace).await.context("the held request")?;
    let load = Load::concurrency(&url, 20, Duration::from_millis(100), Duration::from_secs(20));
    load::all_ok(&load.run(&namespace).await?)?;
    let size = replicas(&namespace, "direct").await?;
    ensure!(size == 4, "{size} pods for 20 requests of 5 each; {}", state(&namespace, "direct").await);
    until_replicas(&namespace, "direct", |n| n == 0, TO_ZERO).await?;
    let writers = timeline.drain().into_iter().filter_map(|entry| match entry.what {
        Happening::Scaled { by, .. } => by,
        _ => None,
    });
    let strangers: Vec<_> = writers.filter(|by| by != "zero-scaler").collect();
    ensure!(strangers.is_empty(), "sizes were written by {strangers:?}");
    one_answer(&url, &namespace).await.context("the request after it slept")?;
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn a_custom_resource_with_a_scale_subresource_is_woken() -> Result<()> {
    let namespace = begin_with_short_grace("custom").await?;
    let targets = Targets::follow(&namespace).await?;
    let target = Scaled::new("custom", 0);
    targets.create_alone(&target).await?;
    // Its pods are those of a Deployment, which the test scales in its controller's stead.
    let workload = Workload { replicas: 0, ..Workload::new("custom") };
    workload.create_without_autoscaler(&namespace).await?;
    autoscale(&namespace, target.reference(), "custom").await?;
    let url = workload.url(&namespace).await?;
    until_activators_answer(&url, &namespace, SOON).await?;
    let held = tokio::spawn({
        let (namespace, url) = (namespace.clone(), url.clone());
        async move { one_answer(&url, &namespace).await }
    });
    wait::until("the custom resource to be woken", SOON, || async {
        Ok((targets.sizes("custom") == [0, 1]).then_some(()))
    })
    .await
    .with_context(|| format!("{:?}", targets.sizes("custom")))?;
    scale(&namespace, "custom", 1).await?;
    held.await?.context("the held request")?;
    wait::until("the custom resource to sleep again", TO_ZERO, || async {
        Ok((targets.sizes("custom") == [0, 1, 0]).then_some(()))
    })
    .await
    .with_context(|| format!("{:?}", targets.sizes("custom")))?;
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn an_hpa_that_goes_to_zero_by_itself_loses_nothing_either() -> Result<()> {
    let namespace = begin_with_short_grace("min-zero").await?;
    // Never more than one, so that its sizes are the ways to zero and back alone, however long pods take to start.
    let mut workload = Workload { min_replicas: 0, max_replicas: 1, ..Workload::new("min-zero") };
    workload.annotations.remove("scale-to-zero");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_answered(&url, &namespace, POD_START).await?;
    let mut timeline = Timeline::follow(&namespace, "min-zero");
    let knocks = Load::rate(&url, 20.0, Duration::from_secs(2));
    for cycle in 0..3 {
        until_replicas(&namespace, "min-zero", |n| n == 0, TO_ZERO).await?;
        let answers = knocks.run(&namespace).await?;
        load::all_ok(&answers).with_context(|| format!("requests at zero, cycle {cycle}"))?;
    }
    let sizes = timeline.drain().into_iter().filter_map(|entry| match entry.what {
        Happening::Scaled { replicas, .. } => Some(replicas),
        _ => None,
    });
    let sizes: Vec<_> = sizes.collect();
    ensure!(sizes == [0, 1, 0, 1, 0, 1], "three times to zero and back: {sizes:?}");
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn the_service_is_the_users_again_when_the_hpa_is_gone() -> Result<()> {
    let namespace = begin_with_short_grace("left").await?;
    let workload = Workload { attached: true, ..Workload::new("left") };
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_answered(&url, &namespace, POD_START).await?;
    let ours =
        ListParams::default().labels(&format!("endpointslice.kubernetes.io/managed-by={SLICE_MANAGER}"));
    let slices: Api<EndpointSlice> = namespace.api();
    wait::until("activators beside the pod", SOON, || async {
        Ok((!slices.list(&ours).await?.items.is_empty()).then_some(()))
    })
    .await?;
    let steady = Load::rate(&url, 20.0, Duration::from_secs(20)).start(&namespace).await?;
    let autoscalers: Api<HorizontalPodAutoscaler> = namespace.api();
    autoscalers.delete("left", &DeleteParams::default()).await?;
    let left: Api<PodAutoscaler> = namespace.api();
    wait::until("all of ours to be gone", SOON, || async {
        let gone = left.get_opt("left").await?.is_none() && slices.list(&ours).await?.items.is_empty();
        Ok(gone.then_some(()))
    })
    .await?;
    load::all_ok(&steady.finish().await?).context("requests while the HPA was deleted")?;
    ensure!(replicas(&namespace, "left").await? == 1, "the size changed");
    namespace.delete().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn a_sleeper_whose_hpa_is_gone_is_woken() -> Result<()> {
    let namespace = begin_with_short_grace("orphaned").await?;
    let workload = Workload { attached: true, ..Workload::new("orphaned") };
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_replicas(&namespace, "orphaned", |n| n == 0, TO_ZERO).await?;
    let autoscalers: Api<HorizontalPodAutoscaler> = namespace.api();
    autoscalers.delete("orphaned", &DeleteParams::default()).await?;
    until_replicas(&namespace, "orphaned", |n| n == 1, SOON).await?;
    until_answered(&url, &namespace, POD_START).await.context("without us")?;
    namespace.delete().await
}
