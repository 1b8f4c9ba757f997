//! Checks of the documents that need no cluster: links, limits, YAML, terms.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use docs::link::{anchors, links, prose};
use docs::page::{Page, files, pages, root};
use serde::Deserialize;

/// Longest line outside of tables and fenced blocks.
const COLUMNS: usize = 100;
/// Most entries of a folder below `docs`.
const ENTRIES: usize = 14;
/// Most YAML blocks that are not whole objects.
const FRAGMENTS: usize = 2;

fn all() -> std::io::Result<Vec<Page>> {
    pages(&root())
}

fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

/// The path without `.` and `..`; an empty one stays.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[test]
fn every_link_leads_to_a_file_and_an_anchor() {
    let root = root();
    let pages = all().unwrap();
    let by_path: BTreeMap<PathBuf, &Page> = pages.iter().map(|page| (page.path.clone(), page)).collect();
    let mut faults = Vec::new();
    for page in &pages {
        for link in links(&page.text).into_iter().filter(|link| !link.is_external()) {
            let (file, anchor) = link.parts();
            let folder = page.path.parent().unwrap_or(Path::new(""));
            let target = if file.is_empty() { page.path.clone() } else { normal(&folder.join(file)) };
            let exists = root.join(&target).exists();
            let has_anchor = anchor.is_empty()
                || by_path.get(&target).is_some_and(|page| anchors(&page.text).iter().any(|a| a == anchor));
            if !exists || !has_anchor {
                faults.push(format!("{}:{}: {}", page.path.display(), link.line, link.target));
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn every_page_of_docs_is_linked_from_another_page() {
    let pages = all().unwrap();
    let linked: BTreeSet<PathBuf> = pages
        .iter()
        .flat_map(|page| {
            let folder = page.path.parent().unwrap_or(Path::new("")).to_owned();
            links(&page.text).into_iter().map(move |link| normal(&folder.join(link.parts().0)))
        })
        .collect();
    let files = files(&root(), Path::new("docs")).unwrap();
    let faults: Vec<String> =
        files.iter().filter(|file| !linked.contains(*file)).map(|file| file.display().to_string()).collect();
    assert_none(&faults);
}

#[test]
fn lines_and_pages_stay_within_their_limits() {
    let mut faults = Vec::new();
    for page in all().unwrap() {
        let most = match page.path.to_str() {
            Some("README.md") => 150,
            Some("ARCHITECTURE.md") => 200,
            _ => usize::MAX,
        };
        let lines = page.text.lines().count();
        if lines > most {
            faults.push(format!("{}: {lines} lines, more than {most}", page.path.display()));
        }
        for (number, line) in prose(&page.text) {
            let is_table = line.trim_start().starts_with('|');
            if !is_table && !line.starts_with("<img ") && line.chars().count() > COLUMNS {
                faults.push(format!("{}:{number}: more than {COLUMNS} columns", page.path.display()));
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn no_folder_of_docs_has_too_many_entries() {
    let mut entries: BTreeMap<PathBuf, BTreeSet<PathBuf>> = BTreeMap::new();
    for file in files(&root(), Path::new("docs")).unwrap() {
        let ancestors: Vec<&Path> = file.ancestors().filter(|path| path.starts_with("docs")).collect();
        for pair in ancestors.windows(2) {
            entries.entry(pair[1].to_owned()).or_default().insert(pair[0].to_owned());
        }
    }
    let crowded = entries.iter().filter(|(_, entries)| entries.len() > ENTRIES);
    let faults: Vec<String> =
        crowded.map(|(folder, entries)| format!("{}: {} entries", folder.display(), entries.len())).collect();
    assert_none(&faults);
}

#[test]
fn every_yaml_block_is_a_list_of_whole_objects() {
    let mut faults = Vec::new();
    let mut fragments = 0;
    for page in all().unwrap() {
        for block in page.blocks().into_iter().filter(|block| block.language == "yaml") {
            let place = format!("{}:{}", page.path.display(), block.line);
            fragments += usize::from(block.has("fragment"));
            for document in serde_yaml_ng::Deserializer::from_str(&block.text) {
                match serde_yaml_ng::Value::deserialize(document) {
                    Err(error) => faults.push(format!("{place}: {error}")),
                    Ok(_) if block.has("fragment") => {}
                    Ok(object) if object["kind"].is_string() && object["metadata"]["name"].is_string() => {}
                    Ok(_) => faults.push(format!("{place}: no kind or no name; mark it `yaml fragment`")),
                }
            }
        }
    }
    assert_none(&faults);
    assert!(fragments <= FRAGMENTS, "{fragments} fragments");
}

/// A page may have another form of a file of the README.
#[test]
fn files_of_yaml_blocks_are_used_by_a_command_of_the_page_or_of_the_readme() {
    let mut faults = Vec::new();
    let pages = all().unwrap();
    let readme = pages.iter().find(|page| page.path == Path::new("README.md")).unwrap().blocks();
    for page in &pages {
        let blocks = page.blocks();
        for file in blocks.iter().filter_map(|block| block.file()) {
            let used =
                blocks.iter().chain(&readme).any(|block| block.has("run") && block.text.contains(file));
            if !used {
                faults.push(format!("{}: no command uses {file}", page.path.display()));
            }
        }
    }
    assert_none(&faults);
}

/// A page that names a reason sends its reader to the list of reasons.
#[test]
fn every_reason_in_troubleshooting_is_in_the_reference() {
    let pages = all().unwrap();
    let text =
        |path: &str| pages.iter().find(|page| page.path == Path::new(path)).map(|page| page.text.as_str());
    let reference =
        ["docs/reference/conditions.md", "docs/reference/responses.md"].map(|path| text(path).unwrap());
    let spans =
        text("docs/troubleshooting.md").unwrap().lines().flat_map(|line| line.split('`').skip(1).step_by(2));
    let is_reason = |span: &&str| {
        let capitals = span.chars().filter(char::is_ascii_uppercase).count();
        span.chars().all(|c| c.is_ascii_alphabetic())
            && span.starts_with(|c: char| c.is_ascii_uppercase())
            && capitals >= 2
            && capitals < span.len()
    };
    let columns = ["FailedGetExternalMetric", "PodsCanStart"];
    let faults: Vec<String> = spans
        .filter(is_reason)
        .filter(|span| {
            !columns.contains(span) && !reference.iter().any(|page| page.contains(&format!("`{span}`")))
        })
        .map(str::to_owned)
        .collect();
    assert_none(&faults);
}

#[test]
fn pages_contain_no_indefinite_pronouns() {
    let banned = ["nobody", "somebody", "whoever", "whom", "whose"];
    let mut faults = Vec::new();
    for page in all().unwrap() {
        for (number, line) in page.text.lines().enumerate() {
            let lower = line.to_lowercase();
            let words = lower.split(|c: char| !c.is_alphanumeric());
            if let Some(word) = words.into_iter().find(|word| banned.contains(word)) {
                faults.push(format!("{}:{}: {word}", page.path.display(), number + 1));
            }
        }
    }
    assert_none(&faults);
}
