//! The fields of a scenario file, and the [`Scenario`] that they select.

use std::time::Duration;

use autoscaler::contract::metric_name::MetricName;
use autoscaler::scaling::metric_target::MetricTarget;
use autoscaler::settings::LearnTarget;
use serde::Deserialize;
use serde_yaml_ng::{Mapping, Value};

use super::app_spec::{AppSpec, merge};
use super::units::{DurationText, Objective};
use crate::load::{Load, Profile};
use crate::scenario::{AppChange, HpaMetric, Scaler, Scenario, settings};

/// Longest run.
const MAX_DURATION: Duration = Duration::from_secs(24 * 3600);
/// Bound of the load: the simulation keeps a second of arrivals in memory.
const MAX_RPS: f64 = 100_000.0;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ScenarioFile {
    /// Name in the output.
    pub name: String,
    /// Seed of all randomness.
    #[serde(default = "first_seed")]
    pub seed: u64,
    /// Length of the run.
    pub duration: DurationText,
    /// The app, as an [`AppSpec`].
    pub app: Mapping,
    /// Changes of the app.
    #[serde(default)]
    pub changes: Vec<ChangeSpec>,
    /// Requests per second or clients over time.
    pub load: Vec<LoadPoint>,
    /// Times with a higher load.
    pub bursts: Option<BurstSpec>,
    /// Time from a pod's creation to its readiness.
    #[serde(default = "five_seconds")]
    pub pod_start: DurationText,
    /// Requests that a pod takes at a time; 0 means no limit.
    #[serde(default)]
    pub container_concurrency: u32,
    /// `maxReplicas`.
    #[serde(default = "two_hundred")]
    pub max_pods: u32,
    /// The user's `averageValue`. Without one the HPA scales on `desired-replicas`.
    pub target: Option<f64>,
    /// Latency objective.
    pub objective: Option<Objective>,
    /// Whether a target is learned.
    #[serde(default)]
    pub learn: LearnTarget,
}

/// A change of the app.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangeSpec {
    /// Time of the change.
    pub at: DurationText,
    /// Fields that replace the app's.
    pub app: Mapping,
    /// Whether the change is a release.
    #[serde(default)]
    pub new_template: bool,
}

/// A corner of the load, which is linear between two of them.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPoint {
    /// Time of the corner.
    pub at: DurationText,
    /// Requests per second, at random instants.
    pub rps: Option<f64>,
    /// Instead: clients that send the next request when the last one has ended.
    pub clients: Option<f64>,
}

/// Bursts of the load, as of a Markov-modulated Poisson process: the times between bursts and their
/// lengths are exponentially distributed.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstSpec {
    /// Mean time from the end of a burst to the next one.
    pub every: DurationText,
    /// Mean length.
    pub length: DurationText,
    /// Factor on the load in a burst.
    pub factor: f64,
}

/// Why a file is not a scenario.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioFileError {
    /// Not YAML, or not these fields.
    #[error("{0}")]
    Format(#[from] serde_yaml_ng::Error),
    /// A value out of its range.
    #[error("{field}: {fault}")]
    Value {
        field: &'static str,
        /// What is wrong.
        fault: &'static str,
    },
}

// === impl ScenarioFile ===

impl ScenarioFile {
    /// Parses a file and checks its values.
    ///
    /// # Errors
    /// See [`ScenarioFileError`].
    pub fn parse(text: &str) -> Result<Self, ScenarioFileError> {
        let file: Self = serde_yaml_ng::from_str(text)?;
        file.check()?;
        file.apps()?;
        Ok(file)
    }

    /// The user's target; without one, the one that learning starts from: the share of the
    /// container concurrency, or the cluster's default.
    pub fn first_target(&self) -> f64 {
        let start = || {
            let settings = settings(|_| ());
            MetricTarget::resolve(MetricName::Concurrency, self.container_concurrency, &settings).target
        };
        self.target.unwrap_or_else(start)
    }

