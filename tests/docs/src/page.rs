//! The pages: which files are documents, and where they are.

use std::io;
use std::path::{Path, PathBuf};

use crate::block::{Block, blocks};

/// Documents at the top of the repository. The others are in the folder `docs`.
const TOP: [&str; 8] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "MAINTAINERS.md",
    "README.md",
    "ROADMAP.md",
    "SECURITY.md",
];

/// A Markdown file that users read.
#[derive(Clone, Debug)]
pub struct Page {
    /// Path below the repository's root.
    pub path: PathBuf,
    /// The whole text.
    pub text: String,
}

// === impl Page ===

impl Page {
    /// The fenced blocks.
    pub fn blocks(&self) -> Vec<Block> {
        blocks(&self.text)
    }
}

/// The root of the repository around the working directory. Not the compiled-in path of the
/// sources: checkouts share a target directory, so the binary may be from another one.
pub fn root() -> PathBuf {
    let directory = std::env::current_dir().unwrap_or_default();
    let root = directory.ancestors().find(|path| path.join("Cargo.lock").exists());
    root.map(Path::to_owned).unwrap_or_default()
}

/// All documents, by path.
///
/// # Errors
/// When one cannot be read.
pub fn pages(root: &Path) -> io::Result<Vec<Page>> {
    let mut paths: Vec<PathBuf> = TOP.iter().map(PathBuf::from).collect();
    paths.extend(
        files(root, Path::new("docs"))?
            .into_iter()
            .filter(|path| path.extension().is_some_and(|e| e == "md")),
    );
    paths.sort();
    paths
        .into_iter()
        .map(|path| Ok(Page { text: std::fs::read_to_string(root.join(&path))?, path }))
        .collect()
}

/// All files below a folder, as paths below the root.
///
/// # Errors
/// When a folder cannot be read.
pub fn files(root: &Path, folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            found.extend(files(root, &path)?);
        } else {
            found.push(path);
        }
    }
    Ok(found)
}
