//! Prints the module graph of each crate of the workspace, and fails on an import cycle of files or
//! of folders, or on a crowded folder.
//!
//! A module is a file. Module A uses module B if code of A that is not test code names an item that
//! B defines; a name that reaches A through a `pub use` counts for the module that defines the
//! item, so a folder may re-export its contents freely. Parent and child count like any other pair.
//!
//! In each folder, a file and the folder of its child modules are one node, and these nodes must not
//! use each other in a cycle either.
//!
//! Run by `make lint`. `cargo-modules` has such a check as well, but needs rust-analyzer's crates,
//! which take longer to build than the rest of the workspace.

mod folders;
mod graph;
mod names;
mod quotient;
mod sources;
mod workspace;

use std::process::ExitCode;

use anyhow::Context;

/// Entries that one folder of sources may have.
const MAX_ENTRIES: usize = 14;

fn main() -> anyhow::Result<ExitCode> {
    let only: Vec<String> = std::env::args().skip(1).collect();
    let mut faults = 0;
    for root in workspace::crate_roots()? {
        if !only.is_empty() && !only.contains(&root.package) {
            continue;
        }
        let modules = sources::read(&root.path).with_context(|| format!("read {}", root.path.display()))?;
        let uses = names::uses(&modules);
        let folders = quotient::by_folder(&uses, &modules);
        let graph = graph::Graph::new(uses);
        let cycles = graph.cycles();
        println!("{} ({}): {} modules, {} cycles", root.package, root.target, modules.len(), cycles.len());
        print!("{}", graph.listing(&modules));
        for cycle in &cycles {
            println!("  import cycle: {}", graph.explain(cycle, &modules));
        }
        faults += cycles.len();
        for (folder, graph) in folders {
            let Some(folder) = modules.get(folder) else { continue };
            for cycle in graph.cycles() {
                println!("  folder cycle in {}: {}", folder.path, graph.explain(&cycle, &modules));
                faults += 1;
            }
        }
    }
    for folder in folders::crowded(MAX_ENTRIES)? {
        println!("{}: {} entries, at most {MAX_ENTRIES} are allowed", folder.path, folder.entries);
        faults += 1;
    }
    Ok(if faults == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
