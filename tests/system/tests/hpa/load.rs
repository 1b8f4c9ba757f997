//! The stock HPA under load, and the panic override ahead of it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use system_tests::cluster::installation::begin_exclusive;
use system_tests::cluster::namespace::{is_ready, pods_of};
use system_tests::timeline::{Change, Timeline};
use system_tests::traffic::load::{self, LONGEST, Load, STEADY_WORK, until_route_programmed};
use system_tests::wait;
use system_tests::workloads::deadlines::POD_START;
use system_tests::workloads::hpa_status::scaling_active;
use system_tests::workloads::workload::{Workload, replicas, state, until_replicas};

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn stock_hpa_keeps_four_pods_under_load_for_four() -> Result<()> {
    let namespace = begin_exclusive("steady").await?;
    // With the default of 200 % a panic would begin at the second pod; here the HPA alone is to
    // scale.
    let workload = Workload { target: "5".to_owned(), ..Workload::new("steady") }
        .annotated("panic-threshold-percentage", "1000");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_route_programmed(&url, &namespace, "steady", POD_START).await?;
    let load = Load::concurrency(&url, 20, STEADY_WORK, LONGEST);
    let mut running = load.start(&namespace).await?;
    until_replicas(&namespace, "steady", |n| n == 4, Duration::from_secs(45)).await?;
    let settled = tokio::time::Instant::now();
    while settled.elapsed() < Duration::from_secs(20) {
        let size = replicas(&namespace, "steady").await?;
        ensure!(
            size == 4,
            "spec.replicas became {size} under a steady load; {}",
            state(&namespace, "steady").await
        );
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let (status, reason, message) = scaling_active(&namespace, "steady").await?;
    ensure!(
        (status.as_str(), reason.as_str()) == ("True", "ValidMetricFound"),
        "ScalingActive: {status} {reason} {message}"
    );
    ensure!(
        message.contains("external metric concurrency"),
        "ScalingActive is about another metric: {message}"
    );
    load::ensure_all_ok(&running.until_now().await?)?;
    drop(running);
    namespace.end().await
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn panic_override_scales_up_a_burst_before_the_hpa() -> Result<()> {
    let namespace = begin_exclusive("panic").await?;
    let workload = Workload { target: "5".to_owned(), ..Workload::new("burst") };
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    wait::until("the first pod", POD_START, || async {
        let pods = pods_of(&namespace, "burst").await?;
        Ok(pods.iter().any(is_ready).then_some(()))
    })
    .await?;
    let mut timeline = Timeline::follow(&namespace, "burst");
    let load = Load::concurrency(&url, 30, Duration::from_millis(200), Duration::from_secs(15));
    let responses = load.run(&namespace).await?;
    load::ensure_all_ok(&responses)?;
    let first = timeline.drain().into_iter().find(|entry| matches!(entry.change, Change::Scaled { .. }));
    let first = first.with_context(|| "no change of spec.replicas under six times the target")?;
    let began = responses.iter().map(|response| response.sent_ms).fold(f64::INFINITY, f64::min);
    println!("burst of 30 requests on one pod for 5: {:?} after {:.0} ms", first.change, first.at_ms - began);
    ensure!(
        matches!(&first.change, Change::Scaled { by: Some(by), .. } if by == "zero-scaler"),
        "the first change was not by the panic override: {:?}",
        first.change
    );
    namespace.end().await
}
