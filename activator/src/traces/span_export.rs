//! Exports spans in batches, from a bounded queue.
//!
//! ```text
//! SpanQueue ─► at most 512 traces ─► SpanExport: one batch a second ─► collector
//! ```
//!
//! One batch is sent at a time. While the collector does not respond, the queue fills, and further
//! traces are dropped: together at most a few MiB.

use std::time::Duration;

use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::metrics::traces::TraceMetrics;

/// Traces that wait for the export.
const MAX_TRACES: usize = 512;
/// Spans of one batch: the default of the specification.
const MAX_BATCH: usize = 512;
/// How long a trace waits for others to be sent with it.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// For one batch, with its retries: the default of the specification.
pub(super) const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// For the rest of the queue, when the process stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Takes the spans of requests.
#[derive(Debug)]
pub struct SpanQueue {
    traces: mpsc::Sender<Vec<SpanData>>,
    metrics: TraceMetrics,
}

/// Sends the spans of a queue to a collector.
#[derive(Debug)]
pub struct SpanExport {
    traces: mpsc::Receiver<Vec<SpanData>>,
    exporter: SpanExporter,
    metrics: TraceMetrics,
    /// Whether the last batch failed.
    is_failing: bool,
}

/// A queue, and the task that empties it.
pub fn channel(exporter: SpanExporter, metrics: TraceMetrics) -> (SpanQueue, SpanExport) {
    let (sender, receiver) = mpsc::channel(MAX_TRACES);
    let queue = SpanQueue { traces: sender, metrics: metrics.clone() };
    (queue, SpanExport { traces: receiver, exporter, metrics, is_failing: false })
}

// === impl SpanQueue ===

impl SpanQueue {
    /// Queues the spans of one trace, or drops them.
    pub fn put(&self, spans: Vec<SpanData>) {
        let count = spans.len();
        if self.traces.try_send(spans).is_err() {
            self.metrics.dropped(count);
        }
    }
}

// === impl SpanExport ===

impl SpanExport {
    /// Exports until `stop`, then what is in the queue.
    pub async fn run(mut self, stop: CancellationToken) {
        let latest_end = async {
            stop.cancelled().await;
            sleep(FLUSH_TIMEOUT).await;
        };
        tokio::select! {
            () = self.export_all(&stop) => {}
            () = latest_end => tracing::warn!("spans not exported before the end"),
        }
    }

    async fn export_all(&mut self, stop: &CancellationToken) {
        loop {
            let batch = self.next_batch(stop).await;
            if batch.is_empty() {
                return;
            }
            self.export(batch).await;
        }
    }

    /// Empty only after `stop`.
    async fn next_batch(&mut self, stop: &CancellationToken) -> Vec<SpanData> {
        let mut batch = tokio::select! {
            biased;
            Some(trace) = self.traces.recv() => trace,
            () = stop.cancelled() => return Vec::new(),
        };
        tokio::select! {
            () = sleep(BATCH_DELAY) => {}
            () = stop.cancelled() => {}
        }
        while batch.len() < MAX_BATCH
            && let Ok(trace) = self.traces.try_recv()
        {
            batch.extend(trace);
        }
        batch
    }

    async fn export(&mut self, batch: Vec<SpanData>) {
        let count = batch.len();
        let error = match timeout(EXPORT_TIMEOUT, self.exporter.export(batch)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some(format!("no response within {EXPORT_TIMEOUT:?}")),
        };
        // A log line for each batch would be one a second.
        match &error {
            None if self.is_failing => tracing::info!("export of spans recovered"),
            Some(error) if !self.is_failing => tracing::warn!(%error, "export of spans failed, continuing"),
            _ => {}
        }
        self.is_failing = error.is_some();
        self.metrics.exported(count, error.is_none());
    }
}
