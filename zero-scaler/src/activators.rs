//! The activators: which are ready and listen, and whether a Service's address leads to them.
//!
//! `path_probe` sends single probes. `directory` uses them before an activator enters the endpoints
//! of a Service; `selection` has the rules, and `recent_joins` delays what is not urgent.
//! `path_verification` uses them before a workload is scaled to zero. `connections` removes an
//! activator with a killed process, and `activator_reports` one that does not report.

pub mod activator_reports;
pub mod connections;
pub mod directory;
pub mod path_probe;
pub mod path_verification;
mod recent_joins;
pub mod selection;

#[cfg(test)]
pub(crate) mod fake_network;
