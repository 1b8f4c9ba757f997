//! Routing of requests to pods and activators, and limits on concurrent requests.
//!
//! | module | decides |
//! |---|---|
//! | [`sks_mode`] | whether requests go to pods or through activators, and through how many |
//! | [`endpoint_subset`] | which activators serve a workload |
//! | [`activator_choice`] | which of them its slices have while activators come and go |
//! | [`port_lease`] | which activator port identifies a Service port |
//! | [`pod_assignment`] | which activator owns which request slots of each pod |
//! | [`proximity`] | which pods are near an activator |
//! | [`slot_lending`] | which slots activators lend to each other |
//! | [`breaker`] | how many requests run, and how many wait |

pub mod activator_choice;
pub mod breaker;
pub mod endpoint_subset;
pub mod hash;
pub mod pod_assignment;
pub mod port_lease;
pub mod proximity;
pub mod sks_mode;
pub mod slot_lending;
