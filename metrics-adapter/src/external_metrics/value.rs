//! MetricValues: the values of external metrics, as the one item of an ExternalMetricValueList.
//!
//! - `concurrency` and `requests-per-second` are stable averages of the workload's total. While a
//!   decision is held above its average (in panic, for example), the metric that the workload
//!   scales on is at least what the decision needs, so that the HPA does not scale below the
//!   decision. Where a learned target is in force, that metric is scaled by the user's target over
//!   the learned one: an HPA that divides by the user's target then follows the learned one.
//! - `desired-replicas` is the decision itself.
//! - Both are at least what the workload's schedule requires at the time of the query.
//! - While a pause is in force, both have the value at which an HPA keeps the present size.
//! - A workload at zero (no pods, no held requests, a connected activator to confirm it) has the
//!   value 0. Every other lack of data is an error ([`MissingData`]).

pub(super) mod object_metrics;

use std::collections::BTreeMap;
use std::sync::Arc;

use autoscaler::contract::metric_name::MetricName;
use autoscaler::contract::quantity::{format_milli, milli_from_f64};
use autoscaler::contract::{METRIC_CONCURRENCY, METRIC_DESIRED, METRIC_RPS, SERVICE_SELECTOR};
use autoscaler::{Decision, Key};
use serde::Serialize;

use crate::collection::collector::Collector;
use crate::decisions::decision_history::DecisionHistory;
use crate::decisions::decision_store::DecisionStore;
use crate::external_metrics::error::ApiError;
use crate::external_metrics::error::missing_data::MissingData;
use crate::learning::target_in_force::{TargetInForce, is_applied};
use crate::watches::ready_pods::ReadyPods;
use crate::watches::workloads::{KeptSize, Workload, WorkloadsReceiver};

/// API group of external metrics.
pub const GROUP: &str = "external.metrics.k8s.io";
pub const VERSION: &str = "v1beta1";
/// Kind of its responses.
pub(super) const KIND: &str = "ExternalMetricValueList";
/// Short name of requests-per-second, accepted as in annotations.
const RPS_ALIAS: &str = "rps";
/// An older decision has no current data behind it. Decisions are two seconds apart.
const STALE_DECISION_MS: i64 = 10_000;

/// The sources of all values.
#[derive(Clone, Debug)]
pub struct MetricValues {
    /// Averages of each workload's windows.
    pub collector: Arc<Collector>,
    /// The newest decision of each workload.
    pub decisions: Arc<DecisionStore>,
    /// The data behind decisions.
    pub history: Arc<DecisionHistory>,
    pub pods: ReadyPods,
    /// The table of workloads.
    pub workloads: WorkloadsReceiver,
}

/// Response to a query for a metric.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ValueList {
    kind: &'static str,
    api_version: String,
    metadata: serde_json::Map<String, serde_json::Value>,
    items: [ValueItem; 1],
}

#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ValueItem {
    metric_name: String,
    metric_labels: BTreeMap<&'static str, String>,
    timestamp: String,
    window: u64,
    value: String,
}

/// One value, in the form that both APIs share.
#[derive(Debug, PartialEq)]
pub(super) struct MetricSample {
    /// RFC 3339, in UTC.
    pub(super) timestamp: String,
    /// The averaging window, in seconds.
    pub(super) window: u64,
    /// A Kubernetes quantity.
    pub(super) value: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServedMetric {
    Average(MetricName),
    Desired,
}

// === impl MetricValues ===

impl MetricValues {
    /// The list for one metric of one Service.
    pub(super) fn list(&self, namespace: &str, metric: &str, service: &str) -> Result<ValueList, ApiError> {
        Ok(ValueList::new(metric, service, self.of_service(namespace, metric, service)?))
    }

    /// One metric of the workload that a Service belongs to.
    pub(super) fn of_service(
        &self,
        namespace: &str,
        metric: &str,
        service: &str,
    ) -> Result<MetricSample, ApiError> {
        let served = served(namespace, metric, service)?;
        let workload = self.workload(namespace, metric, service)?;
        self.sample(&workload, served, metric)
    }

    /// One metric of a workload.
    pub(super) fn of_workload(
        &self,
        namespace: &str,
        metric: &str,
        name: &str,
    ) -> Result<MetricSample, ApiError> {
        let served = served(namespace, metric, name)?;
        let key = Key::new(namespace, name);
        let workload = self.workloads.borrow().get(&key).cloned();
        let workload = workload.ok_or_else(|| ApiError::UnknownWorkload(key.to_string()))?;
        self.sample(&workload, served, metric)
    }

    fn sample(
        &self,
        workload: &Workload,
        served: ServedMetric,
        metric: &str,
    ) -> Result<MetricSample, ApiError> {
        let milli = self.milli(workload, served).map_err(|missing| ApiError::NoData {
            metric: metric.to_owned(),
            namespace: workload.key.namespace.clone(),
            service: workload.service.clone(),
            missing,
        })?;
        let now = jiff::Timestamp::from_second(component_base::clock::unix_seconds()).unwrap_or_default();
        Ok(MetricSample {
            timestamp: now.to_string(),
            window: workload.windows.stable.as_secs(),
            value: format_milli(milli),
        })
    }

    /// The workload that a Service belongs to.
    pub(super) fn key_of_service(&self, namespace: &str, service: &str) -> Option<Key> {
        self.workloads.borrow().owner_of(namespace, service).map(|workload| workload.key.clone())
    }

    fn workload(&self, namespace: &str, metric: &str, service: &str) -> Result<Arc<Workload>, ApiError> {
        let owner = self.workloads.borrow().owner_of(namespace, service).cloned();
        owner.ok_or_else(|| ApiError::NoWorkload {
            metric: metric.to_owned(),
            namespace: namespace.to_owned(),
            service: service.to_owned(),
        })
    }