    /// The scenario.
    ///
    /// # Errors
    /// If a merged app is invalid.
    pub fn scenario(&self) -> Result<Scenario, ScenarioFileError> {
        let (app, changes) = self.apps()?;
        let target = self.first_target();
        let metric = if self.target.is_some() { HpaMetric::Average } else { HpaMetric::Desired };
        let first = self.load.first().map_or(0.0, LoadPoint::level);
        let concurrency = if self.is_closed() { first } else { first * app.mean_seconds() };
        let scenario = Scenario {
            seed: self.seed,
            load: self.traffic(),
            pod_speeds: app.pod_speeds(),
            service_time: app.service_time(),
            app: app.model(),
            app_changes: changes,
            objective: self.objective.map(|objective| objective.latency),
            miss_budget: self.objective.map(|objective| 1.0 - objective.share),
            learn: self.learn.resolve(self.target.is_some()),
            pod_start: Some(self.pod_start.0),
            container_concurrency: self.container_concurrency,
            max_replicas: self.max_pods,
            target,
            target_given: self.target.is_some(),
            scaler: Scaler::Hpa(metric),
            ..Scenario::default()
        };
        // `as` saturates.
        let initial_replicas = ((concurrency / scenario.start()).ceil() as u32).clamp(1, self.max_pods);
        Ok(Scenario { initial_replicas, ..scenario })
    }

    fn check(&self) -> Result<(), ScenarioFileError> {
        let value = |field, fault| Err(ScenarioFileError::Value { field, fault });
        let ordered = self.load.is_sorted_by_key(|point| point.at.0);
        match self {
            _ if self.duration.0 > MAX_DURATION => value("duration", "must be at most 24h"),
            _ if self.load.is_empty() || !ordered => value("load", "must have points in order of time"),
            _ if !self.load.iter().all(|point| point.clients.is_some() == self.is_closed()) => {
                value("load", "must have rps in all points, or clients in all")
            }
            _ if !self.load.iter().all(LoadPoint::is_valid) => {
                value("load", "needs rps or clients from 0 to 100000")
            }
            _ if self.bursts.is_some_and(|bursts| !(0.0..=100.0).contains(&bursts.factor)) => {
                value("bursts", "factor must be from 0 to 100")
            }
            _ if self.target.is_some_and(|target| !(0.001..=1e6).contains(&target)) => {
                value("target", "must be from 0.001 to 1000000")
            }
            _ if self.max_pods == 0 => value("maxPods", "must be at least 1"),
            _ if !self.changes.is_sorted_by_key(|change| change.at.0) => {
                value("changes", "must be in order of time")
            }
            _ => Ok(()),
        }
    }

    fn traffic(&self) -> Load {
        let load =
            if self.is_closed() { Load::clients(self.profile()) } else { Load::poisson(self.profile()) };
        match self.bursts {
            Some(BurstSpec { every, length, factor }) => load.with_bursts(every.0, length.0, factor),
            None => load,
        }
    }

    /// Whether the load is one of clients that wait for their responses.
    fn is_closed(&self) -> bool {
        self.load.first().is_some_and(|point| point.clients.is_some())
    }

    fn profile(&self) -> Profile {
        let first = self.load.first().map_or(0.0, LoadPoint::level);
        let corners = self.load.iter().zip(self.load.iter().skip(1));
        corners.fold(Profile::constant(first), |profile, (from, to)| {
            profile.ramp(from.at.0, to.at.0, to.level())
        })
    }

    /// The first app, and each later one.
    fn apps(&self) -> Result<(AppSpec, Vec<AppChange>), ScenarioFileError> {
        let first = app_spec(&self.app)?;
        let (mut merged, mut changes) = (self.app.clone(), Vec::new());
        for change in &self.changes {
            merge(&mut merged, &change.app);
            let app = app_spec(&merged)?;
            if std::mem::discriminant(&app) != std::mem::discriminant(&first) {
                return Err(ScenarioFileError::Value {
                    field: "changes",
                    fault: "must keep the app's model",
                });
            }
            changes.push(AppChange {
                at: change.at.0,
                app: app.model(),
                service_time: app.service_time(),
                new_template: change.new_template,
            });
        }
        Ok((first, changes))
    }
}

// === impl LoadPoint ===

impl LoadPoint {
    fn level(&self) -> f64 {
        self.rps.or(self.clients).unwrap_or_default()
    }

    fn is_valid(&self) -> bool {
        self.rps.is_some() != self.clients.is_some() && (0.0..=MAX_RPS).contains(&self.level())
    }
}

fn app_spec(app: &Mapping) -> Result<AppSpec, ScenarioFileError> {
    let app: AppSpec = serde_yaml_ng::from_value(Value::Mapping(app.clone()))?;
    match app.fault() {
        Some(fault) => Err(ScenarioFileError::Value { field: "app", fault }),
        None => Ok(app),
    }
}

fn first_seed() -> u64 {
    1
}

fn five_seconds() -> DurationText {
    DurationText(Duration::from_secs(5))
}

fn two_hundred() -> u32 {
    200
}
