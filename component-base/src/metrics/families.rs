//! Families: makes the metric families of one component, and registers them.

use prometheus::core::Collector;
use prometheus::{
    Error, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

use super::metric_name;

/// The families of one component. Each method fails if the registry has the name already.
#[derive(Clone, Copy, Debug)]
pub struct Families<'a> {
    /// Gets the families.
    pub registry: &'a Registry,
    /// As in labels of Kubernetes objects.
    pub component: &'a str,
}

// === impl Families ===

impl Families<'_> {
    /// A family without labels.
    pub fn counter(&self, suffix: &str, help: &str) -> Result<IntCounter, Error> {
        self.register(IntCounter::with_opts(self.opts(suffix, help))?)
    }

    /// A family with these labels.
    pub fn counters(&self, suffix: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, Error> {
        self.register(IntCounterVec::new(self.opts(suffix, help), labels)?)
    }

    /// A family without labels.
    pub fn gauge(&self, suffix: &str, help: &str) -> Result<IntGauge, Error> {
        self.register(IntGauge::with_opts(self.opts(suffix, help))?)
    }

    /// A family with these labels.
    pub fn gauges(&self, suffix: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, Error> {
        self.register(IntGaugeVec::new(self.opts(suffix, help), labels)?)
    }

    /// A gauge of fractions.
    pub fn float_gauge(&self, suffix: &str, help: &str) -> Result<Gauge, Error> {
        self.register(Gauge::with_opts(self.opts(suffix, help))?)
    }

    /// Gauges of fractions with these labels.
    pub fn float_gauges(&self, suffix: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, Error> {
        self.register(GaugeVec::new(self.opts(suffix, help), labels)?)
    }

    /// A histogram with these upper bounds of its buckets.
    pub fn histogram(&self, suffix: &str, help: &str, buckets: &[f64]) -> Result<Histogram, Error> {
        self.register(Histogram::with_opts(self.buckets(suffix, help, buckets))?)
    }

    /// Histograms with these labels.
    pub fn histograms(
        &self,
        suffix: &str,
        help: &str,
        buckets: &[f64],
        labels: &[&str],
    ) -> Result<HistogramVec, Error> {
        self.register(HistogramVec::new(self.buckets(suffix, help, buckets), labels)?)
    }

    /// Registers a family of another type, made with [`Self::opts`].
    pub fn register<C: Collector + Clone + 'static>(&self, family: C) -> Result<C, Error> {
        self.registry.register(Box::new(family.clone()))?;
        Ok(family)
    }

    /// The name and the help of a family.
    pub fn opts(&self, suffix: &str, help: &str) -> Opts {
        Opts::new(metric_name(self.component, suffix), help)
    }

    fn buckets(&self, suffix: &str, help: &str, buckets: &[f64]) -> HistogramOpts {
        HistogramOpts { common_opts: self.opts(suffix, help), buckets: buckets.to_vec() }
    }
}
