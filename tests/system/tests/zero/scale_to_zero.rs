//! Requests at every phase of the scale-to-zero sequence, at zero without the annotation
//! `scale-to-zero`, and of an uptime monitor, which count as nothing.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::{ServerlessService, SksMode};
use futures::future::try_join_all;
use kube::api::Api;
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::load::{self, Load, Response, send_one_request, until_first_response};
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::rollout::until_pods_are_gone;
use system_tests::workloads::workload::{Sidecar, Workload, replicas, scale, until_replicas};

/// Longer than the window, so that a request that counted would be seen.
const AT_ZERO: Duration = Duration::from_secs(20);
/// The query of a load has no spaces.
const MONITOR: &str = "user-agent:Mozilla/5.0+(compatible;UptimeRobot/2.0)";

/// When requests are sent.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Right after the first response.
    Start,
    /// The route has changed to the activators.
    RouteChanged,
    /// `spec.replicas` is 0.
    ScaledToZero,
    LastPodGone,
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn no_request_fails_during_scale_to_zero_and_back() -> Result<()> {
    let namespace = begin_shared("zero").await?;
    let workloads = [("managed", false, "0"), ("through", false, "-1"), ("attached", true, "0")];
    let workloads = workloads.map(|(name, attached, capacity)| {
        Workload { attached, ..Workload::new(name) }.annotated("target-burst-capacity", capacity)
    });
    let plain = Workload { sidecar: Sidecar::None, ..Workload::new("plain") };
    let workloads = workloads.iter().chain([&plain]);
    try_join_all(workloads.map(|workload| to_zero_and_back(&namespace, workload, false))).await?;
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn no_grpc_call_fails_during_scale_to_zero_and_back() -> Result<()> {
    let namespace = begin_shared("zero-grpc").await?;
    let workloads = [("sidecar", Sidecar::Native), ("plain", Sidecar::None)];
    try_join_all(workloads.map(async |(name, sidecar)| {
        let workload = Workload { sidecar, ..Workload::new(name) }.annotated("target-burst-capacity", "0");
        to_zero_and_back(&namespace, &workload, true).await
    }))
    .await?;
    namespace.end().await
}

async fn to_zero_and_back(namespace: &TestNamespace, workload: &Workload, grpc: bool) -> Result<()> {
    let name = &workload.name;
    workload.create(namespace).await?;
    let url = workload.url(namespace).await?;
    until_first_response(&url, namespace, POD_START).await?;
    let burst = Load { grpc, ..Load::rate(&url, 20.0, Duration::from_secs(3)) };
    let mut sent = 0;
    for phase in [Phase::Start, Phase::RouteChanged, Phase::ScaledToZero, Phase::LastPodGone] {
        until_phase(namespace, name, phase)
            .await
            .with_context(|| format!("{name}, waiting for {phase:?}"))?;
        let responses = burst.run(namespace).await?;
        sent += responses.len();
        load::ensure_all_ok(&responses).with_context(|| format!("{name}, requests sent at {phase:?}"))?;
    }
    until_replicas(namespace, name, |n| n == 0, TO_ZERO).await?;
    println!("{name}: {sent} requests during scale-to-zero, all with status 200");
    Ok(())
}

async fn until_phase(namespace: &TestNamespace, name: &str, phase: Phase) -> Result<()> {
    match phase {
        Phase::Start => Ok(()),
        // A workload that is always behind activators is in this phase from the start.
        Phase::RouteChanged => {
            let services: Api<ServerlessService> = namespace.api();
            wait::until("the route to change to the activators", TO_ZERO, || async {
                let mode = services.get(name).await?.status.and_then(|status| status.mode);
                Ok((mode == Some(SksMode::Proxy)).then_some(()))
            })
            .await
        }
        Phase::ScaledToZero => until_replicas(namespace, name, |n| n == 0, TO_ZERO).await.map(drop),
        Phase::LastPodGone => {
            until_replicas(namespace, name, |n| n == 0, TO_ZERO).await?;
            until_pods_are_gone(namespace, name, POD_START).await
        }
    }
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn workload_without_scale_to_zero_stays_at_zero_and_gets_503() -> Result<()> {
    let namespace = begin_shared("paused").await?;
    let mut workload = Workload::new("paused");
    workload.annotations.remove("scale-to-zero");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await.context("while it has a pod")?;
    scale(&namespace, "paused", 0).await?;
    let rejected = wait::until("a response with status 503", Duration::from_secs(60), || async {
        let responses = Load::one_request(&url).run(&namespace).await?;
        Ok(responses.into_iter().find(|response| response.status == 503))
    })
    .await?;
    ensure!(rejected.error.contains("paused"), "the body does not give the reason: {}", rejected.error);
    ensure!(replicas(&namespace, "paused").await? == 0, "a paused workload was scaled up");
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn uptime_monitor_neither_keeps_a_workload_above_zero_nor_wakes_it() -> Result<()> {
    let namespace = begin_shared("monitor").await?;
    let workloads = [
        Workload::new("monitored"),
        Workload { attached: true, ..Workload::new("direct") }.annotated("target-burst-capacity", "0"),
        Workload { sidecar: Sidecar::None, ..Workload::new("plain") },
    ];
    let workloads = workloads.map(|workload| {
        workload
            .annotated("no-wake", "User-Agent: *UptimeRobot*")
            .annotated("no-wake-response", "203 at zero")
    });
    try_join_all(workloads.iter().map(|workload| to_zero_under_monitor(&namespace, workload))).await?;
    namespace.end().await
}

async fn to_zero_under_monitor(namespace: &TestNamespace, workload: &Workload) -> Result<()> {
    let name = &workload.name;
    workload.create(namespace).await?;
    let url = workload.url(namespace).await?;
    until_first_response(&url, namespace, POD_START).await?;
    let monitor = Load { header: Some(MONITOR.to_owned()), ..Load::rate(&url, 1.0, TO_ZERO) };
    let until_zero = async {
        tokio::select! {
            zero = until_replicas(namespace, name, |n| n == 0, TO_ZERO) => zero.map(drop),
            sent = monitor.run(namespace) => sent.map(drop).and_then(|()| anyhow::bail!("it did not reach zero")),
        }
    };
    until_zero.await.with_context(|| format!("{name} with requests of the monitor"))?;

    let at_zero = Load { duration: AT_ZERO, ..monitor }.run(namespace).await?;
    ensure!(replicas(namespace, name).await? == 0, "{name} was woken by the monitor");
    // The last pod may answer until its endpoint is gone.
    let answered = |response: &Response| response.status == 203 && response.pod.is_empty();
    let last: Vec<_> = at_zero.iter().rev().take(10).collect();
    ensure!(last.len() == 10 && last.iter().all(|response| answered(response)), "{name} at zero: {last:?}");

    send_one_request(&url, namespace).await.with_context(|| format!("another request of {name}"))?;
    until_replicas(namespace, name, |n| n >= 1, Duration::from_secs(1)).await?;
    Ok(())
}
