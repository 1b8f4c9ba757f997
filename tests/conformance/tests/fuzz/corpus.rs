//! Seed inputs from the rows of the conformance table, and inputs mutated from them.

use conformance::case::ClientStep;
use conformance::http2::{self, PREFACE, frame};
use conformance::table;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use crate::input::{ConnectionEnd, Input};
use fuzzing::mutate;

const SETTINGS: u8 = 4;

/// Tokens with a meaning in HTTP/1.1 or HTTP/2.
const TOKENS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\r\n\r\n",
    b" ",
    b"\t",
    b"\0",
    b":",
    b",",
    b";",
    b"0\r\n\r\n",
    b"ffffffffffffffff\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: identity\r\n",
    b"Connection: close\r\n",
    b"Connection: upgrade\r\nUpgrade: x\r\n",
    b"Expect: 100-continue\r\n",
    b"Host: b\r\n",
    b"Trailer: x\r\n",
    b"GET /in HTTP/1.1\r\nHost: a\r\n\r\n",
    b"HTTP/1.0",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\0\0\0\x04\0\0\0\0\0",
    b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08",
    b"\0\0\x04\x08\0\0\0\0\0\x7f\xff\xff\xff",
];

/// The seeds.
pub(crate) struct Corpus {
    http1: Vec<Vec<u8>>,
    /// Frames without the preface.
    http2: Vec<Vec<u8>>,
}

// === impl Corpus ===

impl Corpus {
    pub(crate) fn from_table() -> Self {
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
        let sent = http1.iter().map(|row| row.client.iter().flat_map(sent).collect::<Vec<u8>>());
        let frames = table::http2::rows().into_iter().map(|row| {
            let settings = frame(SETTINGS, 0, 0, []).bytes();
            settings.into_iter().chain(row.client.iter().flat_map(sent_frames)).collect::<Vec<u8>>()
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
            mutate(&mut bytes, other, TOKENS, random);
        }
        if is_http2 {
            bytes.splice(..0, PREFACE.iter().copied());
            if random.random_ratio(1, 20) {
                mutate(&mut bytes, other, TOKENS, random);
            }
        }
        Input { segments: segments(&bytes, random), end: ConnectionEnd::any(random) }
    }
}

/// Bound of a seed. Longer rows test limits of size.
const LARGE: usize = 70_000;

fn sent(step: &ClientStep) -> Vec<u8> {
    match step {
        ClientStep::Sends(bytes) => bytes.clone(),
        _ => Vec::new(),
    }
}

fn sent_frames(step: &http2::Http2Step) -> Vec<u8> {
    match step {
        http2::Http2Step::Sends(frames) => frames.iter().flat_map(|frame| frame.bytes()).collect(),
        _ => Vec::new(),
    }
}

/// Splits the bytes into up to five segments at random places.
fn segments(bytes: &[u8], random: &mut impl Rng) -> Vec<Vec<u8>> {
    let mut cuts: Vec<usize> =
        (0..random.random_range(0..5)).map(|_| random.random_range(0..=bytes.len())).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|cut| bytes[cut[0]..cut[1]].to_vec()).collect()
}
