//! Which module uses which, and the cycles.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::names::Uses;
use crate::sources::{ModuleId, Modules};

/// Edges from the module that uses names to the module that defines them.
pub(crate) struct Graph {
    uses: Uses,
}

// === impl Graph ===

impl Graph {
    pub(crate) fn new(uses: Uses) -> Self {
        Self { uses }
    }

    /// Groups of modules that reach each other; each group is one cycle to break.
    pub(crate) fn cycles(&self) -> Vec<BTreeSet<ModuleId>> {
        let reach: BTreeMap<ModuleId, BTreeSet<ModuleId>> =
            self.uses.keys().map(|&from| (from, self.reachable(from))).collect();
        let reaches = |from: ModuleId, to: ModuleId| reach.get(&from).is_some_and(|set| set.contains(&to));
        let mut cycles: Vec<BTreeSet<ModuleId>> = Vec::new();
        for &module in self.uses.keys() {
            if !reaches(module, module) || cycles.iter().any(|cycle| cycle.contains(&module)) {
                continue;
            }
            cycles.push(
                self.uses
                    .keys()
                    .copied()
                    .filter(|&other| reaches(module, other) && reaches(other, module))
                    .collect(),
            );
        }
        cycles
    }

    /// All modules with what each uses; a module comes after those that it uses.
    pub(crate) fn listing(&self, modules: &Modules) -> String {
        let mut lines: Vec<(usize, String)> = modules
            .iter()
            .enumerate()
            .filter(|(id, module)| module.file == *id)
            .map(|(id, module)| {
                let used: Vec<&str> =
                    self.used(id).filter_map(|to| modules.get(to)).map(|to| to.path.as_str()).collect();
                let used = if used.is_empty() { String::new() } else { format!(" -> {}", used.join(", ")) };
                (self.reachable(id).len(), format!("{} ({}){used}", module.path, module.lines))
            })
            .collect();
        lines.sort();
        lines.into_iter().fold(String::new(), |mut text, (_, line)| {
            let _ = writeln!(text, "  {line}");
            text
        })
    }

    /// The edges inside a cycle, with the names that cause them.
    pub(crate) fn explain(&self, cycle: &BTreeSet<ModuleId>, modules: &Modules) -> String {
        let path = |id: ModuleId| modules.get(id).map_or("?", |module| module.path.as_str());
        let mut text = String::new();
        for &from in cycle {
            for (&to, names) in
                self.uses.get(&from).into_iter().flatten().filter(|(to, _)| cycle.contains(to))
            {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                let _ = write!(text, "\n    {} -> {}: {}", path(from), path(to), names.join(", "));
            }
        }
        text
    }

    fn used(&self, from: ModuleId) -> impl Iterator<Item = ModuleId> + '_ {
        self.uses.get(&from).into_iter().flat_map(|to| to.keys().copied())
    }

    fn reachable(&self, from: ModuleId) -> BTreeSet<ModuleId> {
        let mut seen = BTreeSet::new();
        let mut next: Vec<ModuleId> = self.used(from).collect();
        while let Some(module) = next.pop() {
            if seen.insert(module) {
                next.extend(self.used(module));
            }
        }
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(ModuleId, ModuleId)]) -> Graph {
        let mut uses = Uses::new();
        for (from, to) in edges {
            uses.entry(*from).or_default().entry(*to).or_default().insert("Item".to_owned());
        }
        Graph::new(uses)
    }

    #[test]
    fn finds_no_cycle_in_a_tree() {
        assert_eq!(graph(&[(0, 1), (0, 2), (1, 2)]).cycles(), Vec::<BTreeSet<ModuleId>>::new());
    }

    #[test]
    fn joins_cycles_that_share_a_module() {
        let cycles = graph(&[(0, 1), (1, 2), (2, 1), (2, 3), (3, 2), (4, 5), (5, 4)]).cycles();
        assert_eq!(cycles, [BTreeSet::from([1, 2, 3]), BTreeSet::from([4, 5])]);
    }
}
