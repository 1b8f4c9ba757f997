//! Problems of a workload's objects, each with its reason, its words and its fix (feature `api`).
//!
//! ```text
//!  reasons (the tables) ─┬─► the checks of this module ─► Problem ─┬─► zero-scaler: conditions
//!                        │                                         └─► kubectl rouse check
//!                        └─► reference pages
//! ```
//!
//! The checks are pure functions of objects of the Kubernetes API. The zero-scaler calls them on
//! its cache, and `kubectl rouse check` where no condition has the result: before a workload has a
//! PodAutoscaler, and without any zero-scaler.

pub mod annotations;
pub mod deployment_conditions;
pub mod hpa;
pub mod inference_pool;
pub mod pod_start;
pub mod pod_status;
mod problem;
pub mod reasons;
pub mod service;
pub mod sidecar;
mod sidecar_conflict;
pub mod wake;

pub use problem::Problem;
pub use sidecar_conflict::SidecarConflict;
