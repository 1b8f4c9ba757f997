//! Two hundred HPAs while one metrics-adapter after the other goes: `make test-system`.
//!
//! The load of each comes from two played activators, half from either, so that a replica that does not hear both yet has half
//! of the numbers. The targets have no pods: of a replica that starts anew nothing but its windows says what a size should be.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use autoscaler::Key;
use autoscaler::contract::{API_PORT, METRIC_CONCURRENCY};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Client;
use kube::api::{DeleteParams, ListParams};
use system_tests::installation::{self, begin, leader, of_ours, without_zero_scaler};
use system_tests::metric::{asks_once, of_service};
use system_tests::namespace::TestNamespace;
use system_tests::played_activator::{Load, Loads, PlayedActivator};
use system_tests::target::{KIND_IS_KNOWN, Scaled, Targets};
use system_tests::wait;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const HPAS: usize = 200;
const SIZE: i32 = 5;
/// Four and a half pods of 70.
const LOAD: f64 = 315.0;
/// At and below it four would do.
const SHRINKS: i64 = 280_000;
const WINDOW: Duration = Duration::from_secs(20);
/// A replica has to have full windows before the other one goes, which is what a rolling update waits for.
const APART: Duration = Duration::from_secs(25);
/// Questions at any time, beside those of the HPAs.
const CALLERS: usize = 100;
/// Pause of each between two of them.
const PAUSE: Duration = Duration::from_millis(500);
/// Objects made at a time.
const AT_A_TIME: usize = 32;
/// The lease, and the time until its successor has noticed, on a machine that does other things as well.
const LEASE: Duration = Duration::from_secs(15);
const UP: Duration = Duration::from_secs(90);

/// What callers were answered, until they are stopped.
struct Callers {
    answers: mpsc::UnboundedReceiver<(Instant, Result<i64>)>,
    _tasks: JoinSet<()>,
}

/// What was answered in some time.
#[derive(Debug, Default)]
struct Answers {
    asked: usize,
    failed: usize,
    failure: Option<String>,
    last_failure: Option<Instant>,
    least: Option<i64>,
}

// === impl Callers ===

impl Callers {
    /// Asks for one workload after the other.
    async fn start(namespace: &TestNamespace) -> Result<Self> {
        let namespace = TestNamespace { client: asks_once().await?, ..namespace.clone() };
        // Unbounded: it is emptied after each scene, and losing an answer would be worse.
        let (told, answers) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        for caller in 0..CALLERS {
            let (namespace, told) = (namespace.clone(), told.clone());
            tasks.spawn(async move {
                for workload in (0..HPAS).cycle().skip(caller * HPAS / CALLERS) {
                    let asked = Instant::now();
                    let answer = metric(&namespace, &name(workload)).await;
                    if told.send((asked, answer)).is_err() {
                        return;
                    }
                    sleep(PAUSE).await;
                }
            });
        }
        Ok(Self { answers, _tasks: tasks })
    }

