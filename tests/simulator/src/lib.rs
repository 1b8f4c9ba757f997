//! The autoscaling loop in virtual time: clients, pods, activators, decisions, zero-scaler and HPA.
//!
//! ```text
//!   load ─► service ─┬─ Serve ──────────────────────────► pod: queue-proxy and app
//!                    └─ Proxy ─► activator ─ holds ─────►  │
//!                                 │ stats each second,     │ stats each second
//!                                 │ a poke at once         │
//!                                 ▼                        ▼
//!                              metrics_adapter ◄── stats_scraper (a sample of the pods)
//!                              windows ► decider, every 2 s or when poked
//!                                 │ metric                 │ decisions
//!                                 ▼                        ▼
//!                                hpa ── 1..N ──┐      zero_scaler ──► Proxy or Serve (service)
//!                                 every 15 s   ▼           │ 0 ↔ n, panic, or all sizes
//!                                          replica_set ◄───┘
//!                                          pods start, serve, drain, exit
//! ```
//!
//! Decisions are made by the code of the crate `autoscaler`: windows, decider, scale-to-zero
//! sequence and mode, called as the binaries call them. Each file here models one part of the
//! environment: networks and API servers are fixed delays, pods are slots that are busy for a time,
//! and the HPA is its exact arithmetic.
//!
//! A [`Scenario`] contains all inputs of a run and a [`Report`] all results. No code here reads a
//! clock, and all randomness comes from the scenario's seed. A run of hours takes seconds and is
//! reproducible:
//!
//! ```
//! use std::time::Duration;
//! use simulator::{Load, Profile, Scenario};
//!
//! let clients = Load::clients(Profile::constant(100.0));
//! let scenario = Scenario { load: clients, ..Scenario::default() };
//! let report = scenario.run(Duration::from_secs(600)).unwrap();
//! assert_eq!(report.final_size(), 2, "{report}");
//! ```
//!
//! To follow the loop, start at `simulation` (the events), then `simulation/traffic` (the path of a
//! request) and `simulation/control` (the path from measurements to the number of pods).

pub mod activator;
pub mod clock;
pub mod hpa;
pub mod load;
pub mod metrics_adapter;
pub mod plot;
pub mod report;
pub mod scenario;
pub mod scenario_file;
pub mod simulation;
pub mod workload;
pub mod zero_scaler;

pub use load::service_time::ServiceTime;
pub use load::{Load, Profile};
pub use report::latencies::Latencies;
pub use report::{Report, TimelineSample};
pub use scenario::{AppChange, HpaMetric, Scaler, Scenario, settings};
pub use simulation::event_queue::EventQueueFull;
pub use simulation::{RunError, Simulation};
pub use workload::app::AppModel;
pub use workload::replica_set::{SizeChange, Writer};
