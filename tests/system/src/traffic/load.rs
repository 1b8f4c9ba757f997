//! Requests sent by the client pod, and their results as a stream.
//!
//! A command goes to the client pod through the API server's pod proxy. The results come back on
//! the same connection, one line of JSON for each request. A load thus starts within milliseconds,
//! on any cluster. On a cluster of the cluster tool it can also come from the node, for tests in
//! which the API server is lost.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use autoscaler::api::SksMode;
use autoscaler::contract::{PROBE_ACTIVATOR, PROBE_HEADER};
use futures::{AsyncBufReadExt, Stream, StreamExt, stream};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::cluster::cluster_tool::cluster_tool;
use crate::cluster::namespace::{CLIENT_POD, CLIENT_PORT, TestNamespace};
use crate::timeline::now_ms;
use crate::wait;
use crate::workloads::workload::{Workload, until_mode};

/// Results that may wait to be read.
const RESULTS: usize = 100_000;
/// Longer than activators hold requests.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The duration of a load that a test ends, by dropping it: longer than each test.
pub const LONGEST: Duration = Duration::from_secs(1200);

/// The work of each request where a test compares a size with the concurrency. It is long beside a
/// connection's begin on a busy machine, in which the client has no request in flight: at 100 ms,
/// four pods that start at once took a third of the concurrency.
pub const STEADY_WORK: Duration = Duration::from_secs(1);

/// How requests are sent.
#[derive(Clone, Copy, Debug)]
pub enum LoadShape {
    /// Requests a second, however long responses take.
    Rate(f64),
    /// Clients; each sends its next request after the response to its last.
    Concurrency(u32),
}

/// What to send.
#[derive(Clone, Debug)]
pub struct Load {
    /// The URL of all requests.
    pub url: String,
    /// Rate or concurrency.
    pub shape: LoadShape,
    /// For how long requests are sent.
    pub duration: Duration,
    /// Time the app takes for each request.
    pub work: Duration,
    /// Whether each request opens a connection of its own.
    pub new_connections: bool,
    /// Whether they are calls of gRPC. A call is a stream for as long as its work takes.
    pub grpc: bool,
    /// A header of each request, as `name:value`.
    pub header: Option<String>,
    /// Time after which a request without a response has failed.
    pub timeout: Duration,
}

/// The result of one request, as the client pod reports it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub struct Response {
    /// Unix milliseconds when the request was sent.
    pub sent_ms: f64,
    /// Milliseconds until the last byte of the response.
    pub ms: f64,
    /// HTTP status; 0 without a response.
    pub status: u16,
    /// The pod that sent the response.
    pub pod: String,
    /// Unix milliseconds when that pod's app started; 0 if the response has no such header.
    pub started_ms: f64,
    /// Requests that the app served when this one arrived, itself included; 0 if the response has
    /// no such header.
    pub concurrent: usize,
    /// Milliseconds without any request at the app before this one; `None` if another one ran, or
    /// none was before it.
    pub idle_ms: Option<f64>,
    /// Why there was no response.
    pub error: String,
    /// The response's Server-Timing header.
    pub server_timing: String,
}

/// A load that is being sent.
pub struct RunningLoad {
    results: mpsc::Receiver<Response>,
    reader: JoinHandle<Result<()>>,
}

// === impl Load ===

impl Load {
    /// One request on a connection of its own.
    pub fn one_request(url: &str) -> Self {
        Self::rate(url, 1.0, Duration::from_secs(1))
    }

    /// One activator path probe: an activator responds to it by itself and wakes no workload.
    pub fn probe(url: &str) -> Self {
        Self { header: Some(format!("{PROBE_HEADER}:{PROBE_ACTIVATOR}")), ..Self::one_request(url) }
    }

    /// `rate` requests a second, each on a new connection, so that kube-proxy routes each of them
    /// anew.
    pub fn rate(url: &str, rate: f64, duration: Duration) -> Self {
        Self {
            url: url.to_owned(),
            shape: LoadShape::Rate(rate),
            duration,
            work: Duration::ZERO,
            new_connections: true,
            grpc: false,
            header: None,
            timeout: TIMEOUT,
        }
    }

