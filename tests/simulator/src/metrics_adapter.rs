//! Metrics adapter: collects stats, decides every two seconds or when poked, and serves the HPA.
//!
//! The decisions are those of `autoscaler`; this module models the process around them. After an
//! outage it starts with empty windows and a new decider.

pub mod learning;
pub mod stats_scraper;

use autoscaler::contract::metric_name::MetricName;
use autoscaler::contract::quantity::milli_from_f64;
use autoscaler::scaling::decider::{Decider, DeciderSpec};
use autoscaler::stats::Stat;
use autoscaler::stats::collection::{Collection, ScrapeResult, WindowAverages, WindowSpec};
use autoscaler::{Decision, Key};

use crate::clock::{Time, unix, unix_millis};
use crate::hpa::NoMetric;
use crate::metrics_adapter::learning::Learning;
use crate::scenario::{HpaMetric, Scenario};

/// The adapter's state for the workload.
#[derive(Debug)]
pub struct MetricsAdapter {
    spec: DeciderSpec,
    measure: MetricName,
    target_milli: i64,
    collection: Collection,
    decider: Option<Decider>,
    decision: Option<Decision>,
    learning: Option<Learning>,
}

// === impl MetricsAdapter ===

impl MetricsAdapter {
    /// An adapter without data.
    pub fn new(scenario: &Scenario) -> Self {
        let settings = &scenario.settings;
        let windows = WindowSpec {
            stable: settings.window.stable,
            panic: settings.window.panic(),
            aggregation: settings.window.aggregation,
        };
        Self {
            spec: scenario.decider_spec(),
            measure: scenario.measure,
            target_milli: scenario.target_milli(),
            collection: Collection::new(windows),
            decider: None,
            decision: None,
            learning: Learning::new(scenario),
        }
    }

    /// Records a stat of an activator.
    pub fn record_push(&mut self, stat: &Stat, now: Time) {
        let second = u64::try_from(stat.timestamp).unwrap_or(0);
        self.collection.record(Time::from_secs(second), stat);
        if !stat.is_idle() {
            self.collection.idleness_mut().activator(unix(now));
        }
    }

    /// Records a scrape. An activator is always connected here, so data exists even
    /// without pods.
    pub fn record_scrape(&mut self, round: &ScrapeResult, now: Time) {
        self.collection.record_scrape(unix(now), round, true);
    }

    /// Whether a request needs a decision at once: the workload is at zero or undecided.
    pub fn needs_poke(&self) -> bool {
        self.decision.as_ref().is_none_or(|decision| decision.desired == 0)
    }

    /// Makes a decision. Without data the previous one stays, except for its idle time; `None` if
    /// there is none.
    pub fn decide(&mut self, ready: u32, now: Time) -> Option<Decision> {
        let averages = self.averages(now);
        if let Some(learning) = &mut self.learning
            && let Some(spec) = learning.decide(averages, ready, now)
        {
            self.spec = spec;
        }
        let idle_since = self.idle_since(now);
        let decider = self.decider.get_or_insert_with(|| Decider::new(&self.spec, ready, unix(now)));
        // An empty window means no requests only if a source reported.
        let has_data = averages.is_some() || idle_since.is_some();
        let result = has_data.then(|| decider.decide(&self.spec, averages, ready, unix(now))).flatten();
        let panicking = decider.is_panicking();
        self.decision = match result {
            Some(result) => {
                let key = Key::new("shop", "web");
                Some(Decision::new(key, result, panicking, ready, idle_since, unix_millis(now)))
            }
            None => self.decision.take().map(|old| Decision { idle_since, ..old }),
        };
        self.decision.clone()
    }

    /// What learns the target, unless it is off.
    pub fn learning_mut(&mut self) -> Option<&mut Learning> {
        self.learning.as_mut()
    }

    /// Requests that a pod may have at a time, by what is learned.
    pub fn temporary_limit(&self) -> Option<u32> {
        self.learning.as_ref().and_then(Learning::temporary_limit)
    }

    /// The newest decision.
    pub fn decision(&self) -> Option<&Decision> {
        self.decision.as_ref()
    }

    /// The metric for the HPA in thousandths, for this number of pods.
    ///
    /// # Errors
    /// Without data: never 0, unless the workload is at zero.
    pub fn metric(&self, metric: HpaMetric, pods: usize, now: Time) -> Result<i64, NoMetric> {
        let at_zero = || if pods == 0 && self.idle_since(now).is_some() { Ok(0) } else { Err(NoMetric) };
        let held = self.decision.as_ref();
        match metric {
            HpaMetric::Average => {
                let Some(averages) = self.averages(now) else { return at_zero() };
                let floor = held.map_or(0, |decision| decision.metric_floor(self.target_milli));
                let scale = self.learning.as_ref().map_or(1.0, Learning::metric_scale);
                milli_from_f64(averages.stable.max(0.0) * scale)
                    .map(|stable| stable.max(floor))
                    .ok_or(NoMetric)
            }
            HpaMetric::Desired => held.map_or_else(at_zero, |d| Ok(i64::from(d.desired) * 1000)),
        }
    }

    fn averages(&self, now: Time) -> Option<WindowAverages> {
        self.collection.averages(self.measure, unix(now))
    }

    fn idle_since(&self, now: Time) -> Option<i64> {
        let since = self.collection.idleness().since(unix(now))?;
        i64::try_from(since.as_millis()).ok()
    }
}
