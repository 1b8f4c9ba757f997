//! Values: a workload's state as the one item of an ExternalMetricValueList.
//!
//! `concurrency` and `requests-per-second` are stable averages of the workload's total. While a decision is held above its
//! average (by a panic, say), the one that the workload scales on is at least what the decision stands for, so that the HPA
//! never takes away what is held.
//! `desired-replicas` is the decision itself. A sleeping workload (no pod, nothing waiting, an activator there to say so) is
//! idle: 0. Anything else without data is an error.

use std::collections::BTreeMap;
use std::sync::Arc;

use autoscaler::Key;
use autoscaler::collection::Measure;
use autoscaler::contract::{METRIC_CONCURRENCY, METRIC_DESIRED, METRIC_RPS, SERVICE_SELECTOR};
use autoscaler::quantity::{format_milli, milli_from_f64};
use autoscaler::selector::{Requirement, Selector};
use axum::extract::Query;
use http::Uri;
use serde::{Deserialize, Serialize};

use super::{ApiError, GROUP, VERSION};
use crate::collector::Collector;
use crate::decisions::Decisions;
use crate::history::History;
use crate::ready_pods::ReadyPods;
use crate::workloads::{Workload, WorkloadsReceiver};

/// A decision older than this has no data under it any more. Decisions are two seconds apart.
const STALE_DECISION_MS: i64 = 10_000;

/// Where values come from.
#[derive(Clone, Debug)]
pub struct Values {
    /// Averages.
    pub collector: Arc<Collector>,
    /// Decisions.
    pub decisions: Arc<Decisions>,
    /// What decisions went by.
    pub history: Arc<History>,
    /// Pods.
    pub pods: ReadyPods,
    /// What there is.
    pub workloads: WorkloadsReceiver,
}

/// The answer to a metric query.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ValueList {
    kind: &'static str,
    api_version: String,
    metadata: serde_json::Map<String, serde_json::Value>,
    items: [ValueItem; 1],
}

/// One value.
#[derive(Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct ValueItem {
    metric_name: String,
    metric_labels: BTreeMap<&'static str, String>,
    timestamp: String,
    window: u64,
    value: String,
}

/// What both APIs say of a metric.
#[derive(Debug, PartialEq)]
pub(super) struct Item {
    /// As Kubernetes writes it.
    pub(super) timestamp: String,
    /// Seconds averaged over.
    pub(super) window: u64,
    /// A quantity.
    pub(super) value: String,
}

/// A metric that is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Served {
    Average(Measure),
    Desired,
}

// === impl Values ===

impl Values {
    /// The list for one metric of one Service.
    pub(super) fn list(&self, namespace: &str, metric: &str, service: &str) -> Result<ValueList, ApiError> {
        Ok(ValueList::new(metric, service, self.of_service(namespace, metric, service)?))
    }

    /// One metric of the workload that scales on a Service.
    pub(super) fn of_service(&self, namespace: &str, metric: &str, service: &str) -> Result<Item, ApiError> {
        let served = served(namespace, metric, service)?;
        let workload = self.workload(namespace, metric, service)?;
        self.item(&workload, served, metric)
    }

    /// One metric of a workload.
    pub(super) fn of_workload(&self, namespace: &str, metric: &str, name: &str) -> Result<Item, ApiError> {
        let served = served(namespace, metric, name)?;
        let key = Key::new(namespace, name);
        let workload = self.workloads.borrow().get(&key).cloned();
        let workload = workload.ok_or_else(|| ApiError::UnknownWorkload(key.to_string()))?;
        self.item(&workload, served, metric)
    }

    fn item(&self, workload: &Workload, served: Served, metric: &str) -> Result<Item, ApiError> {
        let milli = self.milli(workload, served).map_err(|missing| ApiError::NoData {
            metric: metric.to_owned(),
            namespace: workload.key.namespace.clone(),
            service: workload.service.clone(),
            missing,
        })?;
        let now = jiff::Timestamp::from_second(runtime::clock::unix_seconds()).unwrap_or_default();
        Ok(Item {
            timestamp: now.to_string(),
            window: workload.windows.stable.as_secs(),
            value: format_milli(milli),
        })
    }

    fn workload(&self, namespace: &str, metric: &str, service: &str) -> Result<Arc<Workload>, ApiError> {
        let (metric, namespace, service) = (metric.to_owned(), namespace.to_owned(), service.to_owned());
        let table = self.workloads.borrow();
        match table.on_service(&namespace, &service) {
            [key] => table.get(key).cloned().ok_or(ApiError::NoWorkload { metric, namespace, service }),
            [] => Err(ApiError::NoWorkload { metric, namespace, service }),
            several => {
                let workloads = several.iter().map(Key::to_string).collect::<Vec<_>>().join(" and ");
                Err(ApiError::Ambiguous { metric, namespace, service, workloads })
            }
        }
    }

