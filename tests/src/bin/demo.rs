//! `make demo`: the whole loop, told as it happens.
//!
//! A Deployment sleeps at zero, one request wakes it, load makes the stock HPA grow it, silence puts it back to zero; and
//! not one request is lost on the way. The last line is the verdict, and the exit code says the same.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use autoscaler::api::{Mode, PodAutoscaler, ServerlessService};
use kube::Client;
use kube::api::Api;
use system_tests::installation;
use system_tests::load::{self, Answer, Load};
use system_tests::namespace::{TestNamespace, pods_of};
use system_tests::timeline::{Entry, Happening, Timeline, now_ms};
use system_tests::wait;
use system_tests::workload::{Workload, replicas};

/// Environment variable with the Unix milliseconds at which `make demo` began.
const STARTED: &str = "ROUSE_DEMO_STARTED_MS";
/// The HPA's target: concurrent requests a pod.
const TARGET: u32 = 5;
/// Pods that the load is worth.
const PODS: i32 = 4;
/// How long the load lasts: longer than two of the stock HPA's 15 s periods, and the window before them.
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
        let mut demo = Self::prepare(began_ms).await?;
        let held = demo.wake().await?;
        demo.grow().await?;
        demo.sleep().await?;
        Ok(format!(
            "{} requests, 0 failed. The first one was held at zero and answered after {held:.0} ms; the stock HPA held \
             {PODS} pods under a load for {PODS}; silence brought it back to zero.",
            demo.requests
        ))
    }

    /// Installs a sleeping workload.
    async fn prepare(began_ms: f64) -> Result<Self> {
        let client: Client = runtime::kubernetes::client("demo", env!("CARGO_PKG_VERSION")).await?;
        installation::until_ready(&client, Duration::from_secs(60)).await?;
        say(
            began_ms,
            "Rouse is up: metrics-adapter, zero-scaler, activator; external.metrics.k8s.io is served",
        );
        installation::set_grace_period(&client, "6s").await?;
        let namespace = TestNamespace::create(client, "rouse-demo").await?;
        let workload = Workload { target: TARGET.to_string(), replicas: 0, ..Workload::new("hello") }
            .annotated("window", "10s")
            // Direct as soon as there is a pod, so that both ways are seen.
            .annotated("target-burst-capacity", "0")
            // Growth is left to the HPA here; with the stock 200 % the panic override would be quicker than it.
            .annotated("panic-threshold-percentage", "1000");
        let timeline = Timeline::follow(&namespace, &workload.name);
        workload.create(&namespace).await?;
        let url = workload.url(&namespace).await?;
        say(began_ms, "applied Deployment, Service and HPA \"hello\"; the Deployment stands at 0 replicas");
        let demo = Self { namespace, workload, url, timeline, began_ms, requests: 0 };
        demo.until_mode(Mode::Proxy, Duration::from_secs(30)).await?;
        demo.print_state().await?;
        Ok(demo)
    }

    /// Sends one request to the sleeping workload and says where its time went.
    async fn wake(&mut self) -> Result<f64> {
        heading("one request to a workload that sleeps");
        self.timeline.drain();
        say(
            self.began_ms,
            &format!("sent the first request, {:.1} s after the start", (now_ms() - self.began_ms) / 1000.0),
        );
        let answer = load::one_answer(&self.url, &self.namespace).await?;
        self.requests += 1;
        self.settle().await;
        print_wake(&answer, &self.timeline.drain());
        Ok(answer.ms)
    }

    /// Gives the stragglers among the watch events their time: the pod's Ready comes after the answer.
    async fn settle(&self) {
        let ready = || async {
            let pods = pods_of(&self.namespace, &self.workload.name).await?;
            Ok(pods.iter().any(system_tests::namespace::is_ready).then_some(()))
        };
        if let Err(error) = wait::until("the pod to be ready", Duration::from_secs(15), ready).await {
            say(self.began_ms, &format!("{error:#}"));
        }
    }

    /// Loads it with what four pods are for.
    async fn grow(&mut self) -> Result<()> {
        let clients = TARGET * PODS.unsigned_abs();
        heading(&format!("{clients} requests at a time, {TARGET} a pod: the stock HPA is to hold {PODS}"));
        let load = Load::concurrency(&self.url, clients, Duration::from_millis(200), LOAD);
        let running = load.start(&self.namespace).await?;
        let finished = tokio::spawn(running.finish());
        let mut look = tokio::time::interval(Duration::from_secs(5));
        while !finished.is_finished() {
            tokio::select! {
                entry = self.timeline.next() => tell(self.began_ms, &entry?),
                _ = look.tick() => self.print_line().await?,
            }
        }
        let answers = finished.await??;
        self.requests += answers.len();
        load::all_ok(&answers)?;
        let size = replicas(&self.namespace, &self.workload.name).await?;
        let latencies: Vec<f64> = answers.iter().map(|answer| answer.ms).collect();
        say(
            self.began_ms,
            &format!(
                "{} requests, all 200; p50 {:.0} ms, p99 {:.0} ms for 200 ms of work each",
                answers.len(),
                load::quantile(&latencies, 0.5),
                load::quantile(&latencies, 0.99)
            ),
        );
        ensure!(size == PODS, "the load was for {PODS} pods, but the size at its end is {size}");
        Ok(())
    }

    /// Leaves it alone until it sleeps, knocking at the moments at which a request could get lost.
    async fn sleep(&mut self) -> Result<()> {
        heading("silence; a few requests at the very moments of the switch and of the last pod's end");
        let end = tokio::time::Instant::now() + Duration::from_secs(240);
        let mut moments =
            ["the switch to the activators", "the last pod was told to go"].into_iter().peekable();
        let mut knocks = tokio::task::JoinSet::new();
        loop {
            let entry = tokio::time::timeout_at(end, self.timeline.next())
                .await
                .context("the workload is not at zero after 4 minutes of silence")??;
            tell(self.began_ms, &entry);
            let is_moment = match (&entry.what, moments.len()) {
                (Happening::Switched { mode: Mode::Proxy, .. }, 2) => true,
                (Happening::Scaled { replicas: 0, .. }, 1) => true,
                (Happening::Scaled { replicas: 0, .. }, 0) => break,
                _ => false,
            };
            if let Some(moment) = moments.next_if(|_| is_moment) {
                let (namespace, url, began_ms) = (self.namespace.clone(), self.url.clone(), self.began_ms);
                knocks.spawn(async move { knock(&namespace, &url, began_ms, moment).await });
            }
        }
        while let Some(answered) = knocks.join_next().await {
            self.requests += answered??;
        }
        self.print_state().await
    }

    async fn until_mode(&self, mode: Mode, deadline: Duration) -> Result<()> {
        let services: Api<ServerlessService> = self.namespace.api();
        wait::until(&format!("requests to go by {mode:?}"), deadline, || async {
            let status = services.get(&self.workload.name).await?.status.unwrap_or_default();
            let populated = mode == Mode::Serve || status.activators > 0;
            Ok((status.mode == Some(mode) && populated).then_some(()))
        })
        .await
    }

    async fn print_line(&self) -> Result<()> {
        let autoscalers: Api<PodAutoscaler> = self.namespace.api();
        let status = autoscalers.get(&self.workload.name).await?.status.unwrap_or_default();
        let ready = pods_of(&self.namespace, &self.workload.name).await?;
        let ready = ready.iter().filter(|pod| system_tests::namespace::is_ready(pod)).count();
        let shown = |n: Option<i32>| n.map_or_else(|| "?".to_owned(), |n| n.to_string());
        say(
            self.began_ms,
            &format!(
                "  replicas {}, ready {ready}, decider wants {}, requests go by {:?}",
                shown(status.replicas),
                shown(status.desired_replicas),
                status.mode.unwrap_or(Mode::Proxy)
            ),
        );
        Ok(())
    }

    async fn print_state(&self) -> Result<()> {
        let autoscalers: Api<PodAutoscaler> = self.namespace.api();
        let status = autoscalers.get(&self.workload.name).await?.status.unwrap_or_default();
        let active = autoscaler::api::condition(&status.conditions, "Active");
        say(
            self.began_ms,
            &format!(
                "hello: replicas {}, requests go by {:?}, Active={} ({})",
                replicas(&self.namespace, &self.workload.name).await?,
                status.mode.unwrap_or(Mode::Proxy),
                active.map_or("Unknown", |c| c.status.as_str()),
                active.map_or("", |c| c.reason.as_str()),
            ),
        );
        Ok(())
    }
}

