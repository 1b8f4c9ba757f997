//! Fuzz tests of servers: API requests and websocket frames. The parsers are in
//! `tests/fuzzing/targets`.
//!
//! No input may panic or lead to a response that is not in the format of the API; and good requests
//! must be served afterwards. Both targets run in parallel. See [`fuzzing`] for the duration and
//! the seeds.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod frames;
mod requests;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;

use fuzzing::{Campaign, Corpus};

/// The corpus of one target.
fn corpus(target: &str, words: &'static [&'static [u8]]) -> Corpus {
    Corpus::read(&Path::new("metrics-adapter/tests/fuzz/corpus").join(target), words)
}

/// Checks the seeds unchanged, then mutations of them. Returns the number of mutations.
fn run(campaign: Campaign, corpus: &Corpus, check: impl Fn(&[u8])) -> usize {
    let mut random = campaign.random(0);
    corpus.seeds().for_each(&check);
    let mut inputs = 0;
    // Reading the clock for every input would be slow.
    while inputs % 100 != 0 || !campaign.is_over() {
        let input = corpus.input(&mut random);
        let guard = PrintOnPanic { input: &input, seed: campaign.seed };
        check(&input);
        std::mem::forget(guard);
        inputs += 1;
    }
    inputs
}

/// Prints the input if its check panics.
struct PrintOnPanic<'a> {
    input: &'a [u8],
    seed: u64,
}

// === impl PrintOnPanic ===

impl Drop for PrintOnPanic<'_> {
    fn drop(&mut self) {
        eprintln!("with seed {}, after \"{}\"", self.seed, self.input.escape_ascii());
    }
}