    /// The value in thousandths.
    fn milli(&self, workload: &Workload, served: ServedMetric) -> Result<i64, MissingData> {
        match served {
            ServedMetric::Average(measure) => self.average(workload, measure),
            ServedMetric::Desired => self.desired(workload),
        }
    }

    /// The average of a measure, in thousandths.
    pub(super) fn average(&self, workload: &Workload, measure: MetricName) -> Result<i64, MissingData> {
        if let Some(kept) = kept_milli(workload, workload.target_milli)
            && measure == workload.measure
        {
            return kept;
        }
        if workload.bypassed {
            return Err(MissingData::Bypassed);
        }
        let Some(averages) = self.collector.averages(&workload.key, measure) else {
            let scheduled = if measure == workload.measure { scheduled_milli(workload) } else { 0 };
            return self.confirm_at_zero(workload).map(|()| scheduled);
        };
        let stable = milli_from_f64(averages.stable.max(0.0)).ok_or(MissingData::NotANumber)?;
        if measure != workload.measure {
            return Ok(stable);
        }
        if !self.history.has_decided(&workload.key) {
            return Err(MissingData::NoDecision);
        }
        let target_milli = workload.target_milli;
        let decided = |decision: &Decision| {
            (decision.metric_floor(target_milli), TargetInForce::of_decision(workload, decision))
        };
        let (floor, target) = match self.decisions.read(&workload.key, decided) {
            Some(decided) => decided,
            // The learned target comes with the decision.
            None if is_applied(workload) => return Err(MissingData::NoDecision),
            None => (0, None),
        };
        let value =
            target.map_or(stable, |target| target.metric_milli(averages.stable.max(0.0), target_milli));
        Ok(value.max(floor).max(scheduled_milli(workload)))
    }

    fn desired(&self, workload: &Workload) -> Result<i64, MissingData> {
        if let Some(kept) = kept_milli(workload, 1000) {
            return kept;
        }
        if workload.bypassed {
            return Err(MissingData::Bypassed);
        }
        let now = component_base::clock::unix_millis();
        let fresh = |decision: &Decision| {
            (now - decision.decided_at <= STALE_DECISION_MS).then_some(decision.desired)
        };
        let desired = match self.decisions.read(&workload.key, fresh).flatten() {
            Some(desired) => desired,
            None => self.confirm_at_zero(workload).map(|()| 0)?,
        };
        Ok(i64::from(desired.max(scheduled_minimum(workload))).saturating_mul(1000))
    }

    /// Confirms that a workload without data is at zero, without held requests.
    fn confirm_at_zero(&self, workload: &Workload) -> Result<(), MissingData> {
        let key = &workload.key;
        let window = workload.windows.stable;
        let pods = self.pods.select(&key.namespace, &workload.selector, workload.sidecar);
        let pods = pods.ok_or(MissingData::PodsNotListed)?;
        let existing = pods.iter().filter(|pod| pod.exists).count();
        if existing > 0 {
            let ready = pods.iter().filter(|pod| pod.ready).count();
            return Err(if workload.sidecar.is_required() {
                MissingData::NoReports { existing, ready, window }
            } else {
                MissingData::NoActivatorReports { existing, ready, window }
            });
        }
        if self.collector.connected_activators() == 0 {
            return Err(MissingData::NoActivator);
        }
        self.collector.idle_since(key).map(drop).ok_or(MissingData::NotYetIdle)
    }
}

/// The value at which an HPA keeps the present size; `None` while no pause is in force.
fn kept_milli(workload: &Workload, per_pod: i64) -> Option<Result<i64, MissingData>> {
    let KeptSize { pause, size } = workload.kept?;
    let value = size.map(|size| i64::from(size).saturating_mul(per_pod)).ok_or(MissingData::SizeNotReported);
    pause.is_in_force(component_base::clock::unix_millis()).then_some(value)
}

/// The smallest size by the schedule now; 0 means no bound.
fn scheduled_minimum(workload: &Workload) -> u32 {
    workload.schedule.as_ref().map_or(0, |schedule| schedule.minimum(component_base::clock::unix_millis()))
}

/// The value of the metric at which an HPA has the smallest size by the schedule.
fn scheduled_milli(workload: &Workload) -> i64 {
    i64::from(scheduled_minimum(workload)).saturating_mul(workload.target_milli)
}

// === impl ServedMetric ===

impl ServedMetric {
    fn parse(metric: &str) -> Option<Self> {
        match metric {
            METRIC_CONCURRENCY => Some(Self::Average(MetricName::Concurrency)),
            METRIC_RPS | RPS_ALIAS => Some(Self::Average(MetricName::RequestsPerSecond)),
            METRIC_DESIRED => Some(Self::Desired),
            _ => None,
        }
    }
}

// === impl ValueList ===

impl ValueList {
    fn new(metric: &str, service: &str, item: MetricSample) -> Self {
        let MetricSample { timestamp, window, value } = item;
        Self {
            kind: KIND,
            api_version: format!("{GROUP}/{VERSION}"),
            metadata: serde_json::Map::new(),
            items: [ValueItem {
                metric_name: metric.to_owned(),
                metric_labels: BTreeMap::from([(SERVICE_SELECTOR, service.to_owned())]),
                timestamp,
                window,
                value,
            }],
        }
    }
}

fn served(namespace: &str, metric: &str, service: &str) -> Result<ServedMetric, ApiError> {
    let (namespace, service) = (namespace.to_owned(), service.to_owned());
    ServedMetric::parse(metric).ok_or_else(|| ApiError::UnknownMetric {
        metric: metric.to_owned(),
        namespace,
        service,
    })
}

#[cfg(test)]
pub(super) mod tests;