    /// The value in thousandths, or what is missing.
    fn milli(&self, workload: &Workload, served: Served) -> Result<i64, String> {
        match served {
            Served::Average(measure) => self.average(workload, measure),
            Served::Desired => self.desired(workload),
        }
    }

    pub(super) fn average(&self, workload: &Workload, measure: Measure) -> Result<i64, String> {
        let Some(averages) = self.collector.averages(&workload.key, measure) else {
            return self.asleep(workload).map(|()| 0);
        };
        let stable = milli_from_f64(averages.stable.max(0.0))
            .ok_or_else(|| "the average is not a number".to_owned())?;
        if measure != workload.measure {
            return Ok(stable);
        }
        // What it has to be at least is not known yet. The first seconds after a start may be those of a few reporters only.
        if !self.history.has_decided(&workload.key) {
            return Err("nothing was decided on it yet; that takes two seconds after a start".to_owned());
        }
        let decision = self.decisions.get(&workload.key);
        Ok(stable.max(decision.map_or(0, |decision| decision.metric_floor(workload.target_milli))))
    }

    fn desired(&self, workload: &Workload) -> Result<i64, String> {
        let decision = self.decisions.get(&workload.key);
        let now = runtime::clock::unix_millis();
        match decision.filter(|decision| now - decision.decided_at <= STALE_DECISION_MS) {
            Some(decision) => Ok(i64::from(decision.desired).saturating_mul(1000)),
            None => self.asleep(workload).map(|()| 0),
        }
    }

    /// Whether a workload without data sleeps; if not, what is missing.
    fn asleep(&self, workload: &Workload) -> Result<(), String> {
        let key = &workload.key;
        let window = workload.windows.stable.as_secs();
        let pods = self
            .pods
            .select(&key.namespace, &workload.selector)
            .ok_or_else(|| "the pods are not known yet".to_owned())?;
        let existing = pods.iter().filter(|pod| pod.exists).count();
        if existing > 0 {
            let ready = pods.iter().filter(|pod| pod.ready).count();
            return Err(format!(
                "neither its pods ({existing} with a sidecar, {ready} ready) nor an activator reported within {window}s"
            ));
        }
        if self.collector.connected_activators() == 0 {
            return Err("it has no pods, and no activator is connected that could say whether requests wait"
                .to_owned());
        }
        match self.collector.idle_since(key) {
            Some(_) => Ok(()),
            None => {
                Err("it has no pods, and was not watched for long enough to know that nothing waits"
                    .to_owned())
            }
        }
    }
}

// === impl Served ===

impl Served {
    fn parse(metric: &str) -> Option<Self> {
        match metric {
            METRIC_CONCURRENCY => Some(Self::Average(Measure::Concurrency)),
            METRIC_RPS => Some(Self::Average(Measure::RequestsPerSecond)),
            METRIC_DESIRED => Some(Self::Desired),
            _ => None,
        }
    }
}

// === impl ValueList ===

impl ValueList {
    fn new(metric: &str, service: &str, item: Item) -> Self {
        let Item { timestamp, window, value } = item;
        Self {
            kind: "ExternalMetricValueList",
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

fn served(namespace: &str, metric: &str, service: &str) -> Result<Served, ApiError> {
    let (namespace, service) = (namespace.to_owned(), service.to_owned());
    Served::parse(metric).ok_or_else(|| ApiError::UnknownMetric {
        metric: metric.to_owned(),
        namespace,
        service,
    })
}

/// The parameters of a query that matter; the others are for APIs that list and watch.
#[derive(Deserialize)]
struct Parameters {
    #[serde(default, rename = "labelSelector")]
    label_selector: String,
    /// Of an object's metric, where there is nothing to select.
    #[serde(default, rename = "metricLabelSelector")]
    metric_label_selector: String,
}

/// That a query of an object's metric selects nothing of it: there is just one of a name.
pub(super) fn selects_nothing(uri: &Uri) -> Result<(), ApiError> {
    let Query(parameters) =
        Query::<Parameters>::try_from_uri(uri).map_err(|error| ApiError::BadSelector(error.to_string()))?;
    if parameters.metric_label_selector.is_empty() {
        return Ok(());
    }
    Err(ApiError::NothingToSelect(parameters.metric_label_selector))
}

/// The Service that a query's selector names.
pub(super) fn service_of(uri: &Uri) -> Result<String, ApiError> {
    let Query(parameters) =
        Query::<Parameters>::try_from_uri(uri).map_err(|error| ApiError::BadSelector(error.to_string()))?;
    let selector = Selector::parse(&parameters.label_selector)
        .map_err(|error| ApiError::BadSelector(error.to_string()))?;
    match selector.requirements() {
        [Requirement::In(label, values)] if label == SERVICE_SELECTOR => match values.as_slice() {
            [service] if !service.is_empty() => Ok(service.clone()),
            _ => Err(ApiError::BadSelector(format!("it is {selector}"))),
        },
        [] => Err(ApiError::BadSelector("there is none".to_owned())),
        _ => Err(ApiError::BadSelector(format!("it is {selector}"))),
    }
}
