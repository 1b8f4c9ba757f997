//! Folders with more entries than a reader takes in at once.

use std::collections::{BTreeMap, BTreeSet};

/// Recorded data: as many files as there are cases.
const DATA: [&str; 2] = ["tests/traces", "/corpus"];

pub(crate) struct CrowdedFolder {
    pub(crate) path: String,
    pub(crate) entries: usize,
}

/// Folders below the root with more than `limit` of these files and folders. `foo.rs` and `foo/`
/// are one entry.
pub(crate) fn crowded(files: &[String], limit: usize) -> Vec<CrowdedFolder> {
    count(files.iter().map(String::as_str))
        .into_iter()
        .filter(|(path, entries)| entries.len() > limit && !DATA.iter().any(|data| path.contains(data)))
        .map(|(path, entries)| CrowdedFolder { path, entries: entries.len() })
        .collect()
}

fn count<'a>(files: impl Iterator<Item = &'a str>) -> BTreeMap<String, BTreeSet<String>> {
    let mut folders: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in files {
        let mut path = file;
        while let Some((folder, entry)) = path.rsplit_once('/') {
            let entry = entry.strip_suffix(".rs").unwrap_or(entry);
            folders.entry(folder.to_owned()).or_default().insert(entry.to_owned());
            path = folder;
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_a_module_and_its_folder_once() {
        let folders = count(["src/a.rs", "src/a/b.rs", "src/c.rs", "Cargo.toml"].into_iter());
        assert_eq!(folders["src"], BTreeSet::from(["a".to_owned(), "c".to_owned()]));
        assert_eq!(folders["src/a"].len(), 1);
        assert_eq!(folders.len(), 2);
    }
}
