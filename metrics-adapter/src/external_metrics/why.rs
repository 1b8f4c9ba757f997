//! WhyReport: the settings, the current value, the learned target, the clients that end idleness,
//! and the last decisions of a workload, as JSON and as text.
//!
//! Served at `/why`, to explain the size of a workload. Times are UTC. Decisions are shown before
//! minReplicas and maxReplicas, which the writer of `/scale` applies.

mod clients;
mod learned_target;
mod target_basis;
mod utc;

use std::fmt::Write as _;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::ScheduleStatus;
use autoscaler::contract::quantity::format_milli;
use autoscaler::findings::hpa::slow_hpa;
use autoscaler::history::ClientVisits;
use autoscaler::scaling::decider::{DeciderSpec, DecisionRule};
use autoscaler::scaling::decision::hpa_lag;
use http::{HeaderMap, Uri, header};
use serde_json::{Value, json};

use crate::decisions::decision_history::DecisionRecord;
use crate::external_metrics::error::ApiError;
use crate::external_metrics::error::missing_data::MissingData;
use crate::external_metrics::value::MetricValues;
use crate::external_metrics::why::learned_target::LearnedTargetReport;
use crate::external_metrics::why::utc::time;
use crate::watches::workloads::Workload;
use autoscaler::scaling::decision_reason::DecisionReason;
use autoscaler::scaling::readable::CompactNumber;

/// Whether the client wants plain text: `?format=text`, or `Accept: text/plain`.
pub(super) fn wants_text(uri: &Uri, headers: &HeaderMap) -> bool {
    let parameter = uri.query().unwrap_or_default().split('&').any(|pair| pair == "format=text");
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    parameter
        || accepts.flat_map(|value| value.split(',')).any(|range| range.trim().starts_with("text/plain"))
}

/// The data that explain the size of a workload.
#[derive(Debug)]
pub(super) struct WhyReport {
    workload: Arc<Workload>,
    /// The metric that it scales on, as the HPA reads it.
    served: Result<String, MissingData>,
    ready: usize,
    existing: usize,
    activators: usize,
    /// Milliseconds between the last two queries of the HPA.
    queried_after: Option<i64>,
    /// `None` without a schedule.
    scheduled: Option<ScheduleStatus>,
    /// `None` if learning is off.
    learned: Option<LearnedTargetReport>,
    /// What wakes the workload, or keeps it awake.
    clients: Vec<ClientVisits>,
    /// Time of the report, in Unix milliseconds.
    now: i64,
    records: Vec<DecisionRecord>,
}

// === impl WhyReport ===

impl WhyReport {
    pub(super) fn new(values: &MetricValues, namespace: &str, name: &str) -> Result<Self, ApiError> {
        let key = Key::new(namespace, name);
        let workload = values.workloads.borrow().get(&key).cloned();
        let workload = workload.ok_or_else(|| ApiError::UnknownWorkload(key.to_string()))?;
        let now = component_base::clock::unix_millis();
        let pods = values.pods.select(namespace, &workload.selector, workload.sidecar).unwrap_or_default();
        Ok(Self {
            served: values.average(&workload, workload.measure).map(format_milli),
            ready: pods.iter().filter(|pod| pod.ready).count(),
            existing: pods.iter().filter(|pod| pod.exists).count(),
            activators: values.collector.connected_activators(),
            queried_after: values.history.query_interval(&key),
            scheduled: workload.schedule.as_ref().map(|s| s.at(now).into()),
            learned: LearnedTargetReport::new(values, &workload),
            clients: values.history.first_requests(&key, now),
            now,
            records: values.history.of(&key),
            workload,
        })
    }

    pub(super) fn json(&self) -> Value {
        let Workload { key, service, windows, target_milli, spec, .. } = self.workload.as_ref();
        json!({
            "workload": key.to_string(),
            "service": service,
            "metric": self.metric(),
            "value": self.served.as_ref().ok(),
            "missing": self.served.as_ref().err().map(ToString::to_string),
            "target": format_milli(*target_milli),
            "windows": {"stableSeconds": windows.stable.as_secs(), "panicSeconds": windows.panic.as_secs()},
            "limits": limits(spec),
            "schedule": self.scheduled,
            "pods": {"ready": self.ready, "existing": self.existing},
            "activators": self.activators,
            "hpaQueryIntervalSeconds": self.queried_after.map(|millis| millis / 1000),
            "learning": self.learned.as_ref().map(LearnedTargetReport::json),
            "firstRequests": clients::json(&self.clients),
            "decisions": self.records.iter().map(decision).collect::<Vec<_>>(),
        })
    }

