//! Corpus: inputs that mean something, and those that once failed; each a file.

#![allow(clippy::expect_used, reason = "a test that cannot begin has failed")]

use std::fs;
use std::path::Path;

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use crate::mutate;

/// Most changes of one input.
const CHANGES: usize = 4;

/// Seeds of inputs to one target.
#[derive(Debug)]
pub struct Corpus {
    seeds: Vec<Vec<u8>>,
    words: &'static [&'static [u8]],
}

// === impl Corpus ===

impl Corpus {
    /// The files of a directory; `words` are what has a meaning to the target.
    ///
    /// # Panics
    /// When there are none.
    pub fn read(directory: &Path, words: &'static [&'static [u8]]) -> Self {
        let files = fs::read_dir(directory).expect("a corpus");
        let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        // The order must not depend on the file system, or a seed would not be enough to do it again.
        paths.sort();
        assert!(!paths.is_empty(), "{} is empty", directory.display());
        let seeds = paths.into_iter().map(|path| fs::read(path).expect("an input")).collect();
        Self { seeds, words }
    }

    /// The seeds as they are.
    pub fn seeds(&self) -> impl Iterator<Item = &[u8]> {
        self.seeds.iter().map(Vec::as_slice)
    }

    /// The next input.
    ///
    /// # Panics
    /// Never: there are seeds.
    pub fn input(&self, random: &mut impl Rng) -> Vec<u8> {
        let mut input = self.seeds.choose(random).expect("a seed").clone();
        for _ in 0..random.random_range(1..=CHANGES) {
            let other = self.seeds.choose(random).expect("a seed");
            mutate(&mut input, other, self.words, random);
        }
        input
    }
}
