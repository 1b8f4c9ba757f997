//! A workload at zero: its waiting page, streams that are kept alive, and its wake without a
//! zero-scaler.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]
#![allow(unreachable_pub, missing_debug_implementations, reason = "shared by test files, not published")]

mod event_streams;
mod fallback_waker;
#[path = "../support/mod.rs"]
mod support;
mod waiting_page;
mod wake_endpoint;
