//! How bytes are bent.

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

/// What has a meaning somewhere.
const WORDS: &[&[u8]] = &[
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

/// Changes something.
pub(crate) fn mutate(bytes: &mut Vec<u8>, other: &[u8], random: &mut impl Rng) {
    let at = random.random_range(0..=bytes.len());
    let end = (at + random.random_range(0..40)).min(bytes.len());
    match random.random_range(0..9) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => drop(bytes.splice(at..at, WORDS.choose(random).unwrap().iter().copied())),
        3 => drop(bytes.splice(at..end, WORDS.choose(random).unwrap().iter().copied())),
        4 => {
            // The start of one and the end of another.
            let from = random.random_range(0..=other.len());
            bytes.splice(at.., other[from..].iter().copied());
        }
        5 => bytes.extend_from_slice(other),
        6 => {
            let part = bytes[at..end].to_vec();
            bytes.splice(at..at, part);
        }
        7 => bytes[at..end].iter_mut().take(1).for_each(|byte| *byte ^= 1 << random.random_range(0..8)),
        _ => bytes[at..end].iter_mut().take(3).for_each(|byte| *byte = random.random()),
    }
}
