//! Checks for a fuzzer that is guided by coverage: each takes bytes as a parser gets them from the
//! network or from a user's annotation, and panics if a rule is broken.
//!
//! `make fuzz-guided TARGET=NAME` runs one with libFuzzer. It begins with the files of
//! `corpus/NAME`: add an input that failed. `tests/fuzz.rs` checks them and random mutations of
//! them in every build. What needs a whole server is in `tests/conformance/tests/fuzz`,
//! `http-client/tests/fuzz` and `metrics-adapter/tests/fuzz`.

#![deny(missing_docs)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is what the fuzzer finds"
)]

mod annotations;
mod datagrams;
mod reports;
mod requests;
mod responses;
mod reviews;
mod selectors;
mod slots;

/// A parser and what it may get.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Also the folder of the corpus.
    pub name: &'static str,
    /// Panics if a rule is broken.
    pub check: fn(&[u8]),
    /// Tokens of the grammar, for random mutations.
    pub words: &'static [&'static [u8]],
}

/// All targets.
pub const TARGETS: [Target; 9] = [
    target("datagrams", datagrams::check, datagrams::WORDS),
    target("no-wake", annotations::check_no_wake, annotations::NO_WAKE_WORDS),
    target("reports", reports::check, reports::WORDS),
    target("requests", requests::check, requests::WORDS),
    target("responses", responses::check, responses::WORDS),
    target("reviews", reviews::check, reviews::WORDS),
    target("schedules", annotations::check_schedule, annotations::SCHEDULE_WORDS),
    target("selectors", selectors::check, selectors::WORDS),
    target("slots", slots::check, slots::WORDS),
];

const fn target(name: &'static str, check: fn(&[u8]), words: &'static [&'static [u8]]) -> Target {
    Target { name, check, words }
}
