//! Rouse's brain: everything that decides, and the types that cross a process border.
//!
//! ```text
//!  requests ──► stats::RequestStats ──► Stat ─┬─ scraped from queue-proxies ─┐
//!                                             └─ pushed by activators ───────┤
//!                                                                            ▼
//!                              Collection (stable and panic windows) ──► averages(now)
//!                                                                            │
//!                                                                            ▼
//!                                                                   Decider ──► Decision
//!                                                                            │
//!                                   scale_to_zero, activation, sks_mode  ◄───┘
//! ```
//!
//! Input comes from the four binaries, which observe, call in here, and act on the answer. Nothing in this crate does
//! IO, reads a clock or draws a random number: instants and generators are arguments, so hours of traffic are tested
//! in milliseconds. The manifest proves it: there is no hyper, no kube client and no tokio timer to call.
//!
//! The custom resources live here too, behind the feature `api`, because all control-plane binaries share them;
//! queue-proxy builds without that feature and holds no kube at all.

pub mod activation;
#[cfg(feature = "api")]
pub mod api;
pub mod breaker;
pub mod collection;
pub mod config;
pub mod contract;
pub mod decider;
pub mod decision;
pub mod endpoint_subset;
pub mod fair_share;
mod key;
pub mod pod_assignment;
pub mod pod_start;
pub mod port_lease;
pub mod protocol;
pub mod quantity;
pub mod reachability;
pub mod replay;
pub mod scale_bounds;
pub mod scale_to_zero;
pub mod selector;
pub mod settings;
pub mod sks_mode;
pub mod slot_lending;
pub mod stats;
pub mod target;
pub mod window;

pub use decision::{Decision, DecisionEvent};
pub use key::Key;
pub use protocol::Protocol;
