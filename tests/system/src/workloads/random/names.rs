//! Names as the API accepts them, up to its limits.

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use super::description::{Kind, Names};

/// Of a label of DNS, which a Service is named by.
pub(super) const LONGEST_SERVICE: usize = 63;
/// Of a subdomain of DNS.
pub(super) const LONGEST: usize = 253;
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
const INNER: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789-";

/// Names of one workload.
pub(super) fn names(random: &mut impl Rng, kind: Kind) -> Names {
    Names {
        // Those of StatefulSets are labels of DNS.
        target: name(random, longest_target(kind), kind != Kind::StatefulSet),
        service: name(random, LONGEST_SERVICE, false),
        hpa: name(random, LONGEST, true),
    }
}

/// The longest name of a target with which its own controller makes pods.
pub(super) fn longest_target(kind: Kind) -> usize {
    match kind {
        // It appends a dash and a hash of up to ten characters to the names of ReplicaSets.
        Kind::Deployment => LONGEST - 11,
        // A label of its pods has the same hash behind the name.
        Kind::StatefulSet => LONGEST_SERVICE - 11,
        Kind::ReplicaSet | Kind::CustomResource => LONGEST,
    }
}

/// A third of the names is short, a third of any length, and a third as long as possible.
fn name(random: &mut impl Rng, longest: usize, dots: bool) -> String {
    let length = match random.random_range(0..3) {
        0 => random.random_range(1..=12),
        1 => random.random_range(13..=longest),
        _ => longest,
    };
    let mut name = String::new();
    while name.len() < length {
        let is_end = |at: usize| at == 0 || at + 1 == length;
        // A dot has letters at both sides.
        let beside_dot = name.ends_with('.');
        let dot_fits = dots && !is_end(name.len()) && !is_end(name.len() + 1) && !name.ends_with('-');
        let next = if dot_fits && !beside_dot && random.random_range(0..20) == 0 {
            b'.'
        } else {
            let is_inner = !is_end(name.len()) && !beside_dot;
            // The character before a dot is chosen without knowledge of it, so dashes have none.
            let characters = if is_inner { INNER } else { LETTERS };
            characters.choose(random).copied().unwrap_or(b'a')
        };
        name.push(char::from(next));
    }
    name
}
