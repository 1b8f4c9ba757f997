//! Scenario files: a workload, its app and its load as YAML; results as JSON.
//!
//! ```text
//!  file ─► spec (types of the file, errors) ─► Scenario ─► run ─► Outcome (JSON)
//!                                                 └─ sweep: one run for each static target
//! ```
//!
//! [docs/simulate.md](../../../docs/simulate.md) describes the format. The simulation itself is the
//! one of all other tests: a file only selects its inputs.

pub mod app_spec;
pub mod outcome;
pub mod spec;
pub mod sweep;
pub mod units;

pub use outcome::Outcome;
pub use spec::{ScenarioFile, ScenarioFileError};
pub use sweep::sweep;
