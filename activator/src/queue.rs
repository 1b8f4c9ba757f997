//! Holding requests: which of them may wait, in which order, and within which memory.
//!
//! [`workload_throttler`] admits the requests of one workload, [`slot_queue`] orders those that
//! wait and hands them the slots of [`slots`](crate::slots), and [`hold_budget`] bounds all
//! workloads of the process together.

pub mod context;
pub mod hold_budget;
pub mod rejection;
pub mod slot_queue;
pub mod workload_throttler;
