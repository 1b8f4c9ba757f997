//! Slots: the places on pods with a container concurrency, divided among the activators and lent
//! between them.
//!
//! `pod_slots` holds one workload's slots. [`slot_exchange`] keeps a [`slot_link`] to each other
//! activator; its [`slot_peers`] are the activators that share slots at one moment, from
//! [`membership`].

pub mod membership;
pub(crate) mod pod_slots;
pub mod slot_exchange;
pub mod slot_link;
pub(crate) mod slot_outbox;
pub mod slot_peers;
