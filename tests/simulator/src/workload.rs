//! The scaled workload: its pods, the ReplicaSet that creates and deletes them, and its Service.

pub mod app;
pub mod hold_queue;
pub mod pod;
pub mod pod_speeds;
pub mod processor_sharing;
pub mod replica_set;
pub mod request;
pub mod server_queue;
pub mod service;