    /// What was asked and answered since the last time.
    fn so_far(&mut self) -> Answers {
        let mut sum = Answers::default();
        while let Ok((at, answer)) = self.answers.try_recv() {
            sum.asked += 1;
            match answer {
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
    of_service(&namespace.client, &namespace.name, METRIC_CONCURRENCY, service).await
}

/// That no HPA was refused an answer. It says so with an event.
async fn nobody_failed(namespace: &TestNamespace, when: &str) -> Result<()> {
    let failed = ListParams::default().fields("reason=FailedGetExternalMetric");
    let events = namespace.api::<Event>().list(&failed).await?.items;
    let first = events.first().and_then(|event| event.message.clone());
    ensure!(events.is_empty(), "{} HPAs were refused {when}, one with {first:?}", events.len());
    Ok(())
}

async fn until_all_follow(namespace: &TestNamespace, deadline: Duration) -> Result<()> {
    wait::until("all HPAs to follow their metric", deadline, || async {
        let all = namespace.api::<HorizontalPodAutoscaler>().list(&ListParams::default()).await?.items;
        let follows = |hpa: &&HorizontalPodAutoscaler| {
            let mut conditions = hpa.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.any(|c| c.type_ == "ScalingActive" && c.status == "True")
        };
        let following = all.iter().filter(follows).count();
        ensure!(following == HPAS, "{following} do");
        Ok(Some(()))
    })
    .await
}

/// Waits until two replicas are ready and have been for long enough to have seen all of a window.
async fn until_both_know(client: &Client) -> Result<()> {
    installation::until_ready(client, UP).await?;
    sleep(APART).await;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: make test-system"]
async fn two_hundred_hpas_keep_their_sizes_while_adapters_go() -> Result<()> {
    let namespace = begin("hand-over").await?;
    without_zero_scaler(&namespace.client, async {
        play(&namespace).await?;
        namespace.delete().await
    })
    .await
}

async fn play(namespace: &TestNamespace) -> Result<()> {
    let client = &namespace.client;
    let targets = Targets::follow(namespace).await?;
    let all: Vec<_> = (0..HPAS).map(|i| Scaled { window: WINDOW, ..Scaled::new(&name(i), SIZE) }).collect();
    stream::iter(all.iter().map(|scaled| targets.create(scaled)))
        .buffer_unordered(AT_A_TIME)
        .try_collect::<()>()
        .await?;
    let loads = Loads::default();
    for workload in 0..HPAS {
        loads.set(Key::new(&namespace.name, name(workload)), &[Load::Concurrency(LOAD / 2.0)]);
    }
    let _activators = ["activator-played-1", "activator-played-2"]
        .map(|name| PlayedActivator::start(client, name, loads.clone()));
    until_known(namespace).await?;
    stream::iter(all.iter().map(|scaled| scaled.create_autoscaler(namespace)))
        .buffer_unordered(AT_A_TIME)
        .try_collect::<()>()
        .await?;
    until_all_follow(namespace, KIND_IS_KNOWN + UP).await?;
    sleep(APART).await;

    let mut callers = Callers::start(namespace).await?;
    for nth in ["first", "second"] {
        // The one that leads is the older one, each time.
        let leads = leader(client, "metrics-adapter").await?;
        of_ours::<Pod>(client).delete(&leads, &DeleteParams::default()).await?;
        until_it_says_so(client, &leads).await?;
        until_other_leads(client, &leads).await?;
        until_both_know(client).await?;
        let answers = callers.so_far();
        println!("a clean end of the {nth}: {answers:?}");
        ensure!(answers.failed == 0, "questions failed while the {nth} ended cleanly: {answers:?}");
        answers.shrink_nothing()?;
        nobody_failed(namespace, "while an adapter ended cleanly").await?;
    }

    let leads = leader(client, "metrics-adapter").await?;
    let killed = Instant::now();
    installation::kill(client, &leads).await?;
    until_both_know(client).await?;
    until_all_follow(namespace, UP).await?;
    let answers = callers.so_far();
    let outage = answers.last_failure.map_or(Duration::ZERO, |at| at.saturating_duration_since(killed));
    println!("{leads} killed: {answers:?}, the last failure {:.1} s after", outage.as_secs_f64());
    answers.shrink_nothing()?;
    ensure!(outage <= LEASE, "questions failed for {outage:?}, longer than a lease");
    let changed = targets.changed();
    ensure!(changed.is_empty(), "{} sizes changed, one by {:?}", changed.len(), changed.first());
    Ok(())
}

/// Waits until both activators are heard of every workload.
async fn until_known(namespace: &TestNamespace) -> Result<()> {
    for workload in 0..HPAS {
        wait::until(&format!("the metric of {}", name(workload)), UP, || async {
            let milli = metric(namespace, &name(workload)).await?;
            ensure!(milli > SHRINKS, "it is {milli}m");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}

/// Waits until a replica says that it is not ready any more; it still serves then.
async fn until_it_says_so(client: &Client, pod: &str) -> Result<()> {
    let path =
        format!("/api/v1/namespaces/{}/pods/https:{pod}:{API_PORT}/proxy/readyz", installation::NAMESPACE);
    wait::until(&format!("{pod} to say that it ends"), UP, || async {
        match client.request_text(http::Request::get(&path).body(Vec::new())?).await {
            Err(kube::Error::Api(status)) if status.code == 500 => Ok(Some(())),
            Err(kube::Error::Api(status)) if status.code == 404 => bail!("it is gone, and said nothing"),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(None),
        }
    })
    .await
}

async fn until_other_leads(client: &Client, than: &str) -> Result<()> {
    wait::until("another adapter to lead", UP, || async {
        if leader(client, "metrics-adapter").await? == than {
            bail!("{than} still does");
        }
        Ok(Some(()))
    })
    .await
}

// === impl Answers ===

impl Answers {
    fn shrink_nothing(&self) -> Result<()> {
        let least = self.least.context("nothing was answered")?;
        ensure!(least > SHRINKS, "{least}m would take a pod away: {self:?}");
        Ok(())
    }
}
