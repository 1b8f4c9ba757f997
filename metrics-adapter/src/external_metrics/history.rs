//! Histories: the last hour of one workload, and the present state of all, for `kubectl rouse ui`.
//!
//! Input is the [`DecisionHistory`](crate::decisions::decision_history::DecisionHistory) of this
//! process, so a new leader's hour begins with its own start. A list is one request for the loads
//! of all workloads, where `why` is one for each.

use autoscaler::Key;
use autoscaler::history::{
    CurrentSample, CurrentSamples, HistoryReport, HourHistory, INTERVAL_MS, Sample, TimedSample,
};

use crate::external_metrics::error::ApiError;
use crate::external_metrics::value::MetricValues;
use crate::watches::workloads::Workload;

/// An older sample is not the present state, in milliseconds: two intervals.
const STALE_MS: i64 = 2 * INTERVAL_MS;

/// The last hour of a workload. It is empty while there was no decision.
pub(super) fn report(
    values: &MetricValues,
    namespace: &str,
    name: &str,
    now: i64,
) -> Result<HistoryReport, ApiError> {
    let key = Key::new(namespace, name);
    let workload = values.workloads.borrow().get(&key).cloned();
    let workload = workload.ok_or_else(|| ApiError::UnknownWorkload(key.to_string()))?;
    let read = |hour: &HourHistory| {
        let samples = hour.samples(now).map(|(at, sample)| TimedSample { at, sample }).collect();
        (samples, hour.wakes(now).collect())
    };
    let (samples, wakes) = values.history.read_hour(&key, read).unwrap_or_default();
    let metric = workload.measure.as_str().to_owned();
    Ok(HistoryReport { metric, now, interval_ms: INTERVAL_MS, samples, wakes })
}

/// The present state of all workloads, or of one namespace's workloads.
pub(super) fn current(values: &MetricValues, namespace: Option<&str>, now: i64) -> CurrentSamples {
    let table = values.workloads.borrow().clone();
    let selected =
        table.iter().filter(|workload| namespace.is_none_or(|namespace| workload.key.namespace == namespace));
    let mut workloads: Vec<_> =
        selected.filter_map(|workload| current_sample(values, workload, now)).collect();
    workloads.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    CurrentSamples { workloads }
}

fn current_sample(values: &MetricValues, workload: &Workload, now: i64) -> Option<CurrentSample> {
    let (at, sample) = values.history.read_hour(&workload.key, HourHistory::newest)??;
    let load = sample.load.filter(|_| now.saturating_sub(at) <= STALE_MS);
    let missing = load.is_none().then(|| match values.average(workload, workload.measure) {
        Ok(_) => "the last load is older than a minute".to_owned(),
        Err(missing) => missing.to_string(),
    });
    Some(CurrentSample {
        namespace: workload.key.namespace.clone(),
        name: workload.key.name.clone(),
        metric: workload.measure.as_str().to_owned(),
        sample: Sample { load, ..sample },
        missing,
    })
}

#[cfg(test)]
mod tests;
