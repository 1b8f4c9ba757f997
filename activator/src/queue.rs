//! Holding requests: which of them may wait, and in which order.
//!
//! [`workload_throttler`] holds the requests of one workload. Its parts: [`admission`] rejects what
//! may not wait, [`workload_memory`] bounds what connections and requests take, [`slot_queue`]
//! orders requests that wait and hands them the slots of [`slots`](crate::slots),
//! [`workload_prober`] verifies the [`workload_pods`], [`workload_timers`] bounds the requests that
//! run, and [`cold_starts`] reports what requests waited for. [`memory`](proxy::memory) bounds all
//! workloads of the process together.

pub mod admission;
pub mod cold_starts;
pub mod context;
pub mod rejection;
pub mod slot_queue;
pub mod workload_memory;
pub mod workload_pods;
pub mod workload_prober;
pub mod workload_throttler;
pub mod workload_timers;
