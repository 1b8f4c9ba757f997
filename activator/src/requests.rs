//! The data path: from an accepted connection on a leased port to the end of the response.
//!
//! [`listeners`] opens the leased ports; [`http_handler`] and [`tcp_handler`] carry what arrives
//! there. Both count it with [`reports`](crate::reports), hold it in the [`queue`](crate::queue)
//! and forward it through [`pods`](crate::pods). Beside them, [`wake_endpoint`] answers front doors
//! that call it before they send a request to a pod.

pub mod activator_probe;
pub mod at_zero;
pub mod connection_arrivals;
pub mod context;
pub mod error_response;
pub mod http_connection;
pub mod http_handler;
pub mod listeners;
pub mod pending_request;
pub mod tcp_handler;
pub mod tcp_probes;
pub mod upgrade;
pub mod wake_bound;
pub mod wake_endpoint;
