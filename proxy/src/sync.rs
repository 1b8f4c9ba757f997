//! Atomics, locks and clock of the types that several threads share.
//!
//! `tests/simulator/threads` compiles the same files with loom's in place of these, and explores
//! every order of the threads' steps.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) use futures::task::AtomicWaker;
pub(crate) use parking_lot::Mutex;
pub(crate) use tokio::time::Instant;
