//! Two hundred HPAs while the metrics-adapters are replaced one after the other.
//!
//! Two simulated activators report half of each load, so an adapter that receives only one report
//! has half of the value. The targets have no pods, so a restarted adapter can compute a size only
//! from its windows.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use autoscaler::Key;
use autoscaler::contract::{API_PORT, METRIC_CONCURRENCY};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Client;
use kube::api::{DeleteParams, ListParams};
use system_tests::cluster::installation::{
    self, begin_exclusive, leader, system_api, until_other_leads, without_zero_scaler,
};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::traffic::metric::{client_without_retries, service_metric_milli};
use system_tests::traffic::simulated_activator::{ReportedLoad, ReportedLoads, SimulatedActivator};
use system_tests::wait;
use system_tests::workloads::scale_target::{KIND_DISCOVERY, ScaleTarget, ScaleTargets};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const HPAS: usize = 200;
const SIZE: i32 = 5;
/// The load of 4.5 pods with a target of 70.
const LOAD: f64 = 315.0;
/// Four pods suffice at this value and below, in thousandths.
const SHRINKS: i64 = 280_000;
const WINDOW: Duration = Duration::from_secs(20);
/// A replica needs full windows before the other one stops; a rolling update waits for
/// `minReadySeconds`.
const APART: Duration = Duration::from_secs(25);
/// Number of clients that query metrics, besides the HPAs.
const CLIENTS: usize = 100;
/// Pause of a client between two queries.
const PAUSE: Duration = Duration::from_millis(500);
/// Number of objects created concurrently.
const AT_A_TIME: usize = 32;
/// The lease and the time until its successor notices, on a machine with other load.
const LEASE: Duration = Duration::from_secs(15);
const UP: Duration = Duration::from_secs(90);

/// Clients that query metrics until dropped, and their results.
struct MetricClients {
    responses: mpsc::UnboundedReceiver<(Instant, Result<i64>)>,
    _tasks: JoinSet<()>,
}

/// A summary of results.
#[derive(Debug, Default)]
struct QuerySummary {
    sent: usize,
    failed: usize,
    failure: Option<String>,
    last_failure: Option<Instant>,
    least: Option<i64>,
}

// === impl MetricClients ===

impl MetricClients {
    /// Queries one workload after the other.
    async fn start(namespace: &TestNamespace) -> Result<Self> {
        let namespace = namespace.with_client(client_without_retries().await?);
        // Unbounded: it is drained after each step, and a lost result would falsify the test.
        let (results, responses) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for client in 0..CLIENTS {
            let (namespace, results) = (namespace.clone(), results.clone());
            tasks.spawn(async move {
                for workload in (0..HPAS).cycle().skip(client * HPAS / CLIENTS) {
                    let sent_at = Instant::now();
                    let response = metric(&namespace, &name(workload)).await;
                    if results.send((sent_at, response)).is_err() {
                        return;
                    }
                    sleep(PAUSE).await;
                }
            });
        }
        Ok(Self { responses, _tasks: tasks })
    }

    /// The results since the last call.
    fn drain(&mut self) -> QuerySummary {
        let mut sum = QuerySummary::default();
        while let Ok((at, response)) = self.responses.try_recv() {
            sum.sent += 1;
            match response {
                Ok(milli) => sum.least = Some(sum.least.map_or(milli, |least| least.min(milli))),
                Err(error) => {
                    sum.failed += 1;
                    sum.failure = Some(format!("{error:#}"));
                    sum.last_failure = sum.last_failure.max(Some(at));
                }
            }
        }
        sum
    }
}

fn name(workload: usize) -> String {
    format!("w{workload}")
}

async fn metric(namespace: &TestNamespace, service: &str) -> Result<i64> {
    service_metric_milli(&namespace.client, &namespace.name, METRIC_CONCURRENCY, service).await
}

/// Checks that no HPA failed to get its metric; an HPA reports that by an event.
async fn ensure_no_hpa_failed(namespace: &TestNamespace, when: &str) -> Result<()> {
    let failed = ListParams::default().fields("reason=FailedGetExternalMetric");
    let events = namespace.api::<Event>().list(&failed).await?.items;
    let first = events.first().and_then(|event| event.message.clone());
    ensure!(events.is_empty(), "{} HPAs failed to get their metric {when}, one with {first:?}", events.len());
    Ok(())
}

async fn until_all_hpas_have_metrics(namespace: &TestNamespace, deadline: Duration) -> Result<()> {
    wait::until("all HPAs to have their metric", deadline, || async {
        let all = namespace.api::<HorizontalPodAutoscaler>().list(&ListParams::default()).await?.items;
        let has_metric = |hpa: &&HorizontalPodAutoscaler| {
            let mut conditions = hpa.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.any(|c| c.type_ == "ScalingActive" && c.status == "True")
        };
        let active = all.iter().filter(has_metric).count();
        ensure!(active == HPAS, "{active} of {HPAS} have it");
        Ok(Some(()))
    })
    .await
}

