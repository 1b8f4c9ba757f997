//! Connections as bytes: what the table's rows send, cut, spliced and bent at random, through both
//! proxies at once.
//!
//! Whatever comes, it must end. Nothing may panic; the app, which reads strictly, must not see a
//! request that is none, nor more requests than were sent; nobody may get more answers than
//! requests; and afterwards a request is served as ever, though the app may have but one at a time:
//! so every permit came back, and nothing is counted any more.
//!
//! `FUZZ_SECONDS` says how long (4), `FUZZ_SEED` what (the same each time). Inputs depend on the
//! seed alone; a failure names its seed and prints the input.

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

/// Inputs to one pair of proxies, after which they are looked at and started anew.
const INPUTS: usize = 150;
/// Pairs at a time: much of an input's time is waiting.
const AT_A_TIME: u64 = 4;

#[tokio::test]
async fn no_bytes_do_any_harm() {
    let Campaign { until, seed } = Campaign::from_environment();
    let panics = Panics::count();
    let corpus = Corpus::of_the_table();
    let rounds = (0..AT_A_TIME).map(async |lane| {
        let mut inputs = 0;
        for round in 0.. {
            let random = StdRng::seed_from_u64(seed ^ (lane << 48) ^ (round << 16));
            inputs += play(&corpus, random, until).await;
            if Instant::now() > until {
                break;
            }
        }
        inputs
    });
    let before = open_files();
    let inputs: usize = futures::future::join_all(rounds).await.into_iter().sum();
    assert_eq!(panics.so_far(), 0, "panics, with seed {seed}");
    // The proxies' own threads end a little later than they do.
    while open_files() > before {
        assert!(
            Instant::now() < until + Duration::from_secs(60),
            "{} files were open, {} are",
            before,
            open_files()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("{inputs} inputs, with seed {seed}");
    assert!(inputs > 100, "only {inputs} inputs");
}

/// Sends inputs to one pair of proxies, and returns their number.
async fn play(corpus: &Corpus, mut random: StdRng, until: Instant) -> usize {
    let target = Target::start().await;
    let mut sent = 0;
    for _ in 0..INPUTS {
        let input = corpus.input(&mut random);
        if let Err(error) = target.withstands(&input, &mut random).await {
            panic!("{error:#}\nafter {input}");
        }
        sent += 1;
        if Instant::now() > until {
            break;
        }
    }
    target.is_well().await.unwrap_or_else(|error| panic!("{error:#}\nafter {sent} inputs"));
    sent
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
