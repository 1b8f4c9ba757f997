//! The SDK's tracer, with a batch processor between two counters.
//!
//! ```text
//! ended span ─► BoundedProcessor ─► at most 2048 spans ─► CountedExporter ─► collector
//! ```
//!
//! One batch is sent at a time. While the collector does not respond, the queue fills, and further
//! spans are dropped: together a few MiB. The SDK does not count what its queue drops, so the queue
//! is bounded before it is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use opentelemetry::{Context, InstrumentationScope, trace::TracerProvider as _};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider, ShouldSample, Span, SpanData,
    SpanExporter as Exporter, SpanProcessor,
};
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::metrics::traces::TraceMetrics;

/// Spans that wait for the export: the default of the specification.
const MAX_QUEUE: usize = 2048;
/// Spans of one batch: the default of the specification.
const MAX_BATCH: usize = 512;
/// How long a span waits for others to be sent with it.
const BATCH_DELAY: Duration = Duration::from_secs(1);
/// For one batch, with its retries: the default of the specification.
pub(super) const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// For the rest of the queue, when the process stops.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// Exports spans until the process stops.
#[derive(Debug)]
pub struct SpanExport(SdkTracerProvider);

/// Drops and counts spans for which the queue has no place.
#[derive(Debug)]
struct BoundedProcessor {
    batches: BatchSpanProcessor,
    queued: Arc<AtomicUsize>,
    metrics: TraceMetrics,
}

/// Sends batches on the runtime, which the processor's thread does not have, and counts them.
#[derive(Debug)]
struct CountedExporter {
    exporter: Arc<SpanExporter>,
    runtime: Handle,
    queued: Arc<AtomicUsize>,
    metrics: TraceMetrics,
    /// Whether the last batch failed.
    is_failing: AtomicBool,
}

// === impl SpanExport ===

impl SpanExport {
    /// Exports by `exporter`, on the runtime of the caller, the spans that `sampler` admits.
    pub fn start(
        exporter: SpanExporter,
        sampler: impl ShouldSample + 'static,
        metrics: TraceMetrics,
    ) -> Self {
        let queued = Arc::new(AtomicUsize::new(0));
        let exporter = CountedExporter {
            exporter: Arc::new(exporter),
            runtime: Handle::current(),
            queued: queued.clone(),
            metrics: metrics.clone(),
            is_failing: AtomicBool::new(false),
        };
        let config = BatchConfigBuilder::default()
            .with_max_queue_size(MAX_QUEUE)
            .with_max_export_batch_size(MAX_BATCH)
            .with_scheduled_delay(BATCH_DELAY)
            .build();
        let batches = BatchSpanProcessor::builder(exporter).with_batch_config(config).build();
        let processor = BoundedProcessor { batches, queued, metrics };
        Self(SdkTracerProvider::builder().with_sampler(sampler).with_span_processor(processor).build())
    }

    /// Begins spans that are exported.
    pub fn tracer(&self) -> SdkTracer {
        let scope = InstrumentationScope::builder("rouse").with_version(env!("CARGO_PKG_VERSION"));
        self.0.tracer_with_scope(scope.build())
    }

    /// Exports what is in the queue, and ends.
    pub async fn stop(self) {
        let flushed = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(FLUSH_TIMEOUT));
        if !matches!(flushed.await, Ok(Ok(()))) {
            tracing::warn!("spans not exported before the end");
        }
    }
}

// === impl BoundedProcessor ===

impl SpanProcessor for BoundedProcessor {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        let more = |queued| (queued < MAX_QUEUE).then_some(queued + 1);
        match self.queued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => self.batches.on_end(span),
            Err(_) => self.metrics.dropped(),
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.shutdown_with_timeout(timeout)
    }
}

// === impl CountedExporter ===

impl Exporter for CountedExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        self.queued.fetch_sub(count, Ordering::Relaxed);
        let exporter = self.exporter.clone();
        let sent = self.runtime.spawn(async move { timeout(EXPORT_TIMEOUT, exporter.export(batch)).await });
        let result = match sent.await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(OTelSdkError::Timeout(EXPORT_TIMEOUT)),
            Err(error) => Err(OTelSdkError::InternalFailure(error.to_string())),
        };
        // A log line for each batch would be one a second.
        let was_failing = self.is_failing.swap(result.is_err(), Ordering::Relaxed);
        match &result {
            Ok(()) if was_failing => tracing::info!("export of spans recovered"),
            Err(error) if !was_failing => tracing::warn!(%error, "export of spans failed, continuing"),
            _ => {}
        }
        self.metrics.exported(count, result.is_ok());
        result
    }
}