    /// `clients` requests at a time, each of which takes `work`.
    pub fn concurrency(url: &str, clients: u32, work: Duration, duration: Duration) -> Self {
        Self { shape: LoadShape::Concurrency(clients), work, ..Self::rate(url, 0.0, duration) }
    }

    /// Starts sending.
    ///
    /// # Errors
    /// When the client pod rejects the command.
    pub async fn start(&self, namespace: &TestNamespace) -> Result<RunningLoad> {
        let path = format!(
            "/api/v1/namespaces/{}/pods/{CLIENT_POD}:{CLIENT_PORT}/proxy/send?{}",
            namespace.name,
            self.query()
        );
        let request = http::Request::get(path).body(Vec::<u8>::new())?;
        let lines =
            namespace.client.request_stream(request).await.context("starting a load on the client pod")?;
        Ok(RunningLoad::read(lines.lines().map(|line| line.context("reading the client pod's results"))))
    }

    /// Starts sending, by a request of the node to the client pod at `address`. For clusters of the
    /// cluster tool.
    ///
    /// # Errors
    /// When no such request can be sent. A client pod that rejects the command is an error of the
    /// load.
    pub fn start_from_node(&self, address: IpAddr) -> Result<RunningLoad> {
        let url = format!("http://{address}:{CLIENT_PORT}/send?{}", self.query());
        let mut curl = Command::from(cluster_tool()?)
            .args(["exec", "--", "curl", "--silent", "--show-error", "--no-buffer", "--globoff", &url])
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = curl.stdout.take().context("curl has no output")?;
        let lines =
            stream::try_unfold((BufReader::new(output).lines(), curl), async |(mut lines, mut curl)| {
                if let Some(line) = lines.next_line().await? {
                    return Ok(Some((line, (lines, curl))));
                }
                let ended = curl.wait().await?;
                ensure!(ended.success(), "the node's request to the client pod: {ended}");
                Ok(None)
            });
        Ok(RunningLoad::read(lines))
    }

    /// Sends the whole load and returns all results.
    ///
    /// # Errors
    /// When the client pod fails; a failed request is a result.
    pub async fn run(&self, namespace: &TestNamespace) -> Result<Vec<Response>> {
        self.start(namespace).await?.finish().await
    }

    fn query(&self) -> String {
        let shape = match self.shape {
            LoadShape::Rate(rate) => format!("rate={rate}"),
            LoadShape::Concurrency(clients) => format!("concurrency={clients}"),
        };
        let header = self.header.as_ref().map(|header| format!("&header={header}")).unwrap_or_default();
        format!(
            "url={}&{shape}&seconds={}&work={}&newConnections={}&grpc={}&timeout={}{header}",
            self.url,
            self.duration.as_secs_f64(),
            self.work.as_millis(),
            self.new_connections,
            self.grpc,
            self.timeout.as_secs_f64(),
        )
    }
}

// === impl RunningLoad ===

impl RunningLoad {
    /// Reads the results of a client pod.
    fn read(lines: impl Stream<Item = Result<String>> + Send + 'static) -> Self {
        let (sender, results) = mpsc::channel(RESULTS);
        let reader = tokio::spawn(async move {
            let mut lines = std::pin::pin!(lines);
            while let Some(line) = lines.next().await {
                let line = line?;
                let result: Response =
                    serde_json::from_str(&line).with_context(|| format!("the client pod sent {line:?}"))?;
                if sender.send(result).await.is_err() {
                    break;
                }
            }
            Ok(())
        });
        Self { results, reader }
    }

    /// The next result; `None` after the last.
    pub async fn next(&mut self) -> Option<Response> {
        self.results.recv().await
    }

    /// All results of requests that were sent before this call, and some after.
    ///
    /// # Errors
    /// When the load has ended.
    pub async fn until_now(&mut self) -> Result<Vec<Response>> {
        let now = now_ms();
        let mut responses: Vec<Response> = Vec::new();
        while responses.last().is_none_or(|last| last.sent_ms < now) {
            responses.push(self.next().await.context("the load ended early")?);
        }
        Ok(responses)
    }

