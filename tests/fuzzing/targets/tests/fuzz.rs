//! The files of each corpus, and random mutations of them. See [`fuzzing`] for the duration and the
//! seeds.

#![allow(clippy::panic, reason = "a broken rule panics")]

use std::path::Path;

use fuzz_targets::TARGETS;
use fuzzing::{Campaign, Corpus};

/// Inputs of one target before the next one has its turn.
const BATCH: usize = 50;

#[test]
fn no_bytes_break_a_parser() {
    let campaign = Campaign::from_environment();
    let folder = Path::new("tests/fuzzing/targets/corpus");
    let corpora = TARGETS.map(|target| Corpus::read(&folder.join(target.name), target.words));
    for (target, corpus) in TARGETS.iter().zip(&corpora) {
        corpus.seeds().for_each(target.check);
    }
    let mut random = campaign.random(0);
    let mut inputs = 0;
    while !campaign.is_over() {
        for (target, corpus) in TARGETS.iter().zip(&corpora) {
            for _ in 0..BATCH {
                let input = corpus.input(&mut random);
                let guard = PrintOnPanic { target: target.name, input: &input, seed: campaign.seed };
                (target.check)(&input);
                std::mem::forget(guard);
            }
        }
        inputs += BATCH;
    }
    println!("{inputs} inputs for each of {} parsers", TARGETS.len());
}

/// Prints the input if its check panics.
struct PrintOnPanic<'a> {
    target: &'static str,
    input: &'a [u8],
    seed: u64,
}

// === impl PrintOnPanic ===

impl Drop for PrintOnPanic<'_> {
    fn drop(&mut self) {
        eprintln!("{} with seed {}, after \"{}\"", self.target, self.seed, self.input.escape_ascii());
    }
}
