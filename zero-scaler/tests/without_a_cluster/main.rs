//! The controllers against an API in memory, step by step, on a paused clock: what a cluster cannot show, because there nobody can
//! say when a process dies, a watch is lost or a neighbour writes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "integration tests"
)]

mod cluster;
mod crash;
mod departure;
mod endpoints;
mod hpa;
mod neighbours;
mod orphans;
mod pace;
mod rivals;
mod services;
mod stock_hpa;
mod story;
mod user_written;
mod wakes;
mod watches;
