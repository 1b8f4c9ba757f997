//! The conformance table: what both proxies must answer to well-formed, odd and malicious callers and apps.
//!
//! ```text
//!  caller ── bytes of a row ──► proxy ── ? ──► app
//!    ▲    ◄── must come back ──   │              │ reads strictly, remembers what it saw
//!    └────────── runner compares with the row ◄──┘
//! ```
//!
//! The rows are data (`table`), with the place where each rule is written. They know nothing of how a proxy works: whatever
//! it is built on, it has to keep them. `tests/` runs the whole table against each proxy, and real clients after it.
//!
//! Where the standards leave a choice, the row is what we chose, and its name says so.

#![deny(missing_docs)]
#![allow(
    clippy::indexing_slicing,
    reason = "this is test code; an index out of bounds is a row that does not hold"
)]

pub mod app;
pub mod case;
pub mod http2;
pub mod runner;
pub mod table;
pub mod wire;
