//! Which module defines each name that a module uses.
//!
//! Only paths are followed, not types: a method call needs no import of the module that defines the
//! type. Arguments of macros and of attributes are searched for paths by their tokens.

mod imports;
mod used_paths;

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::Visit;
use syn::{Item, UseTree};

use self::imports::{Path, for_each_import};
use self::used_paths::UsedPaths;
use crate::sources::{ModuleId, Modules};

/// By using module: the used modules, with the names taken from each.
pub(crate) type Uses = BTreeMap<ModuleId, BTreeMap<ModuleId, BTreeSet<String>>>;

/// Re-exports of re-exports that are followed before a name counts as unknown.
const MAX_HOPS: usize = 32;

/// Resolves every name that a module's code uses.
pub(crate) fn uses(modules: &Modules) -> Uses {
    let scopes = Scopes { scopes: modules.iter().map(|module| Scope::new(&module.items)).collect(), modules };
    let mut uses = Uses::new();
    for (id, module) in modules.iter().enumerate() {
        let mut paths = UsedPaths::default();
        module.items.iter().for_each(|item| paths.visit_item(item));
        for path in paths.found {
            let Some(Target::Item(definition, name)) = scopes.resolve(id, &path, 0) else { continue };
            let Some(defining) = modules.get(definition) else { continue };
            if defining.file != module.file {
                uses.entry(module.file).or_default().entry(defining.file).or_default().insert(name);
            }
        }
    }
    uses
}

enum Target {
    Module(ModuleId),
    Item(ModuleId, String),
}

/// The names of one module.
#[derive(Default)]
struct Scope {
    defined: BTreeSet<String>,
    imported: BTreeMap<String, Path>,
    globs: Vec<Path>,
}

struct Scopes<'a> {
    scopes: Vec<Scope>,
    modules: &'a Modules,
}

// === impl Scope ===

impl Scope {
    fn new(items: &[Item]) -> Self {
        let mut scope = Self::default();
        for item in items {
            match item {
                Item::Use(item) => scope.import(&item.tree, &mut Vec::new()),
                item => scope.defined.extend(name_of(item)),
            }
        }
        scope
    }

    fn import(&mut self, tree: &UseTree, prefix: &mut Path) {
        for_each_import(tree, prefix, &mut |path, name| match name {
            Some(name) => drop(self.imported.insert(name.to_owned(), path.to_vec())),
            None => self.globs.push(path.to_vec()),
        });
    }
}

// === impl Scopes ===

impl Scopes<'_> {
    /// What `path`, written in `module`, names; `None` for names of other crates.
    fn resolve(&self, module: ModuleId, path: &[String], hops: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.walk(0, rest, hops),
            "self" => self.walk(module, rest, hops),
            "super" => {
                let parent = self.modules.get(module)?.parent?;
                match rest.first().map(String::as_str) {
                    Some("super") => self.resolve(parent, rest, hops),
                    _ => self.walk(parent, rest, hops),
                }
            }
            _ => self.walk(module, path, hops),
        }
    }

    fn walk(&self, module: ModuleId, path: &[String], hops: usize) -> Option<Target> {
        let Some((name, rest)) = path.split_first() else { return Some(Target::Module(module)) };
        if hops > MAX_HOPS {
            return None;
        }
        let scope = self.scopes.get(module)?;
        if let Some(&child) = self.modules.get(module)?.children.get(name) {
            return self.walk(child, rest, hops);
        }
        if scope.defined.contains(name) {
            return Some(Target::Item(module, name.clone()));
        }
        if let Some(import) = scope.imported.get(name).filter(|import| import.first() != Some(name)) {
            return match self.resolve(module, import, hops + 1)? {
                Target::Module(module) => self.walk(module, rest, hops + 1),
                item => Some(item),
            };
        }
        scope.globs.iter().find_map(|glob| match self.resolve(module, glob, hops + 1)? {
            Target::Module(globbed) if globbed != module => self.walk(globbed, path, hops + 1),
            _ => None,
        })
    }
}

