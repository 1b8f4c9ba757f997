//! The settings of the cluster and of one workload.
//!
//! ```text
//!  ConfigMap config-autoscaler ──► AutoscalerConfig ─┐
//!  annotations of the PodAutoscaler ─────────────────┼─► Settings ──► collector, decider, zero-scaler
//!  replica bounds of its spec ───────────────────────┘
//! ```
//!
//! [`AutoscalerConfig`] is the whole ConfigMap or an error. [`Settings`] always exists: a bad annotation is reported and
//! left out. Keys, defaults and bounds are Knative's, unless [`bounds`] says otherwise.

pub(crate) mod bounds;
mod config;
mod reader;
mod reference;
mod replica_bounds;
mod values;
mod workload;

pub use config::AutoscalerConfig;
pub use reader::SettingError;
pub use reference::{SettingReference, reference};
pub use replica_bounds::SpecReplicaBounds;
pub use values::aggregation::Aggregation;
pub use values::duration::parse_duration;
pub use values::reachability::Reachability;
pub use workload::Settings;
