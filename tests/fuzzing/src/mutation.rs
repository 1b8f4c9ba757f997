//! Random mutations of an input.

#![allow(clippy::indexing_slicing, reason = "every index is drawn from the valid range")]

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

/// Applies one random mutation. `other` is another input, `words` are tokens of the target's
/// grammar.
pub fn mutate(bytes: &mut Vec<u8>, other: &[u8], words: &[&[u8]], random: &mut impl Rng) {
    let at = random.random_range(0..=bytes.len());
    let end = (at + random.random_range(0..40)).min(bytes.len());
    match random.random_range(0..9) {
        0 => bytes.truncate(at),
        1 => drop(bytes.drain(at..end)),
        2 => drop(bytes.splice(at..at, words.choose(random).copied().unwrap_or_default().iter().copied())),
        3 => drop(bytes.splice(at..end, words.choose(random).copied().unwrap_or_default().iter().copied())),
        4 => {
            // The start of this input and the end of the other.
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
