//! What becomes of held requests when the activators that hold them are replaced: `make test-system`.

use std::time::Duration;

use anyhow::Result;
use system_tests::installation;
use system_tests::load::{self, Load, until_activators_answer};
use system_tests::namespace::TestNamespace;
use system_tests::workload::{Workload, until_replicas};

/// Requests that are held.
const HELD: u32 = 500;
/// How long the workload's pod takes to start: long enough for every activator to be told to stop meanwhile.
const START: Duration = Duration::from_secs(10);

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn a_rolling_restart_of_the_activators_loses_no_held_request() -> Result<()> {
    let client = chassis::kubernetes::client("system-tests", env!("CARGO_PKG_VERSION")).await?;
    installation::until_ready(&client, Duration::from_secs(90)).await?;
    let namespace = TestNamespace::create(client.clone(), "rouse-test-restart").await?;
    let workload = Workload { replicas: 0, start: START, target: "100".to_owned(), ..Workload::new("slow") };
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_activators_answer(&namespace, &url).await?;

    // Each of them is sent once: nobody is answered before the last is on its way.
    let held =
        Load::concurrency(&url, HELD, Duration::ZERO, Duration::from_secs(2)).start(&namespace).await?;
    until_replicas(&namespace, "slow", |n| n > 0, Duration::from_secs(10)).await?;
    installation::restart_part(&client, "activator").await?;
    let answers = held.finish().await?;
    load::all_ok(&answers)?;
    anyhow::ensure!(answers.len() >= HELD as usize, "{} requests were sent", answers.len());
    let slowest = answers.iter().map(|answer| answer.ms).fold(0.0, f64::max);
    println!("{} held requests answered, the last after {slowest:.0} ms", answers.len());
    installation::until_ready(&client, Duration::from_secs(150)).await?;
    namespace.delete().await
}
