//! Settings of the cluster and of individual workloads.
//!
//! ```text
//!  ConfigMap config-autoscaler ──► AutoscalerConfig ─┐
//!  annotations of the PodAutoscaler ─────────────────┼─► Settings ──► collector, decider, zero-scaler
//!  replica bounds of its spec ───────────────────────┘
//! ```
//!
//! [`AutoscalerConfig`] needs a ConfigMap without errors. [`Settings`] always resolve: an invalid
//! annotation is reported and ignored. Keys, defaults and bounds are Knative's, except where
//! [`bounds`] documents a difference.

pub(crate) mod bounds;
mod config;
mod reader;
mod reference;
mod replica_bounds;
mod values;
mod workload;

pub use bounds::{LEARNING_FACTOR_DEFAULT, MOST_LEARNING_FACTOR};
pub use config::AutoscalerConfig;
pub use reader::SettingError;
pub use reference::{SettingReference, reference};
pub use replica_bounds::SpecReplicaBounds;
pub use values::aggregation::Aggregation;
pub use values::burst_capacity::BurstCapacity;
pub use values::duration::{ParseDurationError, parse_duration};
pub use values::latency_objective::LatencyObjective;
pub use values::learn_target::LearnTarget;
pub use values::no_wake::{NoWakeRules, ParseNoWakeError};
pub use values::no_wake_response::NoWakeResponse;
pub use values::reachability::Reachability;
pub use values::schedule::{Schedule, ScheduleChange, ScheduledMinimum};
pub use values::sidecar_mode::SidecarMode;
pub use workload::Settings;
