//! Which pods and activators a request may use, and how many requests run at a time.
//!
//! | module | question |
//! |---|---|
//! | [`sks_mode`] | do requests go to the pods, or through activators, and through how many |
//! | [`endpoint_subset`] | which activators serve a workload |
//! | [`port_lease`] | which activator port stands for which Service port |
//! | [`pod_assignment`] | which activator owns which request slots of which pod |
//! | [`slot_lending`] | which of these slots activators lend to each other |
//! | [`breaker`] | how many requests run, and how many wait |
//! | [`fair_share`] | how workloads share the queue of one activator |

pub mod breaker;
pub mod endpoint_subset;
pub mod fair_share;
mod hash;
pub mod pod_assignment;
pub mod port_lease;
pub mod sks_mode;
pub mod slot_lending;
