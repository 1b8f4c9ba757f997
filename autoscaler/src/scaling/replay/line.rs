//! One line of a trace: its format, and the event that it stands for.

use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::ReplayError;
use super::spec::{Setup, Spec, bounded, whole};
use crate::stats::Stat;
use crate::stats::window::MAX_VALUE;

/// Latest time in a trace, in seconds: some thirty years.
const MAX_T: f64 = 1e9;
/// Largest age of a stat, in seconds. In a cluster it is ten.
const MAX_LATE: u32 = 60;
/// Tolerance of the check for whole milliseconds, in milliseconds: covers the rounding of floats.
const WHOLE: f64 = 1e-3;

/// One line of a trace; [`Replay::take`](super::Replay::take) applies it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct TraceLine(#[serde(deserialize_with = "object")] Fields);

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields {
    t: f64,
    #[serde(default, deserialize_with = "given_object")]
    spec: Option<Spec>,
    #[serde(default, deserialize_with = "given")]
    ready: Option<f64>,
    #[serde(default, deserialize_with = "given_object")]
    stat: Option<Sample>,
    #[serde(default, deserialize_with = "given")]
    decide: Option<bool>,
}

/// The stat of one pod for one second; all stats of a second add up.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sample {
    /// The name of the pod has no effect.
    #[serde(default, rename = "pod")]
    _pod: IgnoredAny,
    concurrency: f64,
    proxied_concurrency: f64,
    request_count: f64,
    proxied_request_count: f64,
    /// Whole seconds that the stat is older than the line.
    #[serde(default)]
    late: f64,
}

/// The content of a line.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// Start line: the spec and the number of ready pods.
    Start(Setup, u32),
    /// A later line.
    Then(Step),
}

/// What a later line changes.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A new spec.
    Spec(Setup),
    /// A stat, and how much older it is than the line.
    Stat(Stat, Duration),
    /// A new number of ready pods.
    Ready(u32),
    /// A decision.
    Decide,
}

/// Deserializes a struct from an object only; serde would also accept an array of its values.
struct Object<T>(PhantomData<T>);

// === impl TraceLine ===

impl TraceLine {
    /// Seconds since the start, as written and in whole milliseconds.
    pub(super) fn time(&self) -> Result<(f64, Duration), ReplayError> {
        let t = self.0.t;
        let out_of_bounds = |bound| Err(ReplayError::OutOfBounds { field: "t", value: t, bound });
        if !(0.0..=MAX_T).contains(&t) {
            return out_of_bounds("seconds from 0 to 1e9");
        }
        let millis = (t * 1000.0).round();
        if (t * 1000.0 - millis).abs() > WHOLE {
            return out_of_bounds("whole milliseconds");
        }
        Ok((t, Duration::from_millis(millis as u64)))
    }

    pub(super) fn event(self) -> Result<Event, ReplayError> {
        match self.0 {
            Fields { spec: Some(spec), ready: Some(pods), stat: None, decide: None, .. } => {
                Ok(Event::Start(spec.setup()?, ready(pods)?))
            }
            Fields { spec: Some(spec), ready: None, stat: None, decide: None, .. } => {
                Ok(Event::Then(Step::Spec(spec.setup()?)))
            }
            Fields { spec: None, ready: Some(pods), stat: None, decide: None, .. } => {
                Ok(Event::Then(Step::Ready(ready(pods)?)))
            }
            Fields { spec: None, ready: None, stat: Some(sample), decide: None, .. } => {
                Ok(Event::Then(Step::Stat(sample.stat()?, sample.late()?)))
            }
            Fields { spec: None, ready: None, stat: None, decide: Some(decide), .. } => {
                if decide {
                    Ok(Event::Then(Step::Decide))
                } else {
                    Err(ReplayError::DecideFalse)
                }
            }
            fields => Err(ReplayError::Kind { found: fields.found() }),
        }
    }
}

// === impl Fields ===

impl Fields {
    fn found(&self) -> String {
        let found: Vec<_> = [
            ("spec", self.spec.is_some()),
            ("stat", self.stat.is_some()),
            ("ready", self.ready.is_some()),
            ("decide", self.decide.is_some()),
        ]
        .into_iter()
        .filter_map(|(name, present)| present.then_some(name))
        .collect();
        if found.is_empty() { "nothing".to_owned() } else { found.join(" and ") }
    }
}

// === impl Sample ===

impl Sample {
    fn late(&self) -> Result<Duration, ReplayError> {
        let seconds = whole("stat.late", self.late, 0..=MAX_LATE, "whole seconds from 0 to 60")?;
        Ok(Duration::from_secs(seconds.into()))
    }

    fn stat(&self) -> Result<Stat, ReplayError> {
        Ok(Stat {
            average_concurrent_requests: recordable("stat.concurrency", self.concurrency)?,
            average_proxied_concurrent_requests: recordable(
                "stat.proxiedConcurrency",
                self.proxied_concurrency,
            )?,
            request_count: recordable("stat.requestCount", self.request_count)?,
            proxied_request_count: recordable("stat.proxiedRequestCount", self.proxied_request_count)?,
            ..Stat::default()
        })
    }
}

// === impl Object ===

impl<'de, T: Deserialize<'de>> Visitor<'de> for Object<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map))
    }
}

fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_map(Object(PhantomData))
}

fn given_object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    object(deserializer).map(Some)
}

/// Deserializes a field that is present; `null` is an error, unlike serde's default for an
/// `Option`.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

fn ready(pods: f64) -> Result<u32, ReplayError> {
    whole("ready", pods, 0..=i32::MAX.unsigned_abs(), "whole pods from 0 to 2147483647")
}

/// Accepts half of what a window accepts, because one value is subtracted from another.
fn recordable(field: &'static str, value: f64) -> Result<f64, ReplayError> {
    bounded(field, value, |v| v.abs() <= MAX_VALUE / 2.0, "a number from -5e99 to 5e99")
}
