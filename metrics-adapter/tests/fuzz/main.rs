//! Odd bytes to everything that reads what others wrote: stats, selectors, the API's requests, activators' frames.
//!
//! Whatever comes, nothing may panic, nothing that is no number may reach a window, what is answered must be of the API's form, and
//! afterwards all is served as ever. The four run side by side; see [`fuzzing`] for how long, and with what.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod frames;
mod requests;
mod selectors;
mod stats;
#[path = "../support/mod.rs"]
mod support;

use std::path::Path;

use fuzzing::{Campaign, Corpus};

/// The inputs of one target.
fn corpus(target: &str, words: &'static [&'static [u8]]) -> Corpus {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(target);
    Corpus::read(&directory, words)
}

/// Plays the seeds as they are, and then what is made of them; how many there were.
fn play(campaign: Campaign, corpus: &Corpus, check: impl Fn(&[u8])) -> usize {
    let mut random = campaign.random(0);
    corpus.seeds().for_each(&check);
    let mut played = 0;
    // The clock is looked at now and then.
    while played % 100 != 0 || !campaign.is_over() {
        let input = corpus.input(&mut random);
        let told = Told { input: &input, seed: campaign.seed };
        check(&input);
        std::mem::forget(told);
        played += 1;
    }
    played
}

/// Prints the input if the check of it panics.
struct Told<'a> {
    input: &'a [u8],
    seed: u64,
}

// === impl Told ===

impl Drop for Told<'_> {
    fn drop(&mut self) {
        eprintln!("with seed {}, after \"{}\"", self.seed, self.input.escape_ascii());
    }
}
