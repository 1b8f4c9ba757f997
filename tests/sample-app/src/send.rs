//! Sends an order's requests and tells each one's fate.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde::Serialize;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Instant, MissedTickBehavior};

use crate::order::{MOST_IN_FLIGHT, Order, Pace};

/// Largest answer that is read.
const LARGEST_ANSWER: usize = 64 * 1024;

/// One request's fate.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    /// Unix milliseconds when it was sent.
    sent_ms: f64,
    /// Milliseconds until its last byte.
    ms: f64,
    /// HTTP status; 0 when there was no answer.
    status: u16,
    /// The pod that answered.
    pod: String,
    /// Unix milliseconds when that pod's app began; 0 when it did not say.
    started_ms: f64,
    /// Why there was no answer.
    error: String,
    /// The answer's Server-Timing header.
    server_timing: String,
}

/// Sends from the command line.
pub(crate) async fn print(order: Order) -> Result<()> {
    let mut answers = start(order)?;
    let (mut sent, mut failed) = (0, 0);
    while let Some(answer) = answers.recv().await {
        sent += 1;
        failed += usize::from(answer.status != 200);
        println!("{}", serde_json::to_string(&answer)?);
    }
    println!("{}", serde_json::json!({"requests": sent, "not200": failed}));
    Ok(())
}

/// Starts sending. The answers end when the last request has; dropping them ends the sending.
pub(crate) fn start(order: Order) -> Result<mpsc::Receiver<Answer>> {
    let pace = order.pace()?;
    let (answers, receiver) = mpsc::channel(1024);
    let sender = Arc::new(Sender::new(&order)?);
    let end = Instant::now() + order.duration();
    match pace {
        Pace::Every(interval) => {
            tokio::spawn(open_loop(sender, interval, end, answers));
        }
        Pace::Callers(callers) => {
            for _ in 0..callers {
                tokio::spawn(closed_loop(sender.clone(), end, answers.clone()));
            }
        }
    }
    Ok(receiver)
}

async fn open_loop(sender: Arc<Sender>, interval: Duration, end: Instant, answers: mpsc::Sender<Answer>) {
    let in_flight = Arc::new(Semaphore::new(MOST_IN_FLIGHT));
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    while ticks.tick().await < end && !answers.is_closed() {
        let Ok(slot) = in_flight.clone().acquire_owned().await else { return };
        let (sender, answers) = (sender.clone(), answers.clone());
        tokio::spawn(async move {
            // Nobody listens any more: the order was withdrawn.
            let _ = answers.send(sender.send().await).await;
            drop(slot);
        });
    }
}

async fn closed_loop(sender: Arc<Sender>, end: Instant, answers: mpsc::Sender<Answer>) {
    while Instant::now() < end {
        if answers.send(sender.send().await).await.is_err() {
            return;
        }
    }
}

/// Sends one request after the other.
struct Sender {
    client: Client<HttpConnector, Empty<Bytes>>,
    uri: Uri,
    header: Option<(HeaderName, HeaderValue)>,
    timeout: Duration,
}

impl Sender {
    fn new(order: &Order) -> Result<Self> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let idle = if order.new_connections { 0 } else { MOST_IN_FLIGHT };
        let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(idle).build(connector);
        let uri = if order.work > 0 {
            format!("{}?work={}", order.url, order.work).parse()?
        } else {
            order.url.clone()
        };
        let timeout = Duration::try_from_secs_f64(order.timeout)?;
        Ok(Self { client, uri, header: order.header.clone(), timeout })
    }

    async fn send(&self) -> Answer {
        let (sent_ms, began) = (runtime::clock::since_epoch().as_secs_f64() * 1000.0, Instant::now());
        let outcome = tokio::time::timeout(self.timeout, self.exchange()).await;
        let mut answer = match outcome {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => Answer { error: format!("{error:#}"), ..Answer::default() },
            Err(_) => Answer { error: format!("no answer within {:?}", self.timeout), ..Answer::default() },
        };
        answer.sent_ms = sent_ms;
        answer.ms = began.elapsed().as_secs_f64() * 1000.0;
        answer
    }

    async fn exchange(&self) -> Result<Answer> {
        let mut request = Request::get(self.uri.clone()).body(Empty::new())?;
        request.headers_mut().extend(self.header.clone());
        let (head, body) = self.client.request(request).await?.into_parts();
        let body = Limited::new(body, LARGEST_ANSWER).collect().await.map_err(anyhow::Error::from_boxed)?;
        let mut answer = Answer {
            status: head.status.as_u16(),
            pod: header(&head.headers, crate::serve::POD_HEADER),
            started_ms: header(&head.headers, crate::serve::STARTED_HEADER).parse().unwrap_or_default(),
            server_timing: header(&head.headers, "server-timing"),
            ..Answer::default()
        };
        if !head.status.is_success() {
            answer.error = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        }
        Ok(answer)
    }
}

fn header(headers: &HeaderMap, name: &str) -> String {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.collect::<Vec<_>>().join(", ")
}
