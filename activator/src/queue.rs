//! Holding requests: which of them may wait, and in which order.
//!
//! [`workload_throttler`] admits the requests of one workload, [`slot_queue`] orders those that
//! wait and hands them the slots of [`slots`](crate::slots), and [`workload_timers`] bounds the
//! requests that run. [`memory`](proxy::memory) bounds all
//! workloads of the process together.

pub mod context;
pub mod rejection;
pub mod slot_queue;
pub mod workload_throttler;
pub mod workload_timers;
