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

#[cfg(feature = "api")]
pub mod api;
pub mod breaker;
pub mod config;
pub mod contract;
pub mod decision;
mod key;
pub mod quantity;
pub mod selector;
pub mod settings;
pub mod stats;

pub use decision::{Decision, DecisionEvent};
pub use key::Key;
