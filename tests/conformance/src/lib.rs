//! The conformance table: how both proxies must treat well-formed, unusual and malicious clients
//! and apps.
//!
//! ```text
//!  client ── bytes of a row ──► proxy ──────────► app
//!    ▲    ◄─ expected response ──                  │ reads strictly, records its requests
//!    └─────────── runner compares with the row ◄───┘
//! ```
//!
//! The rows (`table`) are data with the source of each rule. They do not depend on the proxy's
//! implementation. `tests/` runs the whole table against each proxy, and then real clients.
//!
//! Where the standards leave a choice, the row is Rouse's choice.

#![deny(missing_docs)]
#![allow(clippy::indexing_slicing, reason = "this is test code; an index out of bounds is a failed row")]

pub mod addresses;
pub mod app;
pub mod app_state;
pub mod case;
pub mod http2;
pub mod runner;
pub mod table;
pub mod wire;
