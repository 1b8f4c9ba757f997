//! Copies of cluster objects, kept by watches and read by the controllers.
//!
//! `watches` fills the stores and puts changed objects into the work queues. Objects of other
//! owners are trimmed to the fields that are read.

pub mod abandoned_targets;
pub mod cached_target;
pub mod cluster_cache;
pub(crate) mod last_activation;
pub mod port_leases;
pub mod reverse_index;
pub mod service;
pub mod slice_index;
pub mod trimmed_store;
pub mod watches;
pub mod work_queue;