fn name_of(item: &Item) -> Option<String> {
    Some(match item {
        Item::Const(item) => item.ident.to_string(),
        Item::Enum(item) => item.ident.to_string(),
        Item::Fn(item) => item.sig.ident.to_string(),
        Item::Macro(item) => item.ident.as_ref()?.to_string(),
        Item::Static(item) => item.ident.to_string(),
        Item::Struct(item) => item.ident.to_string(),
        Item::Trait(item) => item.ident.to_string(),
        Item::Type(item) => item.ident.to_string(),
        Item::Union(item) => item.ident.to_string(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Module;

    /// A crate of one file for each path, in the order given; parents come first.
    fn modules(files: &[(&str, &str)]) -> Modules {
        let mut modules = Modules::new();
        for (id, (path, text)) in files.iter().enumerate() {
            let (parent, name) = path.rsplit_once("::").unwrap_or(("crate", path));
            let parent = (id > 0).then(|| modules.iter().position(|module| module.path == parent).unwrap());
            if let Some(parent) = parent {
                modules[parent].children.insert(name.to_owned(), id);
            }
            let items = syn::parse_file(text).unwrap().items;
            let path = (*path).to_owned();
            modules.push(Module { path, file: id, parent, children: BTreeMap::new(), items, lines: 1 });
        }
        modules
    }

    fn edges(files: &[(&str, &str)]) -> Vec<(ModuleId, ModuleId)> {
        uses(&modules(files))
            .into_iter()
            .flat_map(|(from, to)| to.into_keys().map(move |to| (from, to)))
            .collect()
    }

    #[test]
    fn counts_a_re_exported_name_for_its_defining_module() {
        let files = [
            ("crate", "pub use a::b::Item;"),
            ("a", "pub use b::Item;"),
            ("a::b", "pub struct Item;"),
            ("c", "use crate::Item; use crate::a::Item as Other;"),
        ];
        assert_eq!(edges(&files), [(3, 2)]);
    }

    #[test]
    fn counts_a_parent_and_its_child_like_any_pair() {
        let files = [
            ("crate", ""),
            ("a", "fn f() { b::g(); } pub struct Item;"),
            ("a::b", "use super::Item; pub fn g() {}"),
        ];
        assert_eq!(edges(&files), [(1, 2), (2, 1)]);
    }

    #[test]
    fn follows_imported_modules_and_globs_to_the_item() {
        let files = [
            ("crate", ""),
            ("a", "pub fn f() {}"),
            ("b", "use crate::a; fn g() { a::f(); }"),
            ("c", "use crate::a::*; fn g() { f(); }"),
        ];
        assert_eq!(edges(&files), [(2, 1), (3, 1)]);
    }

    #[test]
    fn finds_paths_in_the_arguments_of_macros() {
        let files = [
            ("crate", ""),
            ("a", "pub const N: u8 = 1;"),
            ("b", "fn g() { println!(\"{}\", crate::a::N); }"),
        ];
        assert_eq!(edges(&files), [(2, 1)]);
    }

    #[test]
    fn finds_paths_in_the_arguments_of_attributes() {
        let files = [
            ("crate", ""),
            ("a", "pub fn parse() {}"),
            ("b", "use crate::a; struct S { #[arg(value_parser = a::parse)] s: u8 }"),
            ("c", "#[test_attribute(outer(crate::a::parse))] fn f() {}"),
        ];
        assert_eq!(edges(&files), [(2, 1), (3, 1)]);
    }

    #[test]
    fn finds_paths_in_the_strings_of_attributes() {
        let files = [
            ("crate", ""),
            ("a", "pub fn serialize() {} pub fn deserialize() {} pub fn one() {}"),
            ("b", "use crate::a; struct S { #[serde(with = \"a\")] s: u8 }"),
            ("c", "struct S { #[serde(default = \"crate::a::one\")] s: u8 }"),
        ];
        assert_eq!(edges(&files), [(2, 1), (3, 1)]);
    }

    #[test]
    fn ignores_names_in_documentation_and_conditions() {
        let files = [
            ("crate", ""),
            ("a", "pub struct Item;"),
            ("b", "/// [`Item`](crate::a::Item)\n#[cfg(feature = \"crate::a::Item\")] fn f() {}"),
        ];
        assert_eq!(edges(&files), []);
    }

    #[test]
    fn ignores_names_of_other_crates() {
        assert_eq!(edges(&[("crate", "use std::fmt; fn f() { fmt::format(); }"), ("a", "")]), []);
    }
}
