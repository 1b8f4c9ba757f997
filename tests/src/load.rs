//! Requests sent by the client pod, and their answers as they come.
//!
//! An order goes to the client pod through the API server's pod proxy, and the answers come back on the same connection, one
//! JSON line a request; so a load starts within milliseconds of being asked for, on any cluster.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use autoscaler::contract::{PROBE_ACTIVATOR, PROBE_HEADER};
use futures::{AsyncBufReadExt, StreamExt};
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::namespace::{CLIENT_POD, CLIENT_PORT, TestNamespace};
use crate::wait;

/// Answers that may wait to be looked at.
const ANSWERS: usize = 100_000;

/// How requests are sent.
#[derive(Clone, Copy, Debug)]
pub enum Pace {
    /// So many a second, whatever the answers do.
    Rate(f64),
    /// So many at a time, each sent when the one before was answered.
    Concurrency(u32),
}

/// What to send.
#[derive(Clone, Debug)]
pub struct Load {
    /// Where to.
    pub url: String,
    /// How fast.
    pub pace: Pace,
    /// For how long.
    pub duration: Duration,
    /// Time the app takes for each request.
    pub work: Duration,
    /// Whether each request has a connection of its own.
    pub new_connections: bool,
    /// A header of each request, as `name:value`.
    pub header: Option<String>,
}

/// One request's fate.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub struct Answer {
    /// Unix milliseconds when it was sent.
    pub sent_ms: f64,
    /// Milliseconds until its last byte.
    pub ms: f64,
    /// HTTP status; 0 when there was no answer.
    pub status: u16,
    /// The pod that answered.
    pub pod: String,
    /// Unix milliseconds when that pod's app began; 0 when it did not say.
    pub started_ms: f64,
    /// Why there was no answer.
    pub error: String,
    /// The answer's Server-Timing header.
    pub server_timing: String,
}

/// A load under way.
pub struct Running {
    answers: mpsc::Receiver<Answer>,
    reader: JoinHandle<Result<()>>,
}

// === impl Load ===

impl Load {
    /// One request on a connection of its own.
    pub fn one(url: &str) -> Self {
        Self::rate(url, 1.0, Duration::from_secs(1))
    }

    /// One question whether an activator is behind `url`: it answers itself, and wakes nobody.
    pub fn probe(url: &str) -> Self {
        Self { header: Some(format!("{PROBE_HEADER}:{PROBE_ACTIVATOR}")), ..Self::one(url) }
    }

    /// `rate` requests a second, each on a connection of its own, so that every one of them meets the Service afresh.
    pub fn rate(url: &str, rate: f64, duration: Duration) -> Self {
        Self {
            url: url.to_owned(),
            pace: Pace::Rate(rate),
            duration,
            work: Duration::ZERO,
            new_connections: true,
            header: None,
        }
    }

    /// `clients` requests at any time, each of which takes `work`.
    pub fn concurrency(url: &str, clients: u32, work: Duration, duration: Duration) -> Self {
        Self { pace: Pace::Concurrency(clients), work, ..Self::rate(url, 0.0, duration) }
    }

    /// Starts sending.
    ///
    /// # Errors
    /// When the client pod does not take the order.
    pub async fn start(&self, namespace: &TestNamespace) -> Result<Running> {
        let path = format!(
            "/api/v1/namespaces/{}/pods/{CLIENT_POD}:{CLIENT_PORT}/proxy/send?{}",
            namespace.name,
            self.query()
        );
        let request = http::Request::get(path).body(Vec::<u8>::new())?;
        let lines =
            namespace.client.request_stream(request).await.context("asking the client pod to send")?;
        let (sender, answers) = mpsc::channel(ANSWERS);
        let reader = tokio::spawn(async move {
            let mut lines = std::pin::pin!(lines.lines());
            while let Some(line) = lines.next().await {
                let line = line.context("reading the client pod's answers")?;
                let answer: Answer =
                    serde_json::from_str(&line).with_context(|| format!("the client pod said {line:?}"))?;
                if sender.send(answer).await.is_err() {
                    break;
                }
            }
            Ok(())
        });
        Ok(Running { answers, reader })
    }

    /// Sends it all and returns every answer.
    ///
    /// # Errors
    /// When the client pod fails; failed requests are answers.
    pub async fn run(&self, namespace: &TestNamespace) -> Result<Vec<Answer>> {
        self.start(namespace).await?.finish().await
    }

    fn query(&self) -> String {
        let pace = match self.pace {
            Pace::Rate(rate) => format!("rate={rate}"),
            Pace::Concurrency(clients) => format!("concurrency={clients}"),
        };
        let header = self.header.as_ref().map(|header| format!("&header={header}")).unwrap_or_default();
        format!(
            "url={}&{pace}&seconds={}&work={}&newConnections={}{header}",
            self.url,
            self.duration.as_secs_f64(),
            self.work.as_millis(),
            self.new_connections
        )
    }
}

// === impl Running ===

impl Running {
    /// The next answer; `None` after the last.
    pub async fn next(&mut self) -> Option<Answer> {
        self.answers.recv().await
    }

    /// All answers that are still to come.
    ///
    /// # Errors
    /// When the client pod failed.
    pub async fn finish(mut self) -> Result<Vec<Answer>> {
        let mut all = Vec::new();
        while let Some(answer) = self.next().await {
            all.push(answer);
        }
        self.reader.await??;
        Ok(all)
    }
}

/// Sends one request, which must be answered 200.
///
/// # Errors
/// When it is not.
pub async fn one_answer(url: &str, namespace: &TestNamespace) -> Result<Answer> {
    let answers = Load::one(url).run(namespace).await?;
    all_ok(&answers)?;
    answers.into_iter().next().context("the client pod sent nothing")
}

/// Waits until a workload that was just applied can be reached at all; before that nothing can be lost.
///
/// # Errors
/// After the deadline.
pub async fn until_answered(url: &str, namespace: &TestNamespace, deadline: Duration) -> Result<()> {
    wait::until("the first answer", deadline, || async {
        one_answer(url, namespace).await?;
        Ok(Some(()))
    })
    .await
}

/// Waits until an activator answers at `url`, as for a workload that was applied asleep: kube-proxy may not know it yet.
///
/// # Errors
/// After the deadline.
pub async fn until_activators_answer(url: &str, namespace: &TestNamespace, deadline: Duration) -> Result<()> {
    wait::until("an activator in the path", deadline, || async {
        let answers = Load::probe(url).run(namespace).await?;
        Ok(answers.iter().any(|answer| answer.status == 200).then_some(()))
    })
    .await
}

/// Fails if any request was not answered 200, and says which.
///
/// # Errors
/// On the first such answers.
pub fn all_ok(answers: &[Answer]) -> Result<()> {
    let failed: Vec<_> = answers.iter().filter(|answer| answer.status != 200).collect();
    if answers.is_empty() {
        bail!("no request was sent");
    }
    if !failed.is_empty() {
        bail!("{} of {} requests failed, first of all {:?}", failed.len(), answers.len(), failed.first());
    }
    Ok(())
}

/// The value below which `share` of the latencies lie, in milliseconds.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = ((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(f64::NAN)
}
