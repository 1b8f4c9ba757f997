//! `kubectl rouse`, as a library so that tests can run its commands on an API in memory.
//!
//! ```text
//!  args ─► app ─┬─► connection ─► the API server, with the user's kubeconfig and rights
//!               ├─► status, why, top      ◄── workloads: PodAutoscalers and their `why`
//!               ├─► ui                    ◄── the same, watched, and their last hours
//!               ├─► check                 ◄── objects of the cluster and of each workload
//!               ├─► init, size (wake, sleep)
//!               └─► load: record, shadow  ◄── inputs of a workload's decisions
//!                         simulate        ◄── a recorded trace; needs no cluster
//! ```
//!
//! Each command reads objects, computes a result by a pure function, and prints it as text or, with
//! `-o json`, as one JSON value. Only `wake` and `sleep` write, and only to the scale subresource
//! of the workload's target. A command's result is printed to standard output, an error to standard
//! error.

pub mod app;
pub mod args;
pub mod check;
pub mod completion;
pub mod connection;
pub mod error;
pub mod init;
pub mod load;
pub mod output;
pub mod size;
pub mod ui;
pub mod workloads;
