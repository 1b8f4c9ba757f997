//! The recorded load of a workload, as lines in the format of replays.
//!
//! Served at `trace`. A request without a query starts a recording and returns its number; the next
//! ones have `recording=NUMBER&from=NUMBER` and return the lines from that number on. The plugin
//! writes them to a file, which `simulate` replays.

use autoscaler::Key;
use http::Uri;
use serde_json::{Value, json};

use crate::external_metrics::error::ApiError;
use crate::external_metrics::value::MetricValues;

/// Starts a recording, or reads one.
pub(super) fn read(values: &MetricValues, namespace: &str, name: &str, uri: &Uri) -> Result<Value, ApiError> {
    let key = Key::new(namespace, name);
    if values.workloads.borrow().get(&key).is_none() {
        return Err(ApiError::UnknownWorkload(key.to_string()));
    }
    let failed = |source| ApiError::Recording { workload: key.to_string(), source };
    let (recordings, now) = (values.collector.recordings(), values.collector.clock().now());
    let (id, from) = match uri.query().filter(|query| !query.is_empty()) {
        None => (recordings.start(&key, now).map_err(failed)?, 0),
        Some(query) => parsed(query).ok_or_else(|| ApiError::BadTraceQuery(query.to_owned()))?,
    };
    let read = recordings.read(&key, id, from, now).map_err(failed)?;
    Ok(json!({
        "workload": key.to_string(),
        // As text: it may exceed what a float holds.
        "recording": id.to_string(),
        "next": read.next,
        "lines": read.lines,
    }))
}

/// The recording and the line of a query.
fn parsed(query: &str) -> Option<(u64, u64)> {
    let value = |name: &str| {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name)?.1.parse().ok()
    };
    Some((value("recording")?, value("from")?))
}
