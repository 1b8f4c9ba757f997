//! The controllers against an API server in memory, step by step, on a paused clock. These tests
//! choose the moment at which a process crashes, a watch is lost or another client writes, which a
//! test on a real cluster cannot.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "integration tests"
)]

mod faults;
mod harness;
mod scaling;
mod services;