    pub(super) fn text(&self) -> String {
        let Workload { key, service, windows, target_milli, spec, .. } = self.workload.as_ref();
        let mut text = format!("{key}, Service {service}\n");
        // Writing into a String cannot fail.
        let _ = match &self.served {
            Ok(value) => {
                writeln!(text, "{} {value}, target {} per pod", self.metric(), format_milli(*target_milli))
            }
            Err(missing) => writeln!(text, "{}: no value: {missing}", self.metric()),
        };
        let _ = writeln!(
            text,
            "{} of {} pods ready; {} activators connected; stable window {} s, panic window {} s",
            self.ready,
            self.existing,
            self.activators,
            windows.stable.as_secs(),
            windows.panic.as_secs()
        );
        let _ = writeln!(text, "settings (minReplicas and maxReplicas apply later): {}", limits(spec));
        if let Some(scheduled) = &self.scheduled {
            let _ = writeln!(text, "schedule: {scheduled}");
        }
        if let Some(lag) = self.queried_after.and_then(hpa_lag) {
            let _ = writeln!(text, "{}", slow_hpa(lag).message());
        }
        let window_ms = i64::try_from(windows.stable.as_millis()).unwrap_or(i64::MAX);
        text.push_str(&clients::text(&self.clients, window_ms, self.now));
        text.push_str(&self.learned.as_ref().map_or_else(String::new, LearnedTargetReport::text));
        let columns = ["time (UTC)", "desired", "ready", "stable", "panic", "spare", "reason"];
        let _ = writeln!(text, "\n{}", row(columns.map(str::to_owned)));
        for record in &self.records {
            let _ = writeln!(text, "{}", line(record));
        }
        text
    }

    fn metric(&self) -> &'static str {
        self.workload.measure.as_str()
    }
}

fn limits(spec: &DeciderSpec) -> Value {
    json!({
        "maxScaleUpRate": spec.max_scale_up_rate,
        "maxScaleDownRate": spec.max_scale_down_rate,
        "panicThresholdPercentage": spec.panic_threshold * 100.0,
        "scaleDownDelaySeconds": spec.scale_down_delay.as_secs_f64(),
        "activationScale": spec.activation_scale,
        "targetBurstCapacity": spec.target_burst_capacity.value(),
        "reachable": spec.reachable,
    })
}

fn decision(record: &DecisionRecord) -> Value {
    json!({
        "at": time(record.at),
        "desired": record.result.map(|result| result.desired),
        "rule": record.result.map(|result| rule(result.rule)),
        "why": reason(record),
        "held": record.result.is_some_and(|result| result.held),
        "panicking": record.panicking,
        "stable": record.averages.map(|averages| averages.stable),
        "panic": record.averages.map(|averages| averages.panic),
        "ready": record.ready,
        "target": record.spec.target,
        "excessBurstCapacity": record.result.map(|result| result.excess_burst_capacity),
        "idleSince": record.idle_since.map(time),
    })
}

fn line(record: &DecisionRecord) -> String {
    let number =
        |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| CompactNumber(value).to_string());
    let whole = |value: Option<i64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let at = time(record.at);
    row([
        at.split_once('T').map_or(at.as_str(), |(_, clock)| clock.trim_end_matches('Z')).to_owned(),
        whole(record.result.map(|result| result.desired.into())),
        record.ready.to_string(),
        number(record.averages.map(|averages| averages.stable)),
        number(record.averages.map(|averages| averages.panic)),
        whole(record.result.map(|result| result.excess_burst_capacity.into())),
        reason(record),
    ])
}

fn row([time, desired, ready, stable, panic, spare, reason]: [String; 7]) -> String {
    format!("{time:<12} {desired:>8} {ready:>6} {stable:>10} {panic:>10} {spare:>7}  {reason}")
}

fn reason(record: &DecisionRecord) -> String {
    let mut reason = DecisionReason {
        result: record.result.as_ref(),
        spec: &record.spec,
        calm: record.calm,
        has_data: record.averages.is_some(),
    }
    .to_string();
    if let Some(since) = record.idle_since {
        let seconds = record.at.saturating_sub(since) / 1000;
        reason.push_str(&format!(", idle for {seconds} s"));
    }
    reason
}

fn rule(rule: DecisionRule) -> &'static str {
    match rule {
        DecisionRule::Stable => "stable",
        DecisionRule::Panic => "panic",
        DecisionRule::ScaleUpRate => "max-scale-up-rate",
        DecisionRule::ScaleDownRate => "max-scale-down-rate",
        DecisionRule::ActivationScale => "activation-scale",
        DecisionRule::PanicHold => "panic-hold",
        DecisionRule::ScaleDownDelay => "scale-down-delay",
    }
}

#[cfg(test)]
mod tests;
