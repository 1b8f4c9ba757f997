//! `make demo`: one request wakes a plain Deployment without any label; then a Deployment with
//! sidecars goes from zero to four replicas and back, with a timeline of what happens.
//!
//! One request scales it from zero, load makes the stock HPA scale it up, and without requests it
//! returns to zero. No request fails. The last line is the verdict; the exit code is zero if it is
//! ok.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::{PodAutoscaler, ServerlessService, SksMode};
use kube::Client;
use kube::api::Api;
use system_tests::cluster::installation;
use system_tests::cluster::namespace::{TestNamespace, pods_of};
use system_tests::timeline::{Change, Timeline, TimelineEntry, now_ms};
use system_tests::traffic::load::{self, Load, Response};
use system_tests::wait;
use system_tests::workloads::workload::{Sidecar, Workload, replicas};

/// Environment variable with the start of `make demo` in Unix milliseconds.
const STARTED: &str = "ROUSE_DEMO_STARTED_MS";
/// The HPA's target: concurrent requests a pod.
const TARGET: u32 = 5;
/// Pods that the load needs.
const PODS: i32 = 4;
/// Duration of the load: longer than the window and two of the stock HPA's 15 s periods.
const LOAD: Duration = Duration::from_secs(50);

#[tokio::main]
async fn main() -> std::process::ExitCode {
    match Demo::run().await {
        Ok(verdict) => {
            println!("\nverdict: ok. {verdict}");
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            println!("\nverdict: FAILED. {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

struct Demo {
    namespace: TestNamespace,
    workload: Workload,
    url: String,
    timeline: Timeline,
    began_ms: f64,
    requests: usize,
}

impl Demo {
    async fn run() -> Result<String> {
        let began_ms = std::env::var(STARTED).ok().and_then(|ms| ms.parse().ok()).unwrap_or_else(now_ms);
        let namespace = begin(began_ms).await?;
        heading("without a sidecar: one request to a plain Deployment at 0 replicas");
        let mut plain = Self::apply(&namespace, plain(), began_ms).await?;
        let held = plain.scale_from_zero().await?;
        heading("with a sidecar: one request to a Deployment at 0 replicas");
        let mut demo = Self::apply(&namespace, with_sidecar(), began_ms).await?;
        demo.requests = plain.requests;
        demo.scale_from_zero().await?;
        demo.scale_up().await?;
        demo.scale_to_zero().await?;
        Ok(format!(
            "{} requests, 0 failed. The first request was held at zero and got its response after {held:.0} ms. The stock \
             HPA scaled to {PODS} pods under load. Without requests the Deployment went back to zero.",
            demo.requests
        ))
    }

    /// Applies a workload at zero replicas.
    async fn apply(namespace: &TestNamespace, workload: Workload, began_ms: f64) -> Result<Self> {
        let namespace = namespace.clone();
        let timeline = Timeline::follow(&namespace, &workload.name);
        workload.create(&namespace).await?;
        let url = workload.url(&namespace).await?;
        let name = &workload.name;
        print(
            began_ms,
            &format!("applied Deployment, Service and HPA \"{name}\"; the Deployment has 0 replicas"),
        );
        let demo = Self { namespace, workload, url, timeline, began_ms, requests: 0 };
        demo.until_mode(SksMode::Proxy, Duration::from_secs(30)).await?;
        demo.print_state().await?;
        Ok(demo)
    }

    /// Sends one request to the workload at zero and prints where its time went.
    async fn scale_from_zero(&mut self) -> Result<f64> {
        self.timeline.drain();
        print(
            self.began_ms,
            &format!(
                "sending the first request, {:.1} s after the start",
                (now_ms() - self.began_ms) / 1000.0
            ),
        );
        let response = load::send_one_request(&self.url, &self.namespace).await?;
        self.requests += 1;
        self.until_pod_ready().await;
        print_wake(&response, &self.timeline.drain());
        Ok(response.ms)
    }

    /// The pod becomes Ready after the response, and its watch event belongs to the timeline.
    async fn until_pod_ready(&self) {
        let ready = || async {
            let pods = pods_of(&self.namespace, &self.workload.name).await?;
            Ok(pods.iter().any(system_tests::cluster::namespace::is_ready).then_some(()))
        };
        if let Err(error) = wait::until("the pod to be ready", Duration::from_secs(15), ready).await {
            print(self.began_ms, &format!("{error:#}"));
        }
    }

    /// Sends the load of four pods.
    async fn scale_up(&mut self) -> Result<()> {
        let clients = TARGET * PODS.unsigned_abs();
        heading(&format!(
            "scale up: {clients} concurrent requests with a target of {TARGET} a pod; the stock HPA scales to {PODS}"
        ));
        let load = Load::concurrency(&self.url, clients, Duration::from_millis(200), LOAD);
        let running = load.start(&self.namespace).await?;
        let finished = tokio::spawn(running.finish());
        let mut progress = tokio::time::interval(Duration::from_secs(5));
        while !finished.is_finished() {
            tokio::select! {
                entry = self.timeline.next() => print_entry(self.began_ms, &entry?),
                _ = progress.tick() => self.print_progress().await?,
            }
        }
        let responses = finished.await??;
        self.requests += responses.len();
        load::ensure_all_ok(&responses)?;
        let size = replicas(&self.namespace, &self.workload.name).await?;
        let latencies: Vec<f64> = responses.iter().map(|response| response.ms).collect();
        print(
            self.began_ms,
            &format!(
                "{} requests, all with status 200; latency p50 {:.0} ms, p99 {:.0} ms, of which the app takes 200 ms",
                responses.len(),
                load::quantile(&latencies, 0.5),
                load::quantile(&latencies, 0.99)
            ),
        );
        ensure!(size == PODS, "the load needs {PODS} pods, but spec.replicas at its end is {size}");
        Ok(())
    }

    /// Waits for zero, and sends requests at the moments at which one could get lost.
    async fn scale_to_zero(&mut self) -> Result<()> {
        heading("scale to zero: no load; short bursts when the route changes and when the last pod stops");
        let end = tokio::time::Instant::now() + Duration::from_secs(240);
        let mut moments =
            ["the route changed to the activators", "the last pod was scaled down"].into_iter().peekable();
        let mut bursts = tokio::task::JoinSet::new();
        loop {
            let entry = tokio::time::timeout_at(end, self.timeline.next())
                .await
                .context("the workload is not at zero after 4 minutes without load")??;
            print_entry(self.began_ms, &entry);
            let is_moment = match (&entry.change, moments.len()) {
                (Change::RouteChanged { mode: SksMode::Proxy, .. }, 2) => true,
                (Change::Scaled { replicas: 0, .. }, 1) => true,
                (Change::Scaled { replicas: 0, .. }, 0) => break,
                _ => false,
            };
            if let Some(moment) = moments.next_if(|_| is_moment) {
                let (namespace, url, began_ms) = (self.namespace.clone(), self.url.clone(), self.began_ms);
                bursts.spawn(async move { send_burst(&namespace, &url, began_ms, moment).await });
            }
        }
        while let Some(requests) = bursts.join_next().await {
            self.requests += requests??;
        }
        self.print_state().await
    }

    async fn until_mode(&self, mode: SksMode, deadline: Duration) -> Result<()> {
        let services: Api<ServerlessService> = self.namespace.api();
        wait::until(&format!("mode {mode:?}"), deadline, || async {
            let status = services.get(&self.workload.name).await?.status.unwrap_or_default();
            let populated = mode == SksMode::Serve || status.activators > 0;
            Ok((status.mode == Some(mode) && populated).then_some(()))
        })
        .await
    }

    async fn print_progress(&self) -> Result<()> {
        let autoscalers: Api<PodAutoscaler> = self.namespace.api();
        let status = autoscalers.get(&self.workload.name).await?.status.unwrap_or_default();
        let ready = pods_of(&self.namespace, &self.workload.name).await?;
        let ready = ready.iter().filter(|pod| system_tests::cluster::namespace::is_ready(pod)).count();
        let number = |n: Option<i32>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
        print(
            self.began_ms,
            &format!(
                "  replicas {}, ready {ready}, desired by Rouse {}, requests go {}",
                number(status.replicas),
                number(status.desired_replicas),
                route(status.mode.unwrap_or(SksMode::Proxy))
            ),
        );
        Ok(())
    }

    async fn print_state(&self) -> Result<()> {
        let autoscalers: Api<PodAutoscaler> = self.namespace.api();
        let status = autoscalers.get(&self.workload.name).await?.status.unwrap_or_default();
        let active = autoscaler::api::condition(&status.conditions, "Active");
        print(
            self.began_ms,
            &format!(
                "{}: replicas {}, requests go {}, condition Active={} ({})",
                self.workload.name,
                replicas(&self.namespace, &self.workload.name).await?,
                route(status.mode.unwrap_or(SksMode::Proxy)),
                active.map_or("Unknown", |c| c.status.as_str()),
                active.map_or("", |c| c.reason.as_str()),
            ),
        );
        Ok(())
    }
}

/// Creates the namespace, without a workload.
async fn begin(began_ms: f64) -> Result<TestNamespace> {
    let client: Client = component_base::kubernetes::client("demo", env!("CARGO_PKG_VERSION")).await?;
    installation::until_ready(&client, Duration::from_secs(60)).await?;
    print(
        began_ms,
        "Rouse is ready: metrics-adapter, zero-scaler, activator; external.metrics.k8s.io is served",
    );
    installation::set_grace_period(&client, "6s").await?;
    TestNamespace::create(client, "rouse-demo").await
}

fn plain() -> Workload {
    Workload { replicas: 0, sidecar: Sidecar::None, ..Workload::new("plain") }
}

fn with_sidecar() -> Workload {
    Workload { target: TARGET.to_string(), replicas: 0, ..Workload::new("hello") }
        .annotated("window", "10s")
        // No spare capacity: requests go straight to the pods as soon as one is ready, so both
        // routes are shown.
        .annotated("target-burst-capacity", "0")
        // The demo shows the HPA scaling up; with the default of 200 % the panic override would be
        // faster.
        .annotated("panic-threshold-percentage", "1000")
}

/// Sends twenty requests a second for two seconds; returns their number.
async fn send_burst(namespace: &TestNamespace, url: &str, began_ms: f64, moment: &str) -> Result<usize> {
    print(began_ms, &format!("sending 20 requests a second for 2 s, just after {moment}"));
    let responses = Load::rate(url, 20.0, Duration::from_secs(2)).run(namespace).await?;
    load::ensure_all_ok(&responses).with_context(|| format!("requests sent just after {moment}"))?;
    print(began_ms, &format!("{} requests sent just after {moment}, all with status 200", responses.len()));
    Ok(responses.len())
}

fn route(mode: SksMode) -> &'static str {
    match mode {
        SksMode::Proxy => "through activators",
        SksMode::Serve => "straight to pods",
    }
}

fn heading(text: &str) {
    println!("\n── {text}");
}

fn print(began_ms: f64, text: &str) {
    println!("{:8.2} s  {text}", (now_ms() - began_ms) / 1000.0);
}

fn print_entry(began_ms: f64, entry: &TimelineEntry) {
    println!("{:8.2} s  {}", (entry.at_ms - began_ms) / 1000.0, describe(&entry.change));
}

fn describe(change: &Change) -> String {
    match change {
        Change::Scaled { replicas, by: Some(by) } => format!("spec.replicas: {replicas}, written by {by}"),
        Change::Scaled { replicas, by: None } => format!("spec.replicas: {replicas}"),
        Change::EventReported { reason, note } => format!("event {reason}: {note}"),
        Change::PodCreated(pod) => format!("pod {pod}: created"),
        Change::PodScheduled(pod) => format!("pod {pod}: scheduled"),
        Change::PodAddressed(pod) => format!("pod {pod}: has an IP address"),
        Change::PodStarted(pod) => format!("pod {pod}: all containers running"),
        Change::PodReady(pod) => format!("pod {pod}: ready"),
        Change::PodTerminating(pod) => format!("pod {pod}: terminating"),
        Change::RouteChanged { mode: SksMode::Proxy, activators } => {
            format!("route: requests go through activators ({activators}), written by zero-scaler")
        }
        Change::RouteChanged { mode: SksMode::Serve, .. } => {
            "route: requests go straight to the pods, written by zero-scaler".to_owned()
        }
    }
}

/// Prints the scale from zero, in milliseconds after the client sent its request, and its parts.
fn print_wake(response: &Response, entries: &[TimelineEntry]) {
    let mut lines: Vec<(f64, String)> =
        entries.iter().map(|entry| (entry.at_ms - response.sent_ms, describe(&entry.change))).collect();
    lines.push((0.0, "client: request sent".to_owned()));
    lines.push((
        response.ms,
        format!("client: response received, status {} from pod {}", response.status, response.pod),
    ));
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (ms, text) in lines.iter().filter(|(ms, _)| *ms >= 0.0) {
        println!("{ms:10.1} ms  {text}");
    }
    let patched = entries.iter().find(|entry| matches!(entry.change, Change::Scaled { .. }));
    let patched = patched.map_or(f64::NAN, |entry| entry.at_ms - response.sent_ms);
    // The activator measures the parts that no watch shows.
    let [poke, pod, probe, forward] = ["rouse-poke", "rouse-pod", "rouse-probe", "rouse-forward"]
        .map(|part| timing(&response.server_timing, part));
    println!(
        "\n            {:.0} ms in total: {poke:.1} until the activator reported the request, {:.1} until spec.replicas was \
         written,\n            {:.0} until the pod was reachable ({:.0} of them until it had an IP address), {forward:.1} for \
         the request itself",
        response.ms,
        patched - poke,
        pod + probe - patched,
        pod - patched,
    );
}

/// One entry of a Server-Timing header, in milliseconds.
fn timing(header: &str, part: &str) -> f64 {
    let entry = header.split(',').map(str::trim).find_map(|entry| entry.strip_prefix(part));
    entry.and_then(|rest| rest.strip_prefix(";dur=")?.parse().ok()).unwrap_or(f64::NAN)
}
