//! Prints the module graph of each crate of the workspace, and fails where a rule of CONTRIBUTING
//! on the layout of code is broken: import cycles of files and of folders, crowded folders, long
//! files, wide comments.
//!
//! A module is a file. Module A uses module B if code of A that is not test code names an item that
//! B defines; a name that reaches A through a `pub use` counts for the module that defines the
//! item, so a folder may re-export its contents freely. Parent and child count like any other pair.
//!
//! In each folder, a file and the folder of its child modules are one node, and these nodes must
//! not use each other in a cycle either.
//!
//! Run by `make lint`. `cargo-modules` has a check of files as well, but needs rust-analyzer's
//! crates, which take longer to build than the rest of the workspace.

mod folders;
mod graph;
mod lines;
mod names;
mod quotient;
mod sources;
mod tracked_files;
mod workspace;

use std::process::ExitCode;

use anyhow::Context;

use crate::graph::Graph;
use crate::workspace::CrateRoot;

/// Entries that one folder of sources may have.
const MAX_ENTRIES: usize = 14;

fn main() -> anyhow::Result<ExitCode> {
    let only: Vec<String> = std::env::args().skip(1).collect();
    let mut faults = 0;
    for root in workspace::crate_roots()? {
        if only.is_empty() || only.contains(&root.package) {
            faults += cycles(&root)?;
        }
    }
    let files = tracked_files::tracked_files()?;
    for folder in folders::crowded(&files, MAX_ENTRIES) {
        println!("{}: {} entries, at most {MAX_ENTRIES} are allowed", folder.path, folder.entries);
        faults += 1;
    }
    for path in files.iter().filter(|path| path.ends_with(".rs")) {
        let text = std::fs::read_to_string(path).with_context(|| format!("read {path}"))?;
        for fault in lines::faults(path, &text) {
            println!("{fault}");
            faults += 1;
        }
    }
    Ok(if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the modules of a crate and its cycles, and returns the number of these.
fn cycles(root: &CrateRoot) -> anyhow::Result<usize> {
    let modules = sources::read(&root.path).with_context(|| format!("read {}", root.path.display()))?;
    let uses = names::uses(&modules);
    let folders = quotient::by_folder(&uses, &modules);
    let graph = Graph::new(uses);
    let cycles = graph.cycles();
    println!("{} ({}): {} modules, {} cycles", root.package, root.target, modules.len(), cycles.len());
    print!("{}", graph.listing(&modules));
    for cycle in &cycles {
        println!("  import cycle: {}", graph.explain(cycle, &modules));
    }
    let mut found = cycles.len();
    for (folder, graph) in folders {
        let Some(folder) = modules.get(folder) else { continue };
        for cycle in graph.cycles() {
            println!("  folder cycle in {}: {}", folder.path, graph.explain(&cycle, &modules));
            found += 1;
        }
    }
    Ok(found)
}
