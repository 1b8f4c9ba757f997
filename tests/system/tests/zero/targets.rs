//! Targets and autoscalers other than a Deployment with an HPA that keeps at least one replica, and
//! writers of targets other than an HPA.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::{PodAutoscaler, condition};
use kube::api::{Api, PostParams};
use serde_json::json;
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::cluster::version::Feature;
use system_tests::timeline::{Change, Timeline};
use system_tests::traffic::load::{
    self, LONGEST, Load, STEADY_WORK, send_one_request, until_activators_respond, until_first_response,
};
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::scale_target::{ScaleTarget, ScaleTargets};
use system_tests::workloads::workload::{Workload, scale, until_replicas};

/// Pods that start on a busy machine take concurrency from the load for some seconds.
const SCALED: Duration = Duration::from_secs(60);
/// Enough for a reconcile, garbage collection and kube-proxy.
const RECONCILED: Duration = Duration::from_secs(60);

/// Applies a PodAutoscaler with a target of 5 requests a pod for the Service `service`.
async fn create_pod_autoscaler(
    namespace: &TestNamespace,
    target: serde_json::Value,
    service: &str,
    max_replicas: i32,
) -> Result<()> {
    let mut autoscaler = PodAutoscaler::new(
        service,
        serde_json::from_value(json!({
            "scaleTargetRef": target, "scaler": "Direct", "service": service,
            "target": "5", "maxReplicas": max_replicas, "scaleToZero": true,
        }))?,
    );
    autoscaler.metadata.annotations =
        Some([("autoscaling.rouse.dev/window".to_owned(), "6s".to_owned())].into());
    let autoscalers: Api<PodAutoscaler> = namespace.api();
    autoscalers.create(&PostParams::default(), &autoscaler).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn workload_without_hpa_scales_from_zero_up_and_back() -> Result<()> {
    let namespace = begin_shared("direct").await?;
    let workload = Workload { replicas: 0, ..Workload::new("direct") };
    workload.create_without_hpa(&namespace).await?;
    create_pod_autoscaler(
        &namespace,
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "direct"}),
        "direct",
        10,
    )
    .await?;
    let url = workload.url(&namespace).await?;
    until_activators_respond(&url, &namespace, RECONCILED).await?;
    let mut timeline = Timeline::follow(&namespace, "direct");
    send_one_request(&url, &namespace).await.context("the held request")?;
    let mut load = Load::concurrency(&url, 20, STEADY_WORK, LONGEST).start(&namespace).await?;
    until_replicas(&namespace, "direct", |n| n == 4, SCALED)
        .await
        .context("4 pods for 20 requests of 5 each")?;
    load::ensure_all_ok(&load.until_now().await?)?;
    drop(load);
    until_replicas(&namespace, "direct", |n| n == 0, TO_ZERO).await?;
    let writers = timeline.drain().into_iter().filter_map(|entry| match entry.change {
        Change::Scaled { by, .. } => by,
        _ => None,
    });
    let unexpected: Vec<_> = writers.filter(|by| by != "zero-scaler").collect();
    ensure!(unexpected.is_empty(), "sizes were written by {unexpected:?}");
    send_one_request(&url, &namespace).await.context("the request after it was at zero")?;
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn custom_resource_with_scale_subresource_scales_from_zero() -> Result<()> {
    let namespace = begin_shared("custom").await?;
    let targets = ScaleTargets::follow(&namespace).await?;
    let target = ScaleTarget::new("custom", 0);
    targets.create_alone(&target).await?;
    // Its pods belong to a Deployment, which the test scales in place of the resource's controller.
    let workload = Workload { replicas: 0, ..Workload::new("custom") };
    workload.create_without_hpa(&namespace).await?;
    // One replica at most, so that the sizes are of one cycle, however long the pod takes to start.
    create_pod_autoscaler(&namespace, target.reference(), "custom", 1).await?;
    let url = workload.url(&namespace).await?;
    until_activators_respond(&url, &namespace, RECONCILED).await?;
    let held = tokio::spawn({
        let (namespace, url) = (namespace.clone(), url.clone());
        async move { send_one_request(&url, &namespace).await }
    });
    wait::until("the custom resource to be scaled from zero", RECONCILED, || async {
        Ok((targets.sizes("custom") == [0, 1]).then_some(()))
    })
    .await
    .with_context(|| format!("{:?}", targets.sizes("custom")))?;
    scale(&namespace, "custom", 1).await?;
    held.await?.context("the held request")?;
    wait::until("the custom resource to return to zero", TO_ZERO, || async {
        Ok((targets.sizes("custom") == [0, 1, 0]).then_some(()))
    })
    .await
    .with_context(|| format!("{:?}", targets.sizes("custom")))?;
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn daemon_set_and_job_are_refused_as_targets() -> Result<()> {
    let namespace = begin_shared("no-scale").await?;
    for (api_version, kind) in [("apps/v1", "DaemonSet"), ("batch/v1", "Job")] {
        let name = kind.to_lowercase();
        create_pod_autoscaler(
            &namespace,
            json!({"apiVersion": api_version, "kind": kind, "name": name}),
            &name,
            1,
        )
        .await?;
        let autoscalers: Api<PodAutoscaler> = namespace.api();
        wait::until("condition Ready of reason TargetNotScalable", RECONCILED, || async {
            let status = autoscalers.get(&name).await?.status.context("no status")?;
            let ready = condition(&status.conditions, "Ready").context("no condition")?;
            ensure!(ready.reason == "TargetNotScalable", "{}: {}", ready.reason, ready.message);
            ensure!(ready.message.contains(kind), "{}", ready.message);
            Ok(Some(()))
        })
        .await?;
    }
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn no_request_fails_with_hpa_of_min_replicas_zero() -> Result<()> {
    let namespace = begin_shared("min-zero").await?;
    if !Feature::HpaScaleToZero.is_served(&namespace.client).await? {
        return namespace.end().await;
    }
    // One replica at most, so that the sizes are of the cycles to zero and back, however long pods
    // take to start.
    let mut workload = Workload { min_replicas: 0, max_replicas: 1, ..Workload::new("min-zero") };
    workload.annotations.remove("scale-to-zero");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    let mut timeline = Timeline::follow(&namespace, "min-zero");
    let burst = Load::rate(&url, 20.0, Duration::from_secs(2));
    for cycle in 0..2 {
        until_replicas(&namespace, "min-zero", |n| n == 0, TO_ZERO).await?;
        let responses = burst.run(&namespace).await?;
        load::ensure_all_ok(&responses).with_context(|| format!("requests at zero, cycle {cycle}"))?;
    }
    let sizes = timeline.drain().into_iter().filter_map(|entry| match entry.change {
        Change::Scaled { replicas, .. } => Some(replicas),
        _ => None,
    });
    let sizes: Vec<_> = sizes.collect();
    ensure!(sizes == [0, 1, 0, 1], "the sizes of two cycles are {sizes:?}");
    namespace.end().await
}