    /// All results that are still to come.
    ///
    /// # Errors
    /// When the client pod failed.
    pub async fn finish(mut self) -> Result<Vec<Response>> {
        let mut all = Vec::new();
        while let Some(result) = self.next().await {
            all.push(result);
        }
        self.reader.await??;
        Ok(all)
    }
}

/// Sends one request.
///
/// # Errors
/// When the response is not 200.
pub async fn send_one_request(url: &str, namespace: &TestNamespace) -> Result<Response> {
    let responses = Load::one_request(url).run(namespace).await?;
    ensure_all_ok(&responses)?;
    responses.into_iter().next().context("the client pod sent nothing")
}

/// Waits until a workload that was just applied returns a 200. Requests before that may be refused:
/// kube-proxy has not programmed the Service yet.
///
/// # Errors
/// After the deadline.
pub async fn until_first_response(url: &str, namespace: &TestNamespace, deadline: Duration) -> Result<()> {
    wait::until_at(wait::REQUEST_INTERVAL, "the first response", deadline, || async {
        send_one_request(url, namespace).await?;
        Ok(Some(()))
    })
    .await
}

/// Waits until an activator responds at `url`. For a workload that was applied at zero replicas:
/// kube-proxy may not have programmed its Service yet.
///
/// # Errors
/// After the deadline.
pub async fn until_activators_respond(
    url: &str,
    namespace: &TestNamespace,
    deadline: Duration,
) -> Result<()> {
    wait::until_at(wait::REQUEST_INTERVAL, "an activator in the path", deadline, || async {
        let responses = Load::probe(url).run(namespace).await?;
        Ok(responses.iter().any(|response| response.status == 200).then_some(()))
    })
    .await
}

/// Waits until a new workload's Service routes to activators. Its EndpointSlices list them at once,
/// but kube-proxy may not have programmed them yet, and refuses connections to a Service without
/// endpoints. Any response counts, because pods may have taken over meanwhile.
///
/// # Errors
/// After the deadline.
pub async fn until_route_programmed(
    url: &str,
    namespace: &TestNamespace,
    name: &str,
    deadline: Duration,
) -> Result<()> {
    until_mode(namespace, name, SksMode::Proxy).await?;
    wait::until_at(wait::REQUEST_INTERVAL, "a response through the Service", deadline, || async {
        let responses = Load::probe(url).run(namespace).await?;
        Ok(responses.iter().any(|response| response.status != 0).then_some(()))
    })
    .await
}

/// Applies a workload at zero replicas and waits until activators hold its requests; returns its
/// URL.
///
/// # Errors
/// When the API refuses it, and after the deadline.
pub async fn create_at_zero(
    workload: &Workload,
    namespace: &TestNamespace,
    deadline: Duration,
) -> Result<String> {
    Workload { replicas: 0, ..workload.clone() }.create(namespace).await?;
    let url = workload.url(namespace).await?;
    until_route_programmed(&url, namespace, &workload.name, deadline).await?;
    Ok(url)
}

/// Checks that all requests got a 200.
///
/// # Errors
/// With the first result that is another, and how many failed in which way, when.
pub fn ensure_all_ok(responses: &[Response]) -> Result<()> {
    let failed: Vec<_> = responses.iter().filter(|response| response.status != 200).collect();
    if responses.is_empty() {
        bail!("no request was sent");
    }
    let Some((first, last)) = failed.first().zip(failed.last()) else { return Ok(()) };
    let mut ways = BTreeMap::<_, usize>::new();
    for response in &failed {
        *ways.entry((response.status, &response.pod, &response.error)).or_default() += 1;
    }
    bail!(
        "{} of {} requests failed, sent from {:.0} to {:.0}: {ways:?}; the first: {first:?}",
        failed.len(),
        responses.len(),
        first.sent_ms,
        last.sent_ms
    );
}

/// The value below which this share of the values lies.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = ((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(f64::NAN)
}
