//! MetricDescription: name, kind, help and labels of one metric family.
//!
//! Each program makes a registry with all of its families, and touches every label once: a family
//! without a child does not appear in a registry.

use std::fmt;

use prometheus::Registry;
use prometheus::proto::{MetricFamily, MetricType};

/// The metric families of each program.
///
/// # Errors
/// When two families of a program have the same name.
pub fn programs() -> Result<[(&'static str, Vec<MetricDescription>); 4], prometheus::Error> {
    let described = |registry: Registry| MetricDescription::of_registry(&registry);
    Ok([
        ("queue-proxy", described(queue_proxy::registry_with_all_families()?)),
        ("activator", described(activator::metrics::registry_with_all_families()?)),
        ("metrics-adapter", described(metrics_adapter::metrics::registry_with_all_families()?)),
        ("zero-scaler", described(zero_scaler::metrics::registry_with_all_families()?)),
    ])
}

/// One metric family as documentation shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricDescription {
    /// Name without the suffixes of a histogram.
    pub name: String,
    /// Type of the metric.
    pub kind: MetricKind,
    /// Help text.
    pub help: String,
    /// Label names, in alphabetical order.
    pub labels: Vec<String>,
}

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A value that only grows.
    Counter,
    /// A value that grows and falls.
    Gauge,
    /// Counts of observations by bucket.
    Histogram,
    /// Any other type, which Rouse does not use.
    Other,
}

// === impl MetricDescription ===

impl MetricDescription {
    /// Describes every family that has at least one child, ordered by name.
    pub fn of_registry(registry: &Registry) -> Vec<Self> {
        registry.gather().iter().map(Self::of_family).collect()
    }

    fn of_family(family: &MetricFamily) -> Self {
        let pairs = family.get_metric().iter().flat_map(|metric| metric.get_label());
        let mut labels: Vec<_> = pairs.map(|pair| pair.name().to_owned()).collect();
        labels.sort();
        labels.dedup();
        Self {
            name: family.name().to_owned(),
            kind: MetricKind::of(family.get_field_type()),
            help: family.help().to_owned(),
            labels,
        }
    }
}

// === impl MetricKind ===

impl MetricKind {
    fn of(kind: MetricType) -> Self {
        match kind {
            MetricType::COUNTER => Self::Counter,
            MetricType::GAUGE => Self::Gauge,
            MetricType::HISTOGRAM => Self::Histogram,
            _ => Self::Other,
        }
    }
}

impl fmt::Display for MetricKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Other => "other",
        })
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{Histogram, HistogramOpts, IntCounterVec, Opts};

    use super::*;

    #[test]
    fn describes_families_in_order_of_their_names() {
        let registry = Registry::new();
        let counter = IntCounterVec::new(Opts::new("b_total", "Bs"), &["y", "x"]).unwrap();
        counter.with_label_values(&["1", "2"]).inc();
        registry.register(Box::new(counter)).unwrap();
        let histogram = Histogram::with_opts(HistogramOpts::new("a_seconds", "As")).unwrap();
        registry.register(Box::new(histogram)).unwrap();
        let described = |name: &str, kind, help: &str, labels: &[&str]| MetricDescription {
            name: name.to_owned(),
            kind,
            help: help.to_owned(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        };
        let expected = [
            described("a_seconds", MetricKind::Histogram, "As", &[]),
            described("b_total", MetricKind::Counter, "Bs", &["x", "y"]),
        ];
        assert_eq!(MetricDescription::of_registry(&registry), expected);
    }

    #[test]
    fn describes_every_family_of_each_program_with_its_labels() {
        let programs = programs().unwrap();
        let numbers = programs.each_ref().map(|(program, families)| (*program, families.len()));
        let expected = [("queue-proxy", 9), ("activator", 17), ("metrics-adapter", 30), ("zero-scaler", 23)];
        assert_eq!(numbers, expected);
        let families: Vec<_> = programs.into_iter().flat_map(|(_, families)| families).collect();
        assert!(families.iter().all(|family| family.name.starts_with("rouse_") && !family.help.is_empty()));
        for (name, labels) in [
            ("queue_proxy_requests_total", "code_class"),
            ("queue_proxy_tcp_connections_total", "outcome"),
            ("metrics_adapter_api_responses_total", "code"),
            ("metrics_adapter_api_service_owned", "name"),
            ("metrics_adapter_scrapes_total", "outcome"),
            ("metrics_adapter_push_dropped_total", "reason"),
            ("metrics_adapter_learning_phase", "namespace,phase,workload"),
            ("zero_scaler_wakes_total", "outcome"),
            ("zero_scaler_reconcile_seconds", "kind"),
            ("zero_scaler_leader", ""),
        ] {
            let family = families.iter().find(|family| family.name == format!("rouse_{name}"));
            assert_eq!(family.unwrap().labels.join(","), labels, "{name}");
        }
    }
}
