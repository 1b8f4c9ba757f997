//! MetricsSample: the adapter's own metrics at one time, from its `/metrics`.

use std::collections::HashMap;

/// Values by series, without the common prefix: `scrapes_total{outcome="ok"}`.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetricsSample(HashMap<String, f64>);

// === impl MetricsSample ===

impl MetricsSample {
    pub(crate) fn parse(text: &str) -> Self {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let value = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.strip_prefix("rouse_metrics_adapter_")?.to_owned(), value.parse().ok()?))
        };
        Self(samples.filter_map(value).collect())
    }

    /// The value of a series; 0 if it is absent.
    pub(crate) fn value(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// The number of series of a family with labels.
    pub(crate) fn series(&self, family: &str) -> usize {
        let is_of_family =
            |name: &&String| name.strip_prefix(family).is_some_and(|rest| rest.starts_with('{'));
        self.0.keys().filter(is_of_family).count()
    }

    /// The increase of a series since an earlier sample.
    pub(crate) fn increase_since(&self, before: &Self, name: &str) -> f64 {
        self.value(name) - before.value(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_only_series_of_the_adapter() {
        let text = "# HELP x y\nrouse_metrics_adapter_workloads 3\nrouse_metrics_adapter_scrapes_total{outcome=\"ok\"} 41\nother 5\n";
        let sample = MetricsSample::parse(text);
        assert_eq!(sample.value("workloads"), 3.0);
        assert_eq!(sample.increase_since(&MetricsSample::default(), "scrapes_total{outcome=\"ok\"}"), 41.0);
        assert_eq!(sample.value("other"), 0.0);
        assert_eq!((sample.series("scrapes_total"), sample.series("scrapes")), (1, 0));
    }
}
