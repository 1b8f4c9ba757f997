//! The scaling decisions of Rouse, and the types that its processes exchange.
//!
//! ```text
//!  requests ──► stats::RequestStats ──► Stat ─┬─ scraped from queue-proxies ─┐
//!                                             └─ pushed by activators ───────┤
//!                                                                            ▼
//!              stats::collection (stable and panic windows) ──► averages(now)
//!                                                                            │
//!                                                                            ▼
//!                                          scaling::decider::Decider ──► Decision
//!                                                                            │
//!           scaling::{scale_to_zero, active_condition}, routing::sks_mode ◄──┘
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`contract`] | names, ports and text formats that processes, manifests and users share |
//! | [`settings`] | the ConfigMap `config-autoscaler` and the annotations of a workload |
//! | [`stats`] | what a process reports about its requests, and the windows over these reports |
//! | [`scaling`] | how many pods a workload should have, zero included |
//! | [`learning_report`] | the learned target in a decision: how many requests fit one pod |
//! | [`history`] | the last hour of a workload: its samples and wakes |
//! | [`routing`] | which pods and activators a request may use, and how many at a time |
//! | `api` | the custom resources (feature `api`) |
//! | `findings` | problems of a workload's objects, with reasons, words and fixes (feature `api`) |
//!
//! The four binaries collect the input, call this crate, and act on the result. The crate does no
//! IO, reads no clock and draws no random numbers: instants and generators are arguments. A test of
//! hours of traffic thus takes milliseconds. `Cargo.toml` enforces this: no HTTP, Kubernetes client
//! or timer is among the dependencies.
//!
//! The custom resources and findings are behind the feature `api`. queue-proxy builds without it,
//! and therefore without kube.

#[cfg(feature = "api")]
pub mod api;
pub mod contract;
#[cfg(feature = "api")]
pub mod findings;
pub mod history;
pub mod learning_report;
pub mod routing;
pub mod scaling;
pub mod settings;
pub mod stats;

pub use contract::key::Key;
pub use contract::protocol::Protocol;
pub use scaling::decision::{Decision, DecisionEvent};
