//! Models of the hand-over between the parts, for an exhaustive search (stateright).
//!
//! Each model has the state of several processes, and every order of their steps and of faults. The
//! rules are those of the programs: a step of a model calls them. What is proven, and under which
//! assumptions, is in docs/design/scale-to-zero.md.

#![allow(
    clippy::indexing_slicing,
    reason = "indices are of replicas and nodes, and a wrong one fails the search"
)]

pub mod election;
pub mod port_lease;
pub mod sequence;
