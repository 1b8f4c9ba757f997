//! Corpus: meaningful inputs and inputs that failed once, one file each.

#![allow(clippy::expect_used, reason = "a missing corpus fails the test")]

use std::path::Path;
use std::{env, fs};

use rand::seq::IndexedRandom;
use rand::{Rng, RngExt};

use crate::mutate;

/// Most mutations of one input.
const MUTATIONS: usize = 4;

/// Seeds of inputs for one target.
#[derive(Debug)]
pub struct Corpus {
    seeds: Vec<Vec<u8>>,
    words: &'static [&'static [u8]],
}

// === impl Corpus ===

impl Corpus {
    /// Reads the files of a directory of the workspace that the working directory is in; `words`
    /// are tokens of the target's grammar. The path of the workspace is not compiled in: checkouts
    /// share a target directory, so the binary may be from another one.
    ///
    /// # Panics
    /// When there are no files.
    pub fn read(directory: &Path, words: &'static [&'static [u8]]) -> Self {
        let working = env::current_dir().expect("a working directory");
        let workspace = working.ancestors().find(|path| path.join("Cargo.lock").exists());
        let directory = workspace.expect("a workspace").join(directory);
        let files = fs::read_dir(&directory).expect("a corpus");
        let mut paths: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
        // Sorted, because a seed reproduces a run only if the order does not depend on the file
        // system.
        paths.sort();
        assert!(!paths.is_empty(), "{} is empty", directory.display());
        let seeds = paths.into_iter().map(|path| fs::read(path).expect("an input")).collect();
        Self { seeds, words }
    }

    /// The seeds without mutations.
    pub fn seeds(&self) -> impl Iterator<Item = &[u8]> {
        self.seeds.iter().map(Vec::as_slice)
    }

    /// The next input: a seed with random mutations.
    ///
    /// # Panics
    /// Never, because there is at least one seed.
    pub fn input(&self, random: &mut impl Rng) -> Vec<u8> {
        let mut input = self.seeds.choose(random).expect("a seed").clone();
        for _ in 0..random.random_range(1..=MUTATIONS) {
            let other = self.seeds.choose(random).expect("a seed");
            mutate(&mut input, other, self.words, random);
        }
        input
    }
}
