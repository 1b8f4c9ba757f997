//! Activators are cut off from other parts while they carry requests, calls, websockets and
//! sessions of Redis: those live to their end, longer than a silent activator is due to report, and
//! their workloads sleep afterwards. Other workloads sleep meanwhile.
//!
//! Each row of the table has an activator, and workloads with clients that connect to it directly.
//! One more activator is healthy.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::ServerlessService;
use autoscaler::stats::reporters::DRAIN;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Pod;
use system_tests::cluster::installation::{self, begin_exclusive, leader, ready_pods};
use system_tests::cluster::namespace::TestNamespace;
use system_tests::cluster::packet_filter::{PacketFilter, in_cluster};
use system_tests::traffic::load::{self, Load, RunningLoad, until_activators_respond, until_first_response};
use system_tests::wait;
use system_tests::workloads::deadlines::{POD_START, TO_ZERO};
use system_tests::workloads::workload::{Sidecar, Workload, replicas, until_replicas};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use super::activators::{endpoints, until_in_slices};
use crate::zero::redis::Redis;

/// Longer than the two drains for which a silent activator is due, and shorter than the timeout of
/// the connection to the client pod, which carries nothing meanwhile.
const LASTS: Duration = Duration::from_secs(285);
/// The timeouts of requests without a sidecar, longer than that.
const TIMEOUT: &str = "1h";
/// Activators of an installation.
const ACTIVATORS: i32 = 2;
/// A websocket that is silent for as long as it lasts, and then gets its message back. The app does
/// not check its handshake.
const WEBSOCKET: &str = r"
    printf 'GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n' >&3
    while read -r line <&3 && [ ${#line} -gt 1 ]; do head=$head$line; done
    sleep $LASTS
    echo hello >&3
    read -r line <&3
    echo $head $line";
const WEBSOCKET_RESPONSE: [&str; 2] = ["HTTP/1.1 101 ", " hello\n"];
/// A client of a queue that stays empty. A Redis that was at zero loads its data first.
const QUEUE: &str = r"
    until [[ $line == +PONG* ]]; do
        sleep 0.1
        printf 'PING\r\n' >&3
        read -r line <&3
    done
    printf 'BLPOP queue %s\r\n' $LASTS >&3
    read -r line <&3
    echo $line";
const QUEUE_RESPONSE: [&str; 2] = ["*-1", "\n"];

/// What an activator is cut off from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Adapters,
    LeadingAdapter,
    ZeroScalers,
    LeadingZeroScaler,
    OtherActivators,
    ApiServer,
}

/// One activator, and the names of its workloads.
#[derive(Debug)]
struct Cut {
    from: &'static [Part],
    http: &'static str,
    redis: &'static str,
}

/// In this order they get an activator of the slices: those that leave the slices are first.
const CUTS: [Cut; 7] = [
    Cut { from: &[Part::Adapters], http: "adapters", redis: "adapters-tcp" },
    Cut { from: &[Part::ZeroScalers], http: "scalers", redis: "scalers-tcp" },
    Cut { from: &[Part::LeadingAdapter, Part::LeadingZeroScaler], http: "leaders", redis: "leaders-tcp" },
    Cut {
        from: &[Part::LeadingAdapter, Part::LeadingZeroScaler, Part::ApiServer],
        http: "leaders-api",
        redis: "leaders-api-tcp",
    },
    Cut {
        from: &[Part::Adapters, Part::ZeroScalers, Part::OtherActivators, Part::ApiServer],
        http: "all",
        redis: "all-tcp",
    },
    Cut { from: &[Part::ApiServer], http: "api", redis: "api-tcp" },
    Cut { from: &[Part::OtherActivators], http: "activators", redis: "activators-tcp" },
];

/// A row with its activator.
struct Row {
    cut: &'static Cut,
    /// Address of the activator.
    activator: String,
    /// Whether the activator is in the slices of the workload.
    listed: bool,
}

/// A row that runs.
struct Course {
    row: Row,
    redis: Redis,
    loads: Vec<RunningLoad>,
    websocket: Child,
    queue: Child,
}

#[tokio::test]
#[ignore = "needs a cluster with Rouse: run make test-cuts"]
async fn sessions_through_activators_that_are_cut_off_live_and_their_workloads_sleep() -> Result<()> {
    let namespace = begin_exclusive("silent").await?;
    let client = namespace.client.clone();
    let activators = CUTS.len() + 1;
    installation::scale_component(&client, "activator", i32::try_from(activators)?).await?;
    wait::until("the activators to be ready", POD_START, || async {
        Ok((ready_pods(&client, "activator").await?.len() == activators).then_some(()))
    })
    .await?;
    let addresses = addresses(&namespace, &ready_pods(&client, "activator").await?).await?;
    let databases = try_join_all(CUTS.iter().map(|cut| cut.create(&namespace))).await?;
    let chosen = choose(&namespace, addresses.clone()).await?;
    try_join_all(chosen.iter().map(|row| row.until_it_responds(&namespace))).await?;

    // Last, so that it is not at zero before the cuts.
    plain("idle").create(&namespace).await?;
    let mut courses = Vec::new();
    for (row, redis) in chosen.into_iter().zip(databases) {
        courses.push(row.start(&namespace, redis).await?);
    }
    sleep(Duration::from_secs(2)).await;
    let cut_at = Instant::now();
    let mut filters = Vec::new();
    for course in &courses {
        filters.extend(course.isolate(&namespace, &addresses).await?);
    }
    let is_listed = |course: &&Course| course.row.listed && course.row.cut.is_silent();
    for course in courses.iter().filter(is_listed) {
        let deadline = DRAIN + Duration::from_secs(30);
        until_in_slices(&namespace, course.row.cut.http, &course.row.activator, false, deadline).await?;
    }
    let listed = courses.iter().filter(is_listed).count();
    ensure!(listed > 0, "no silent activator was in the slices of its workload");
    println!("{listed} silent activators left the slices {} s after the cuts", cut_at.elapsed().as_secs());
    until_replicas(&namespace, "idle", |n| n == 0, DRAIN * 2 + TO_ZERO).await?;
    println!("idle was at zero {} s after the cuts", cut_at.elapsed().as_secs());
    for course in &courses {
        let size = replicas(&namespace, course.row.cut.http).await?;
        ensure!(size == 1, "{}: the size is {size}", course.row.cut.http);
    }
    for course in &mut courses {
        course.until_ended().await.with_context(|| course.row.cut.http)?;
    }
    println!("the sessions ended {} s after the cuts", cut_at.elapsed().as_secs());
    // The end of requests is published, or reported when the cut is over.
    let is_published = |cut: &Cut| !cut.is_silent() || !cut.from.contains(&Part::ApiServer);
    for course in courses.iter().filter(|course| is_published(course.row.cut)) {
        course.until_at_zero(&namespace).await?;
    }
    println!("workloads were at zero {} s after the cuts", cut_at.elapsed().as_secs());
    drop(filters);
    for course in &courses {
        course.until_at_zero(&namespace).await?;
        course.redis.delete(&namespace).await?;
    }
    installation::scale_component(&client, "activator", ACTIVATORS).await?;
    namespace.end().await
}

/// Of one pod at most: a second one, beside a node that is late to acknowledge the first, would be
/// followed by a step down, which ends the sessions of whichever pod it takes.
fn plain(name: &str) -> Workload {
    let workload =
        Workload { sidecar: Sidecar::None, target: "100".to_owned(), max_replicas: 1, ..Workload::new(name) };
    workload.annotated("timeout", TIMEOUT).annotated("response-start-timeout", TIMEOUT)
}

/// Gives each row an activator of its own, of the slices of its workload if there are enough.
async fn choose(namespace: &TestNamespace, mut free: Vec<String>) -> Result<Vec<Row>> {
    let mut listed = Vec::new();
    for cut in &CUTS {
        let endpoints = endpoints(namespace, cut.http).await?;
        let position = free.iter().position(|address| endpoints.contains(address));
        listed.push(position.map(|position| free.swap_remove(position)));
    }
    let rows = CUTS.iter().zip(listed).map(|(cut, address)| {
        let listed = address.is_some();
        let activator = address.or_else(|| free.pop()).context("fewer activators than rows")?;
        Ok(Row { cut, activator, listed })
    });
    rows.collect()
}

/// The addresses of pods of Rouse.
async fn addresses(namespace: &TestNamespace, pods: &[String]) -> Result<Vec<String>> {
    try_join_all(pods.iter().map(async |name| {
        let pod: Pod = installation::system_api(&namespace.client).get(name).await?;
        pod.status.and_then(|status| status.pod_ip).with_context(|| format!("{name} has no address"))
    }))
    .await
}

/// The activators' port of a workload.
async fn leased_port(namespace: &TestNamespace, workload: &str) -> Result<u16> {
    wait::until(&format!("a leased port of {workload}"), POD_START, || async {
        let service = namespace.api::<ServerlessService>().get(workload).await?;
        Ok(service.status.and_then(|status| Some(status.ports.first()?.activator_port)))
    })
    .await
}

/// Starts a session on the node, which runs a script of bash with the connection as descriptor 3.
fn session(script: &str, address: &str, port: u16) -> Result<Child> {
    let script = format!("exec 3<>/dev/tcp/{address}/{port}; LASTS={}; {script}", LASTS.as_secs());
    let mut bash = Command::from(in_cluster()?);
    Ok(bash.args(["bash", "-c", &script]).stdout(Stdio::piped()).kill_on_drop(true).spawn()?)
}

async fn ensure_ended(session: &mut Child, [begin, end]: [&str; 2]) -> Result<()> {
    let mut printed = String::new();
    let output = session.stdout.as_mut().context("no output")?;
    output.read_to_string(&mut printed).await?;
    let printed = printed.replace('\r', "");
    ensure!(printed.starts_with(begin) && printed.ends_with(end), "the session printed {printed:?}");
    Ok(())
}

// === impl Cut ===

impl Cut {
    /// Whether a receiver of reports gets none.
    fn is_silent(&self) -> bool {
        self.from.iter().any(|part| !matches!(part, Part::OtherActivators | Part::ApiServer))
    }

    /// Creates its workloads, and waits until they have pods.
    async fn create(&self, namespace: &TestNamespace) -> Result<Redis> {
        let workload = plain(self.http);
        workload.create(namespace).await?;
        let redis = Redis::new(self.redis, false, false)?;
        redis.create(namespace).await?;
        let ip = redis.cluster_ip(namespace).await?;
        redis.set_greeting(namespace, &ip).await?;
        until_first_response(&workload.url(namespace).await?, namespace, POD_START).await?;
        Ok(redis)
    }
}

// === impl Row ===

impl Row {
    async fn url(&self, namespace: &TestNamespace) -> Result<String> {
        Ok(format!("http://{}:{}/", self.activator, leased_port(namespace, self.cut.http).await?))
    }

    async fn until_it_responds(&self, namespace: &TestNamespace) -> Result<()> {
        until_activators_respond(&self.url(namespace).await?, namespace, POD_START).await
    }

    /// Starts its sessions.
    async fn start(self, namespace: &TestNamespace, redis: Redis) -> Result<Course> {
        let url = self.url(namespace).await?;
        // A session that begins in the second in which its workload goes to zero ends with the pod.
        until_first_response(&url, namespace, POD_START).await?;
        until_replicas(namespace, self.cut.http, |n| n == 1, POD_START).await?;
        until_first_response(&url, namespace, POD_START).await?;
        let requests =
            Load { timeout: LASTS * 2, ..Load::concurrency(&url, 1, LASTS, Duration::from_secs(1)) };
        let calls = Load { grpc: true, ..requests.clone() };
        let (http, tcp) = (leased_port(namespace, self.cut.http), leased_port(namespace, self.cut.redis));
        Ok(Course {
            redis,
            loads: vec![requests.start(namespace).await?, calls.start(namespace).await?],
            websocket: session(WEBSOCKET, &self.activator, http.await?)?,
            queue: session(QUEUE, &self.activator, tcp.await?)?,
            row: self,
        })
    }
}

// === impl Course ===

impl Course {
    /// Drops the packets of its activator to the parts of its cut.
    async fn isolate(&self, namespace: &TestNamespace, activators: &[String]) -> Result<Vec<PacketFilter>> {
        let client = &namespace.client;
        let mut cut_off = Vec::new();
        for part in self.row.cut.from {
            cut_off.extend(match part {
                Part::Adapters => addresses(namespace, &ready_pods(client, "metrics-adapter").await?).await?,
                Part::LeadingAdapter => {
                    addresses(namespace, &[leader(client, "metrics-adapter").await?]).await?
                }
                Part::ZeroScalers => addresses(namespace, &ready_pods(client, "zero-scaler").await?).await?,
                Part::LeadingZeroScaler => {
                    addresses(namespace, &[leader(client, "zero-scaler").await?]).await?
                }
                Part::OtherActivators => {
                    activators.iter().filter(|other| **other != self.row.activator).cloned().collect()
                }
                Part::ApiServer => Vec::new(),
            });
        }
        let (table, activator) = (self.row.cut.http.replace('-', "_"), &self.row.activator);
        let mut filters = Vec::new();
        if !cut_off.is_empty() {
            let rule = format!("ip saddr {activator} ip daddr {{ {} }} drop", cut_off.join(", "));
            filters.push(PacketFilter::add(&format!("inet rouse_{table}"), "forward", &rule)?);
        }
        if self.row.cut.from.contains(&Part::ApiServer) {
            let rule = format!("ip saddr {activator} tcp dport 6443 drop");
            filters.push(PacketFilter::add(&format!("inet rouse_{table}_api"), "input", &rule)?);
        }
        Ok(filters)
    }

    async fn until_ended(&mut self) -> Result<()> {
        for load in std::mem::take(&mut self.loads) {
            load::ensure_all_ok(&load.finish().await?)?;
        }
        ensure_ended(&mut self.websocket, WEBSOCKET_RESPONSE).await.context("the websocket")?;
        ensure_ended(&mut self.queue, QUEUE_RESPONSE).await.context("the session of Redis")
    }

    async fn until_at_zero(&self, namespace: &TestNamespace) -> Result<()> {
        until_replicas(namespace, self.row.cut.http, |n| n == 0, TO_ZERO).await?;
        self.redis.until_at_zero(namespace).await
    }
}