/// Twenty requests a second for two seconds; how many there were.
async fn knock(namespace: &TestNamespace, url: &str, began_ms: f64, moment: &str) -> Result<usize> {
    say(began_ms, &format!("20 requests a second for 2 s, just after {moment}"));
    let answers = Load::rate(url, 20.0, Duration::from_secs(2)).run(namespace).await?;
    load::all_ok(&answers).with_context(|| format!("requests sent just after {moment}"))?;
    say(began_ms, &format!("all {} requests sent just after {moment} were answered 200", answers.len()));
    Ok(answers.len())
}

fn heading(text: &str) {
    println!("\n── {text}");
}

fn say(began_ms: f64, text: &str) {
    println!("{:8.2} s  {text}", (now_ms() - began_ms) / 1000.0);
}

fn tell(began_ms: f64, entry: &Entry) {
    println!("{:8.2} s  {}", (entry.at_ms - began_ms) / 1000.0, describe(&entry.what));
}

fn describe(what: &Happening) -> String {
    match what {
        Happening::Scaled { replicas, by: Some(by) } => {
            format!("spec.replicas = {replicas}, written by {by}")
        }
        Happening::Scaled { replicas, by: None } => format!("spec.replicas = {replicas}"),
        Happening::Explained { reason, note } => format!("zero-scaler: {reason}: {note}"),
        Happening::Created(pod) => format!("pod {pod} created"),
        Happening::Scheduled(pod) => format!("pod {pod} has a node"),
        Happening::Addressed(pod) => format!("pod {pod} has an address"),
        Happening::Started(pod) => format!("pod {pod}: all containers run"),
        Happening::Ready(pod) => format!("pod {pod} is ready"),
        Happening::Terminating(pod) => format!("pod {pod} is told to go"),
        Happening::Switched { mode: Mode::Proxy, activators } => {
            format!("requests go through activators ({activators}), written by zero-scaler")
        }
        Happening::Switched { mode: Mode::Serve, .. } => {
            "requests go straight to the pods, written by zero-scaler".to_owned()
        }
    }
}

