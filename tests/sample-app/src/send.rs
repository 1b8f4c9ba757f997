//! Sends a load's requests and reports the result of each.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http::header::AsHeaderName;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior};

use crate::grpc;
use crate::load_command::{LoadCommand, LoadShape, MAX_IN_FLIGHT};

/// Maximum size of a response body.
const MAX_BODY: usize = 64 * 1024;

#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RequestResult {
    /// Unix milliseconds when the request was sent.
    sent_ms: f64,
    /// Milliseconds until the last byte of the response.
    ms: f64,
    /// HTTP status; 0 without a response.
    status: u16,
    /// The pod that sent the response.
    pod: String,
    /// Unix milliseconds when that pod's app started; 0 if the response has no such header.
    started_ms: f64,
    /// Requests that the app served when this one arrived; 0 if the response has no such header.
    concurrent: usize,
    /// Milliseconds without any request at the app before this one; `None` if there was another.
    idle_ms: Option<f64>,
    /// Why there was no response.
    error: String,
    /// The response's Server-Timing header.
    server_timing: String,
}

/// Sends from the command line.
pub(crate) async fn print(command: LoadCommand) -> Result<()> {
    let mut results = start(command)?;
    let (mut sent, mut failed) = (0, 0);
    while let Some(result) = results.recv().await {
        sent += 1;
        failed += usize::from(result.status != 200);
        println!("{}", serde_json::to_string(&result)?);
    }
    println!("{}", serde_json::json!({"requests": sent, "not200": failed}));
    Ok(())
}

/// Starts sending. The results end after the last request; dropping the receiver ends the load.
pub(crate) fn start(command: LoadCommand) -> Result<mpsc::Receiver<RequestResult>> {
    let shape = command.shape()?;
    let (results, receiver) = mpsc::channel(1024);
    let sender = Arc::new(Sender::new(&command)?);
    let end = Instant::now() + command.duration();
    match shape {
        LoadShape::Every(interval) => {
            tokio::spawn(open_loop(sender, interval, end, results));
        }
        LoadShape::Clients(clients) => {
            for _ in 0..clients {
                tokio::spawn(closed_loop(sender.clone(), end, results.clone()));
            }
        }
    }
    Ok(receiver)
}

async fn open_loop(
    sender: Arc<Sender>,
    interval: Duration,
    end: Instant,
    results: mpsc::Sender<RequestResult>,
) {
    let in_flight = Arc::new(Semaphore::new(MAX_IN_FLIGHT));
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    loop {
        let tick = ticks.tick().await;
        if results.is_closed() {
            return;
        }
        let Ok(slot) = in_flight.clone().acquire_owned().await else { return };
        let (sender, results) = (sender.clone(), results.clone());
        tokio::spawn(async move {
            // Fails only when the receiver was dropped, which ends the load.
            let _ = results.send(sender.send().await).await;
            drop(slot);
        });
        // Without a pause after the last one, so that a single request takes as long as its
        // response.
        if tick + interval >= end {
            return;
        }
    }
}

async fn closed_loop(sender: Arc<Sender>, end: Instant, results: mpsc::Sender<RequestResult>) {
    while Instant::now() < end {
        if results.send(sender.send().await).await.is_err() {
            return;
        }
    }
}

/// Sends one request after the other.
struct Sender {
    client: Client<HttpConnector, Full<Bytes>>,
    uri: Uri,
    grpc: bool,
    header: Option<(HeaderName, HeaderValue)>,
    timeout: Duration,
}

impl Sender {
    fn new(command: &LoadCommand) -> Result<Self> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let idle = if command.new_connections { 0 } else { MAX_IN_FLIGHT };
        let mut builder = Client::builder(TokioExecutor::new());
        let client = builder.http2_only(command.grpc).pool_max_idle_per_host(idle).build(connector);
        let uri = if command.work > 0 {
            format!("{}?work={}", command.url, command.work).parse()?
        } else {
            command.url.clone()
        };
        let timeout = Duration::try_from_secs_f64(command.timeout)?;
        Ok(Self { client, uri, grpc: command.grpc, header: command.header.clone(), timeout })
    }

    async fn send(&self) -> RequestResult {
        let (sent_ms, began) = (component_base::clock::since_epoch().as_secs_f64() * 1000.0, Instant::now());
        let outcome = tokio::time::timeout(self.timeout, self.exchange()).await;
        let mut result = match outcome {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => RequestResult { error: format!("{error:#}"), ..RequestResult::default() },
            Err(_) => RequestResult {
                error: format!("no response within {:?}", self.timeout),
                ..RequestResult::default()
            },
        };
        result.sent_ms = sent_ms;
        result.ms = began.elapsed().as_secs_f64() * 1000.0;
        result
    }

    async fn exchange(&self) -> Result<RequestResult> {
        let uri = self.uri.clone();
        let mut request =
            if self.grpc { grpc::call(uri)? } else { Request::get(uri).body(Full::default())? };
        request.headers_mut().extend(self.header.clone());
        let (head, body) = self.client.request(request).await?.into_parts();
        let body = Limited::new(body, MAX_BODY).collect().await.map_err(anyhow::Error::from_boxed)?;
        let trailers = body.trailers().cloned();
        let body = body.to_bytes();
        let mut result = RequestResult {
            status: head.status.as_u16(),
            pod: header(&head.headers, crate::serve::POD_HEADER),
            started_ms: header(&head.headers, crate::serve::STARTED_HEADER).parse().unwrap_or_default(),
            concurrent: header(&head.headers, crate::serve::CONCURRENT_HEADER).parse().unwrap_or_default(),
            idle_ms: header(&head.headers, crate::serve::IDLE_HEADER).parse().ok().map(|us: f64| us / 1000.0),
            server_timing: header(&head.headers, "server-timing"),
            ..RequestResult::default()
        };
        if !head.status.is_success() {
            result.error = String::from_utf8_lossy(&body).into_owned();
        } else if self.grpc {
            grpc::check(&body, trailers.as_ref())?;
        }
        Ok(result)
    }
}

fn header(headers: &HeaderMap, name: impl AsHeaderName) -> String {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.collect::<Vec<_>>().join(", ")
}
