//! Why: what is known of a workload, and the last looks at it with all that they went by, as JSON and as text.
//!
//! For people who ask why a workload has the size that it has. Times are UTC; decisions are those before minReplicas and
//! maxReplicas, which the writer of `/scale` applies.

use std::fmt::Write as _;

use autoscaler::Key;
use autoscaler::collection::Measure;
use autoscaler::decider::{DeciderSpec, Rule};
use autoscaler::quantity::format_milli;
use http::{HeaderMap, Uri, header};
use serde_json::{Value, json};

use super::{ApiError, Values};
use crate::history::Look;
use crate::readable::Number;
use crate::reason::Reason;
use crate::workloads::Workload;

/// Whether a caller wants text for people: `?format=text`, or `Accept: text/plain`.
pub(super) fn wants_text(uri: &Uri, headers: &HeaderMap) -> bool {
    let asked = uri.query().unwrap_or_default().split('&').any(|pair| pair == "format=text");
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    asked || accepts.flat_map(|value| value.split(',')).any(|range| range.trim().starts_with("text/plain"))
}

/// What is known of a workload.
#[derive(Debug)]
pub(super) struct Why {
    workload: std::sync::Arc<Workload>,
    /// The metric that it scales on as the HPA gets it, or why it does not.
    served: Result<String, String>,
    ready: usize,
    existing: usize,
    activators: usize,
    looks: Vec<Look>,
}

// === impl Why ===

impl Why {
    pub(super) fn of(values: &Values, namespace: &str, name: &str) -> Result<Self, ApiError> {
        let key = Key::new(namespace, name);
        let workload = values.workloads.borrow().get(&key).cloned();
        let workload = workload.ok_or_else(|| ApiError::UnknownWorkload(key.to_string()))?;
        let pods = values.pods.select(namespace, &workload.selector).unwrap_or_default();
        Ok(Self {
            served: values.average(&workload, workload.measure).map(format_milli),
            ready: pods.iter().filter(|pod| pod.ready).count(),
            existing: pods.iter().filter(|pod| pod.exists).count(),
            activators: values.collector.connected_activators(),
            looks: values.history.of(&key),
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
            "missing": self.served.as_ref().err(),
            "target": format_milli(*target_milli),
            "windows": {"stableSeconds": windows.stable.as_secs(), "panicSeconds": windows.panic.as_secs()},
            "limits": limits(spec),
            "pods": {"ready": self.ready, "existing": self.existing},
            "activators": self.activators,
            "decisions": self.looks.iter().map(look).collect::<Vec<_>>(),
        })
    }

    pub(super) fn text(&self) -> String {
        let Workload { key, service, windows, target_milli, spec, .. } = self.workload.as_ref();
        let mut text = format!("{key}, Service {service}\n");
        // Writing into a String cannot fail.
        let _ = match &self.served {
            Ok(value) => {
                writeln!(text, "{} {value}, target {} a pod", self.metric(), format_milli(*target_milli))
            }
            Err(missing) => writeln!(text, "{}: none, because {missing}", self.metric()),
        };
        let _ = writeln!(
            text,
            "{} pods ready of {}; {} activators connected; windows of {} and {} s",
            self.ready,
            self.existing,
            self.activators,
            windows.stable.as_secs(),
            windows.panic.as_secs()
        );
        let _ = writeln!(text, "limits, before minReplicas and maxReplicas: {}", limits(spec));
        let columns = ["time (UTC)", "desired", "ready", "stable", "panic", "spare", "why"];
        let _ = writeln!(text, "\n{}", row(columns.map(str::to_owned)));
        for look in &self.looks {
            let _ = writeln!(text, "{}", line(look));
        }
        text
    }

    fn metric(&self) -> &'static str {
        match self.workload.measure {
            Measure::Concurrency => autoscaler::contract::METRIC_CONCURRENCY,
            Measure::RequestsPerSecond => autoscaler::contract::METRIC_RPS,
        }
    }
}

fn limits(spec: &DeciderSpec) -> Value {
    json!({
        "maxScaleUpRate": spec.max_scale_up_rate,
        "maxScaleDownRate": spec.max_scale_down_rate,
        "panicThresholdPercentage": spec.panic_threshold * 100.0,
        "scaleDownDelaySeconds": spec.scale_down_delay.as_secs_f64(),
        "activationScale": spec.activation_scale,
        "targetBurstCapacity": spec.target_burst_capacity,
        "reachable": spec.reachable,
    })
}

fn look(look: &Look) -> Value {
    json!({
        "at": time(look.at),
        "desired": look.verdict.map(|verdict| verdict.desired),
        "rule": look.verdict.map(|verdict| rule(verdict.rule)),
        "why": why(look),
        "held": look.verdict.is_some_and(|verdict| verdict.held),
        "panicking": look.panicking,
        "stable": look.averages.map(|averages| averages.stable),
        "panic": look.averages.map(|averages| averages.panic),
        "ready": look.ready,
        "target": look.workload.spec.target,
        "excessBurstCapacity": look.verdict.map(|verdict| verdict.excess_burst_capacity),
        "idleSince": look.idle_since.map(time),
    })
}

fn line(look: &Look) -> String {
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| Number(value).to_string());
    let whole = |value: Option<i64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let at = time(look.at);
    row([
        at.split_once('T').map_or(at.as_str(), |(_, clock)| clock.trim_end_matches('Z')).to_owned(),
        whole(look.verdict.map(|verdict| verdict.desired.into())),
        look.ready.to_string(),
        number(look.averages.map(|averages| averages.stable)),
        number(look.averages.map(|averages| averages.panic)),
        whole(look.verdict.map(|verdict| verdict.excess_burst_capacity.into())),
        why(look),
    ])
}

fn row([time, desired, ready, stable, panic, spare, why]: [String; 7]) -> String {
    format!("{time:<12} {desired:>8} {ready:>6} {stable:>10} {panic:>10} {spare:>7}  {why}")
}

fn why(look: &Look) -> String {
    let spec = &look.workload.spec;
    let mut why =
        Reason { verdict: look.verdict.as_ref(), spec, calm: look.calm, heard: look.averages.is_some() }
            .to_string();
    if let Some(since) = look.idle_since {
        let seconds = look.at.saturating_sub(since) / 1000;
        why.push_str(&format!(", idle for {seconds} s"));
    }
    why
}

fn rule(rule: Rule) -> &'static str {
    match rule {
        Rule::Stable => "stable",
        Rule::Panic => "panic",
        Rule::ScaleUpRate => "max-scale-up-rate",
        Rule::ScaleDownRate => "max-scale-down-rate",
        Rule::ActivationScale => "activation-scale",
        Rule::PanicHold => "panic-hold",
        Rule::ScaleDownDelay => "scale-down-delay",
    }
}

fn time(unix_millis: i64) -> String {
    jiff::Timestamp::from_millisecond(unix_millis).unwrap_or_default().to_string()
}
