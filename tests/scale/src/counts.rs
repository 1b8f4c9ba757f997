//! Counts: some of the adapter's own metrics, from the text that Prometheus reads.

use std::collections::HashMap;

/// Values by the name with its labels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(HashMap<String, f64>);

// === impl Counts ===

impl Counts {
    pub(crate) fn parse(text: &str) -> Self {
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let value = |line: &str| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.strip_prefix("rouse_metrics_adapter_")?.to_owned(), value.parse().ok()?))
        };
        Self(samples.filter_map(value).collect())
    }

    /// One value; 0 if it is not there.
    pub(crate) fn of(&self, name: &str) -> f64 {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// By how much it has grown since `before`.
    pub(crate) fn since(&self, before: &Self, name: &str) -> f64 {
        self.of(name) - before.of(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_told_from_the_rest() {
        let text = "# HELP x y\nrouse_metrics_adapter_workloads 3\nrouse_metrics_adapter_scrapes_total{outcome=\"ok\"} 41\nother 5\n";
        let counts = Counts::parse(text);
        assert_eq!(counts.of("workloads"), 3.0);
        assert_eq!(counts.since(&Counts::default(), "scrapes_total{outcome=\"ok\"}"), 41.0);
        assert_eq!(counts.of("other"), 0.0);
    }
}
