//! The whole loop in virtual time: callers, pods, activators, the brain, the zero-scaler's rules and the stock HPA.
//!
//! ```text
//!   arrivals ──► service ─┬─ Serve ─────────────────────────► pod: sidecar and app
//!   (load,                └─ Proxy ─► activator ─ holds ────►  │
//!    service_time)                     │ pushes each second,   │ reports each second
//!                                      │ pokes at once         │
//!                                      ▼                       ▼
//!                                   metrics_adapter ◄── stats_scraper (a sample of the pods)
//!                                   windows ► decider, each 2 s or when poked
//!                                      │ metric                │ decisions
//!                                      ▼                       ▼
//!                                     hpa ── 1..N ──┐     zero_scaler ──► Proxy or Serve (service)
//!                                      each 15 s    ▼          │ 0 ↔ n, panic, or all sizes
//!                                               replica_set ◄──┘
//!                                               pods start, answer, drain, go
//! ```
//!
//! What decides is the real thing: `autoscaler`'s windows, decider, way to zero and mode are called here as the binaries call
//! them. What is modelled, one file each, is what surrounds them: networks and API servers as fixed delays, pods as
//! places that are taken for a time, the HPA as its exact arithmetic.
//!
//! A [`Scenario`] says everything that a run depends on, a [`Report`] everything that happened in it. Nothing here reads a clock
//! and all randomness comes from the scenario's seed, so a run of hours takes seconds and is the same each time:
//!
//! ```
//! use std::time::Duration;
//! use simulator::{Load, Profile, Scenario};
//!
//! let callers = Load::callers(Profile::constant(100.0));
//! let report = Scenario { load: callers, ..Scenario::default() }.run(Duration::from_secs(600)).unwrap();
//! assert_eq!(report.final_size(), 2, "{report}");
//! ```
//!
//! What it shows stands in `tests/`: a wake (`wake`), rest under noise (`oscillation`), that HPA and KPA end at the same size
//! (`hpa_and_kpa`), sleep (`zero`), outages (`missing_data`), several activators (`lending`), and what holds always (`laws`).
//!
//! To follow the loop, start at `simulation` (the events), then `simulation/traffic` (what becomes of a request) and
//! `simulation/control` (what becomes of the number of pods).

pub mod activator;
pub mod arrivals;
pub mod clock;
pub mod event_queue;
pub mod hold_queue;
pub mod hpa;
pub mod latencies;
pub mod load;
pub mod metrics_adapter;
pub mod pod;
pub mod pod_slots;
pub mod replica_set;
pub mod report;
pub mod request;
pub mod scenario;
pub mod service;
pub mod service_time;
pub mod simulation;
pub mod stats_scraper;
pub mod zero_scaler;

pub use event_queue::EventQueueFull;
pub use latencies::Latencies;
pub use load::{Load, Profile};
pub use replica_set::{Change, Writer};
pub use report::{Report, Sample};
pub use scenario::{HpaMetric, Scaler, Scenario, settings};
pub use service_time::ServiceTime;
pub use simulation::{RunError, Simulation};
