//! DecisionStore: how many pods each workload should have, and the record of why.
//!
//! The [`multi_scaler`] decides on a [`tick_schedule`] and on [`pokes`]. Its results go to the
//! [`decision_store`], which zero-scalers follow, and to the [`decision_history`], which `/why`
//! shows.

pub mod decision_history;
pub mod decision_store;
pub mod multi_scaler;
pub mod pokes;
mod query_times;
pub(crate) mod tick_schedule;
