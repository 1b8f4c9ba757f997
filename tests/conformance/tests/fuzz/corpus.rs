//! What the rows of the table send, and inputs made from it.

use conformance::case::Step;
use conformance::http2::{self, PREFACE, frame};
use conformance::table;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use crate::input::{Input, Leaving};
use crate::mutation;

const SETTINGS: u8 = 4;

/// Seeds of inputs.
pub(crate) struct Corpus {
    http1: Vec<Vec<u8>>,
    /// Without the preface.
    http2: Vec<Vec<u8>>,
}

// === impl Corpus ===

impl Corpus {
    pub(crate) fn of_the_table() -> Self {
        let http1 = [
            table::request_line::rows(),
            table::headers::rows(),
            table::framing::rows(),
            table::bodies::rows(),
            table::connections::rows(),
            table::hop_by_hop::rows(),
            table::forwarding::rows(),
            table::upgrades::rows(),
        ]
        .concat();
        let sent = http1.iter().map(|row| row.caller.iter().flat_map(sent).collect::<Vec<u8>>());
        let frames = table::http2::rows().into_iter().map(|row| {
            let settings = frame(SETTINGS, 0, 0, []).bytes();
            settings.into_iter().chain(row.caller.iter().flat_map(sent_frames)).collect::<Vec<u8>>()
        });
        Self {
            http1: sent.filter(|bytes| bytes.len() < LARGE).collect(),
            http2: frames.filter(|bytes| bytes.len() < LARGE).collect(),
        }
    }

    /// The next input.
    pub(crate) fn input(&self, random: &mut StdRng) -> Input {
        let is_http2 = random.random_ratio(1, 3);
        let seeds = if is_http2 { &self.http2 } else { &self.http1 };
        let mut bytes = seeds.choose(random).unwrap().clone();
        let other = seeds.choose(random).unwrap();
        for _ in 0..random.random_range(0..4) {
            mutation::mutate(&mut bytes, other, random);
        }
        if is_http2 {
            bytes.splice(..0, PREFACE.iter().copied());
            if random.random_ratio(1, 20) {
                mutation::mutate(&mut bytes, other, random);
            }
        }
        Input { segments: segments(&bytes, random), leaving: Leaving::any(random) }
    }
}

/// Rows with bodies of megabytes are about their size.
const LARGE: usize = 70_000;

fn sent(step: &Step) -> Vec<u8> {
    match step {
        Step::Sends(bytes) => bytes.clone(),
        _ => Vec::new(),
    }
}

fn sent_frames(step: &http2::Step) -> Vec<u8> {
    match step {
        http2::Step::Sends(frames) => frames.iter().flat_map(|frame| frame.bytes()).collect(),
        _ => Vec::new(),
    }
}

/// In up to five parts, some of them at odd places.
fn segments(bytes: &[u8], random: &mut impl Rng) -> Vec<Vec<u8>> {
    let mut cuts: Vec<usize> =
        (0..random.random_range(0..5)).map(|_| random.random_range(0..=bytes.len())).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|cut| bytes[cut[0]..cut[1]].to_vec()).collect()
}
