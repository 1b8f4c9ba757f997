//! Reports to metrics-adapters and zero-scalers: concurrency, pokes, and slow wakes.
//!
//! [`request_counter`] counts the requests of one workload, [`concurrency_reporter`] turns the
//! counts of all workloads into reports, and [`stat_reporter`] pushes them to every receiver.
//! [`carried_publication`] publishes what cannot be reported.
//! [`cold_start`] measures what a held request waited for.

pub mod carried_publication;
pub mod cold_start;
pub mod concurrency_reporter;
pub mod pod_observer;
pub mod poke;
pub mod push_metrics;
mod receiver_connection;
mod report_outbox;
pub mod request_counter;
pub mod stat_reporter;
