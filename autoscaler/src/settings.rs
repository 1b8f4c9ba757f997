//! Settings of the cluster and of individual workloads.
//!
//! ```text
//!  ConfigMap config-autoscaler ─► AutoscalerConfig ─┐
//!  annotations of the PodAutoscaler ────────────────┼─► Settings ─► decider, zero-scaler
//!  replica bounds of its spec ──────────────────────┘
//! ```
//!
//! [`AutoscalerConfig`] needs a ConfigMap without errors. [`Settings`] always resolve: an invalid
//! annotation is reported and ignored. Each setting is declared once, in one of the
//! [groups](groups). Keys, defaults and bounds are Knative's, except where [`formats`] documents a
//! difference.

mod config;
mod duration;
mod formats;
mod groups;
mod reader;
mod reference;
mod replica_bounds;
mod resolve;
mod setting;
mod values;
mod workload;

pub use config::AutoscalerConfig;
pub use duration::{ParseDurationError, parse_duration};
pub use groups::learning::LearningSettings;
pub use groups::learning::{LEARNING_FACTOR_DEFAULT, MOST_LEARNING_FACTOR};
pub use groups::pods::PodSettings;
#[cfg(feature = "api")]
pub(crate) use groups::pods::{SELECTOR, SIDECAR};
#[cfg(feature = "api")]
pub(crate) use groups::scale::{PAUSED, SCHEDULE};
pub use groups::scale::{ScaleLimits, ScaleSettings};
pub(crate) use groups::target::LEAST_TARGET;
pub use groups::target::TargetSettings;
pub use groups::timeouts::TimeoutSettings;
pub use groups::wake::{DEFAULT_PROGRESS_DEADLINE, DEFAULT_WAKE_TIMEOUT, WakeSettings};
#[cfg(feature = "api")]
pub(crate) use groups::wake::{NO_WAKE, WAITING_PAGE};
pub use groups::window::WindowSettings;
pub use groups::zero::ZeroSettings;
pub use reader::SettingError;
pub use reference::reference;
pub use replica_bounds::SpecReplicaBounds;
pub use setting::SettingReference;
pub use values::aggregation::Aggregation;
pub use values::burst_capacity::BurstCapacity;
pub use values::latency_objective::LatencyObjective;
pub use values::learn_target::LearnTarget;
pub use values::no_wake::{NoWakeRules, ParseNoWakeError};
pub use values::no_wake_response::NoWakeResponse;
pub use values::pause::Pause;
pub use values::reachability::Reachability;
pub use values::schedule::{Schedule, ScheduleChange, ScheduledMinimum};
pub use values::sidecar_mode::SidecarMode;
pub use workload::Settings;
