//! TraceSource: the load of a workload, line by line, as the metrics-adapter records it.

use std::time::Duration;

use autoscaler::Key;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::connection::Session;
use crate::error::CommandError;

/// Between two reads. The adapter keeps the lines of a minute.
const INTERVAL: Duration = Duration::from_secs(5);

/// A recording in the metrics-adapter.
pub(super) struct TraceSource<'a> {
    session: &'a Session,
    key: Key,
    recording: Option<String>,
    next: u64,
}

/// A line of a trace, with its time first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Line {
    t: f64,
    #[serde(flatten)]
    event: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct Response {
    recording: String,
    next: u64,
    lines: Vec<Line>,
}

// === impl TraceSource ===

impl<'a> TraceSource<'a> {
    pub(super) fn new(session: &'a Session, key: Key) -> Self {
        Self { session, key, recording: None, next: 0 }
    }

    /// Reads for `duration`, and passes each line to `take`.
    pub(super) async fn read_for(
        &mut self,
        duration: Duration,
        mut take: impl FnMut(&Line) -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let end = tokio::time::Instant::now() + duration;
        loop {
            for line in self.read().await? {
                take(&line)?;
            }
            let left = end.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            tokio::time::sleep(left.min(INTERVAL)).await;
        }
    }

    /// The lines since the last read. The first read starts the recording.
    async fn read(&mut self) -> Result<Vec<Line>, CommandError> {
        let Key { namespace, name } = &self.key;
        let query = match &self.recording {
            Some(recording) => format!("?recording={recording}&from={}", self.next),
            None => String::new(),
        };
        let path =
            format!("/apis/external.metrics.k8s.io/v1beta1/namespaces/{namespace}/trace/{name}{query}");
        let request = http::Request::get(path)
            .body(Vec::new())
            .map_err(|_| CommandError::Argument(format!("{} is not the name of a workload", self.key)))?;
        let what = || format!("the load of {}", self.key);
        let text = self.session.client.request_text(request).await;
        let text = text.map_err(|error| CommandError::request(what(), error))?;
        let Response { recording, next, lines } =
            serde_json::from_str(&text).map_err(|source| CommandError::Response { what: what(), source })?;
        self.recording = Some(recording);
        self.next = next;
        Ok(lines)
    }
}

// === impl Line ===

impl Line {
    /// As the replay takes it.
    pub(super) fn parsed(&self) -> Result<autoscaler::scaling::replay::TraceLine, serde_json::Error> {
        serde_json::from_value(serde_json::to_value(self)?)
    }
}
