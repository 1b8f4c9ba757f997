//! How many pods a workload should have, zero included.
//!
//! ```text
//!  averages ──► decider ──► Decision ──► scale_bounds ──► size to write
//!                 ▲             └──────► scale_to_zero ──► next step of the scale-to-zero sequence
//!           metric_target                     ▲
//!                              active_condition (pods ready, activating, inactive)
//! ```
//!
//! The metrics-adapter runs the [`decider`]. The zero-scaler receives each [`decision`] and applies
//! the other modules. [`replay`] runs windows and decider over a recorded trace.

pub mod active_condition;
pub mod decider;
pub mod decision;
pub mod decision_reason;
pub mod metric_target;
pub mod pod_start;
pub mod readable;
pub mod replay;
pub mod savings;
pub mod scale_bounds;
pub mod scale_to_zero;
pub mod workload_state;
