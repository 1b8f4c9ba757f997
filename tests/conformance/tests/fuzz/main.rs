//! Fuzzing of both proxies with byte streams: bytes of the table's rows, cut, spliced and mutated.
//!
//! Invariants: each connection ends. No thread panics. The app, which parses strictly, receives
//! only valid requests and not more than were sent. No client gets more responses than requests.
//! Afterwards requests are still served with a container concurrency of 1, so all permits were
//! returned, and no request is in flight.
//!
//! `FUZZ_SECONDS` is the duration (default 4), `FUZZ_SEED` the seed (default: a constant). Inputs
//! depend on the seed alone. A failure prints its seed and the input.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod corpus;
mod input;
#[path = "../support/mod.rs"]
mod support;
mod target;

use std::time::Duration;

use fuzzing::{Campaign, Panics};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::time::Instant;

use crate::corpus::Corpus;
use crate::target::Target;

/// Inputs per pair of proxies. Then the pair is checked and replaced.
const INPUTS: usize = 150;
/// Pairs in parallel, because an input is mostly waiting.
const AT_A_TIME: u64 = 4;

#[tokio::test]
async fn proxies_keep_invariants_for_any_bytes() {
    let Campaign { until, seed } = Campaign::from_environment();
    let panics = Panics::count();
    let corpus = Corpus::from_table();
    let rounds = (0..AT_A_TIME).map(async |lane| {
        let mut inputs = 0;
        for round in 0.. {
            let random = StdRng::seed_from_u64(seed ^ (lane << 48) ^ (round << 16));
            inputs += run_inputs(&corpus, random, until).await;
            if Instant::now() > until {
                break;
            }
        }
        inputs
    });
    let before = open_files();
    let inputs: usize = futures::future::join_all(rounds).await.into_iter().sum();
    assert_eq!(panics.so_far(), 0, "panics with seed {seed}");
    // The threads of the proxies end a little later than the proxies.
    while open_files() > before {
        assert!(
            Instant::now() < until + Duration::from_secs(60),
            "{} files were open before, {} are open now",
            before,
            open_files()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("{inputs} inputs with seed {seed}");
    assert!(inputs > 100, "only {inputs} inputs");
}

/// Sends inputs to a new pair of proxies. Returns their number.
async fn run_inputs(corpus: &Corpus, mut random: StdRng, until: Instant) -> usize {
    let target = Target::start().await;
    let mut sent = 0;
    for _ in 0..INPUTS {
        let input = corpus.input(&mut random);
        if let Err(error) = target.check_input(&input, &mut random).await {
            panic!("{error:#}\nafter {input}");
        }
        sent += 1;
        if Instant::now() > until {
            break;
        }
    }
    target.check_health().await.unwrap_or_else(|error| panic!("{error:#}\nafter {sent} inputs"));
    sent
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
