//! The scaled workload: its pods, the ReplicaSet that creates and deletes them, and its Service.

pub mod hold_queue;
pub mod pod;
pub mod replica_set;
pub mod request;
pub mod service;
