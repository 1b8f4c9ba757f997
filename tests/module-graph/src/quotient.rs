//! The graph of one folder's children: a file and the folder of its child modules are one node.
//!
//! A graph of files without cycles can have folders that use each other. Then neither folder can be
//! read, moved or made a crate before the other.

use std::collections::BTreeMap;

use crate::graph::Graph;
use crate::names::Uses;
use crate::sources::{ModuleId, Modules};

/// A graph for each module with child modules. Its nodes are the children; the names of an edge are
/// the uses of files that cause it.
pub(crate) fn by_folder(uses: &Uses, modules: &Modules) -> BTreeMap<ModuleId, Graph> {
    let mut folders: BTreeMap<ModuleId, Uses> = BTreeMap::new();
    for (&from, used) in uses {
        for (&to, names) in used {
            let Some((folder, from_child, to_child)) = branches(from, to, modules) else { continue };
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let cause = format!("{} -> {}: {}", path(from, modules), path(to, modules), names.join(", "));
            let children = folders.entry(folder).or_default().entry(from_child).or_default();
            children.entry(to_child).or_default().insert(cause);
        }
    }
    folders.into_iter().map(|(folder, uses)| (folder, Graph::new(uses))).collect()
}

/// The innermost folder that has both files, and the child of it with each; `None` for a file and a
/// file below it.
fn branches(from: ModuleId, to: ModuleId, modules: &Modules) -> Option<(ModuleId, ModuleId, ModuleId)> {
    let (from, to) = (ancestry(from, modules), ancestry(to, modules));
    let shared = from.iter().zip(&to).take_while(|(from, to)| from == to).count();
    let folder = *from.get(shared.checked_sub(1)?)?;
    Some((folder, *from.get(shared)?, *to.get(shared)?))
}

/// The files from the crate's root to `module`'s own.
fn ancestry(module: ModuleId, modules: &Modules) -> Vec<ModuleId> {
    let mut files = Vec::new();
    let mut next = Some(module);
    while let Some(module) = next.and_then(|id| modules.get(id)) {
        if files.last() != Some(&module.file) {
            files.push(module.file);
        }
        next = module.parent;
    }
    files.reverse();
    files
}

fn path(module: ModuleId, modules: &Modules) -> &str {
    modules.get(module).map_or("?", |module| module.path.as_str())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::sources::Module;

    /// Modules by their paths, parents first; the first is the crate's root.
    fn modules(paths: &[&str]) -> Modules {
        let module = |(id, path): (ModuleId, &&str)| Module {
            path: (*path).to_owned(),
            file: id,
            parent: (id > 0).then(|| {
                let (parent, _) = path.rsplit_once("::").unwrap_or(("crate", path));
                paths.iter().position(|other| *other == parent).unwrap()
            }),
            children: BTreeMap::new(),
            items: Vec::new(),
            lines: 1,
        };
        paths.iter().enumerate().map(module).collect()
    }

    /// The paths of folders with a cycle of their children.
    fn cyclic(paths: &[&str], edges: &[(&str, &str)]) -> Vec<String> {
        let modules = modules(paths);
        let id = |path: &str| paths.iter().position(|other| *other == path).unwrap();
        let mut uses = Uses::new();
        for (from, to) in edges {
            let names = BTreeSet::from(["Item".to_owned()]);
            uses.entry(id(from)).or_default().insert(id(to), names);
        }
        let folders = by_folder(&uses, &modules).into_iter();
        let cyclic = folders.filter(|(_, graph)| !graph.cycles().is_empty());
        cyclic.map(|(folder, _)| path(folder, &modules).to_owned()).collect()
    }

    #[test]
    fn finds_a_cycle_of_folders_whose_files_have_none() {
        let paths = ["crate", "a", "a::one", "a::two", "b", "b::one"];
        assert_eq!(cyclic(&paths, &[("a::one", "b::one"), ("b", "a::two")]), ["crate"]);
        assert_eq!(cyclic(&paths, &[("a::one", "b::one"), ("a", "b")]), Vec::<String>::new());
    }

    #[test]
    fn joins_a_file_and_the_folder_of_its_child_modules() {
        let paths = ["crate", "a", "a::one", "b"];
        assert_eq!(cyclic(&paths, &[("a::one", "b"), ("b", "a")]), ["crate"]);
    }

    #[test]
    fn compares_the_children_of_deep_folders() {
        let paths = ["crate", "a", "a::one", "a::one::x", "a::two", "a::two::x", "a::two::y"];
        let edges = [("a::one::x", "a::two::x"), ("a::two::y", "a::one")];
        assert_eq!(cyclic(&paths, &edges), ["a"]);
    }

    #[test]
    fn leaves_out_a_file_and_those_below_it() {
        let paths = ["crate", "a", "a::one"];
        assert_eq!(cyclic(&paths, &[("a", "a::one"), ("a::one", "a")]), Vec::<String>::new());
    }

    #[test]
    fn explains_an_edge_by_the_files_and_names_that_cause_it() {
        let modules = modules(&["crate", "a", "a::one", "b"]);
        let names = BTreeSet::from(["Item".to_owned(), "function".to_owned()]);
        let parent = BTreeSet::from(["Parent".to_owned()]);
        let uses = Uses::from([(2, BTreeMap::from([(3, names)])), (3, BTreeMap::from([(1, parent)]))]);
        let folders = by_folder(&uses, &modules);
        let cycles = folders[&0].cycles();
        assert_eq!(
            folders[&0].explain(&cycles[0], &modules),
            "\n    a -> b: a::one -> b: Item, function\n    b -> a: b -> a: Parent"
        );
    }
}