/// The wake, in milliseconds after the client sent its request, and its parts.
fn print_wake(answer: &Answer, entries: &[Entry]) {
    let mut lines: Vec<(f64, String)> =
        entries.iter().map(|entry| (entry.at_ms - answer.sent_ms, describe(&entry.what))).collect();
    lines.push((0.0, "the client sent its request".to_owned()));
    lines.push((answer.ms, format!("the client has its answer: {} from {}", answer.status, answer.pod)));
    lines.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (ms, text) in lines.iter().filter(|(ms, _)| *ms >= 0.0) {
        println!("{ms:10.1} ms  {text}");
    }
    let patched = entries.iter().find(|entry| matches!(entry.what, Happening::Scaled { .. }));
    let patched = patched.map_or(f64::NAN, |entry| entry.at_ms - answer.sent_ms);
    // The activator's own clock tells the parts that no watch shows.
    let [poke, pod, probe, forward] = ["rouse-poke", "rouse-pod", "rouse-probe", "rouse-forward"]
        .map(|part| timing(&answer.server_timing, part));
    println!(
        "\n            {:.0} ms in all: poke {poke:.1}, patch {:.1}, pod start {:.0} (of which {:.0} until it had an address), \
         forward {forward:.1}",
        answer.ms,
        patched - poke,
        pod + probe - patched,
        pod - patched,
    );
}

/// One part of a Server-Timing header, in milliseconds.
fn timing(header: &str, part: &str) -> f64 {
    let entry = header.split(',').map(str::trim).find_map(|entry| entry.strip_prefix(part));
    entry.and_then(|rest| rest.strip_prefix(";dur=")?.parse().ok()).unwrap_or(f64::NAN)
}
