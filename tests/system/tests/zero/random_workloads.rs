//! Random workloads with one fault each, created, slept, woken, changed and deleted under load.
//!
//! No request fails that Kubernetes alone would have served, no target without an owner stays at
//! zero, and each fault is in a condition or an event. The seed and the number are those of `SEED`
//! and `WORKLOADS`: `make random-workloads` has a new seed each time.

mod course;
mod fault;
mod reports;
mod target;

use anyhow::{Context, Result, ensure};
use course::Course;
use futures::{StreamExt, stream};
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::network_policies;
use system_tests::workloads::random::generator::workloads;

/// Workloads at a time: more would exceed two cores.
const AT_A_TIME: usize = 12;
/// Of a run beside other tests.
const SEED: u64 = 2;
const WORKLOADS: usize = 12;

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn random_workloads_with_faults_lose_no_request_and_none_is_left_at_zero() -> Result<()> {
    let (seed, count) = (number("SEED")?.unwrap_or(SEED), number("WORKLOADS")?.unwrap_or(WORKLOADS as u64));
    let again = format!("make random-workloads SEED={seed} WORKLOADS={count}");
    println!("random workloads: {again}");
    let clients = begin_shared("random").await?;
    network_policies::open(&clients).await?;
    let courses = workloads(seed, usize::try_from(count)?).into_iter().map(|workload| {
        let clients = clients.clone();
        async move {
            let summary = format!("{workload:?}");
            let result = Course::run(clients, workload).await;
            result.err().map(|error| format!("{summary}: {error:#}"))
        }
    });
    let failures = stream::iter(courses).buffer_unordered(AT_A_TIME).filter_map(async |failure| {
        failure.iter().for_each(|failure| println!("random workloads: failed: {failure}"));
        failure
    });
    let failures: Vec<_> = failures.collect().await;
    ensure!(failures.is_empty(), "{} of {count} workloads; {again}\n{}", failures.len(), failures.join("\n"));
    clients.end().await
}

fn number(name: &str) -> Result<Option<u64>> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty());
    value.map(|value| value.parse().with_context(|| format!("{name}={value}"))).transpose()
}
