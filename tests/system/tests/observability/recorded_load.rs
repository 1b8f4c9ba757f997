//! `kubectl rouse record` on a live workload: the replay of what it writes decides as the
//! metrics-adapter did meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::scaling::replay::{Replay, TraceLine};
use clap::Parser;
use cli::app;
use cli::args::Cli;
use cli::connection::Session;
use serde_json::Value;
use system_tests::cluster::installation::begin_shared;
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::load::{Load, ensure_all_ok, until_first_response};
use system_tests::traffic::metric::{API, get_json};
use system_tests::workloads::deadlines::POD_START;
use system_tests::workloads::workload::Workload;

const NAME: &str = "recorded";
const RECORDING: &str = "40s";
/// Between two reads of the decisions. The adapter keeps the decisions of half a minute.
const READ_INTERVAL: Duration = Duration::from_secs(5);
/// Of the workload: the replay begins with empty windows, and in a panic that lasts one window.
const WINDOWS: f64 = 15.0;

/// A decision: its pods, averages and whether it panics.
type Decided = (Option<u64>, String, String, u64, bool);

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn replay_of_a_recorded_load_decides_as_the_adapter_did() -> Result<()> {
    let namespace = begin_shared("recorded-load").await?;
    let workload = Workload { target: "3".to_owned(), max_replicas: 3, ..Workload::new(NAME) }
        .annotated("scale-to-zero", "false");
    workload.create(&namespace).await?;
    let url = workload.url(&namespace).await?;
    until_first_response(&url, &namespace, POD_START).await?;
    let (work, length) = (Duration::from_millis(70), Duration::from_secs(22));
    let load = async {
        for clients in [2, 7] {
            let responses = Load::concurrency(&url, clients, work, length).run(&namespace).await?;
            ensure_all_ok(&responses)?;
        }
        Ok(())
    };
    let (trace, live, ()) = tokio::try_join!(record(&namespace), decisions(&namespace), load)?;
    let replayed = replay(&trace)?;
    ensure!(replayed.len() >= 8, "{} decisions in {trace}", replayed.len());
    let is_live = live.windows(replayed.len()).any(|decisions| decisions == replayed);
    ensure!(is_live, "replayed\n{replayed:#?}\nlive\n{live:#?}");
    println!("{} decisions are equal", replayed.len());
    namespace.end().await
}

async fn record(namespace: &TestNamespace) -> Result<String> {
    let cli = Cli::try_parse_from(["kubectl-rouse", "record", NAME, "--for", RECORDING])?;
    let session = Session {
        client: namespace.client.clone(),
        namespace: namespace.name.clone(),
        only_namespace: None,
        system_namespace: "rouse-system".to_owned(),
    };
    let mut out = Vec::new();
    app::execute(&cli.command, &session, cli.output, &mut out).await?;
    Ok(String::from_utf8(out)?)
}

/// The decisions while the load is recorded, and some before and after it.
async fn decisions(namespace: &TestNamespace) -> Result<Vec<Decided>> {
    let path = format!("{API}/namespaces/{}/why/{NAME}", namespace.name);
    let mut decisions = BTreeMap::new();
    for _ in 0..10 {
        let why = get_json(&namespace.client, &path).await?;
        for decision in why.get("decisions").and_then(Value::as_array).context("no decisions")? {
            let at = decision.get("at").and_then(Value::as_str).context("no time")?;
            // Without the Z, a time without fraction sorts before those with one.
            decisions.insert(at.trim_end_matches('Z').to_owned(), decided(decision)?);
        }
        tokio::time::sleep(READ_INTERVAL).await;
    }
    Ok(decisions.into_values().collect())
}

fn decided(decision: &Value) -> Result<Decided> {
    let average = |name: &str| decision.get(name).and_then(Value::as_f64).map(text).unwrap_or_default();
    let ready = decision.get("ready").and_then(Value::as_u64).context("no ready pods")?;
    let panicking = decision.get("panicking").and_then(Value::as_bool).unwrap_or_default();
    let desired = decision.get("desired").and_then(Value::as_u64);
    Ok((desired, average("stable"), average("panic"), ready, panicking))
}

/// The decisions of the replay, without the decisions of the first windows.
fn replay(trace: &str) -> Result<Vec<Decided>> {
    let mut replay = Replay::new();
    let mut decisions = Vec::new();
    for line in trace.lines() {
        let line: TraceLine = serde_json::from_str(line).with_context(|| line.to_owned())?;
        let Some(decision) = replay.take(line)? else { continue };
        if decision.t > WINDOWS {
            let result = decision.result;
            let average = |pick: fn(autoscaler::stats::collection::WindowAverages) -> f64| {
                result.map(|result| text(pick(result.averages))).unwrap_or_default()
            };
            decisions.push((
                result.map(|result| u64::from(result.desired)),
                average(|averages| averages.stable),
                average(|averages| averages.panic),
                u64::from(decision.ready),
                decision.panicking,
            ));
        }
    }
    Ok(decisions)
}

/// To the digits to which averages are rounded.
fn text(average: f64) -> String {
    format!("{average:.5}")
}
