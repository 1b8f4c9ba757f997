//! Learning of the concurrency target: what the pods reported, for the learner of each workload.

pub mod observations;
