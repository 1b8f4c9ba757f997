//! Random workloads: what a user may write, one fault each, and what is expected then.
//!
//! ```text
//! seed ─► generator ─► Description ─► manifests ─► the API
//!                          └─► report, outcome: what the test checks
//! ```
//!
//! Pure: one seed gives the same workloads, and the workload of an index does not depend on how
//! many there are. The test that applies them is `zero::random_workloads`.

pub mod description;
pub mod generator;
pub mod manifests;
mod names;