/// Waits until two replicas are ready and have had time to fill their windows.
async fn until_windows_are_full(client: &Client) -> Result<()> {
    installation::until_ready(client, UP).await?;
    sleep(APART).await;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-system"]
async fn sizes_of_200_hpas_stay_while_adapters_are_replaced() -> Result<()> {
    let namespace = begin_exclusive("hand-over").await?;
    without_zero_scaler(&namespace.client, async {
        replace_adapters(&namespace).await?;
        namespace.delete().await
    })
    .await
}

async fn replace_adapters(namespace: &TestNamespace) -> Result<()> {
    let client = &namespace.client;
    let targets = ScaleTargets::follow(namespace).await?;
    let all: Vec<_> =
        (0..HPAS).map(|i| ScaleTarget { window: WINDOW, ..ScaleTarget::new(&name(i), SIZE) }).collect();
    stream::iter(all.iter().map(|scaled| targets.create(scaled)))
        .buffer_unordered(AT_A_TIME)
        .try_collect::<()>()
        .await?;
    let loads = ReportedLoads::default();
    for workload in 0..HPAS {
        loads.set(Key::new(&namespace.name, name(workload)), &[ReportedLoad::Concurrency(LOAD / 2.0)]);
    }
    let _activators = ["activator-simulated-1", "activator-simulated-2"]
        .map(|name| SimulatedActivator::start(client, name, loads.clone()));
    until_metrics_are_complete(namespace).await?;
    stream::iter(all.iter().map(|scaled| scaled.create_hpa(namespace)))
        .buffer_unordered(AT_A_TIME)
        .try_collect::<()>()
        .await?;
    until_all_hpas_have_metrics(namespace, KIND_DISCOVERY + UP).await?;
    sleep(APART).await;

    let mut clients = MetricClients::start(namespace).await?;
    for nth in ["first", "second"] {
        // The leader is the older replica each time.
        let leads = leader(client, "metrics-adapter").await?;
        system_api::<Pod>(client).delete(&leads, &DeleteParams::default()).await?;
        until_not_ready(client, &leads).await?;
        until_other_leads(client, "metrics-adapter", &leads, UP).await?;
        until_windows_are_full(client).await?;
        let responses = clients.drain();
        println!("clean shutdown of the {nth}: {responses:?}");
        ensure!(responses.failed == 0, "queries failed while the {nth} shut down cleanly: {responses:?}");
        responses.ensure_no_scale_down()?;
        ensure_no_hpa_failed(namespace, "while an adapter shut down cleanly").await?;
    }

    let leads = leader(client, "metrics-adapter").await?;
    let killed = Instant::now();
    installation::kill(client, &leads).await?;
    until_windows_are_full(client).await?;
    until_all_hpas_have_metrics(namespace, UP).await?;
    let responses = clients.drain();
    let outage = responses.last_failure.map_or(Duration::ZERO, |at| at.saturating_duration_since(killed));
    println!("{leads} was killed: {responses:?}, the last failure {:.1} s later", outage.as_secs_f64());
    responses.ensure_no_scale_down()?;
    ensure!(outage <= LEASE, "queries failed for {outage:?}, longer than a lease");
    let changed = targets.changed();
    ensure!(changed.is_empty(), "{} sizes changed, one by {:?}", changed.len(), changed.first());
    Ok(())
}

/// Waits until the reports of both activators have arrived for every workload.
async fn until_metrics_are_complete(namespace: &TestNamespace) -> Result<()> {
    for workload in 0..HPAS {
        wait::until(&format!("the metric of {}", name(workload)), UP, || async {
            let milli = metric(namespace, &name(workload)).await?;
            ensure!(milli > SHRINKS, "the metric is {milli}m");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}

/// Waits until a replica reports that it is not ready; it still serves then.
async fn until_not_ready(client: &Client, pod: &str) -> Result<()> {
    let path =
        format!("/api/v1/namespaces/{}/pods/https:{pod}:{API_PORT}/proxy/readyz", installation::NAMESPACE);
    wait::until(&format!("{pod} to report that it is not ready"), UP, || async {
        match client.request_text(http::Request::get(&path).body(Vec::new())?).await {
            Err(kube::Error::Api(status)) if status.code == 500 => Ok(Some(())),
            Err(kube::Error::Api(status)) if status.code == 404 => {
                bail!("it is gone and never reported that")
            }
            Err(error) => Err(error.into()),
            Ok(_) => Ok(None),
        }
    })
    .await
}

// === impl QuerySummary ===

impl QuerySummary {
    fn ensure_no_scale_down(&self) -> Result<()> {
        let least = self.least.context("no query succeeded")?;
        ensure!(least > SHRINKS, "{least}m would remove a pod: {self:?}");
        Ok(())
    }
}
