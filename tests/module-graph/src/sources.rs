//! The modules of one crate, read from its root file and the `mod` lines in it.
//!
//! A module in braces is a module of its own here; the graph joins it to its file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use syn::{Attribute, Item, ItemMod, Meta};

/// A module's place in [`Modules`].
pub(crate) type ModuleId = usize;

/// All modules of a crate; the first is its root.
pub(crate) type Modules = Vec<Module>;

pub(crate) struct Module {
    /// Path from the crate's root, such as `queue::held_body`; the root's own is `crate`.
    pub(crate) path: String,
    /// The module whose file this one is in: itself unless it is written in braces.
    pub(crate) file: ModuleId,
    pub(crate) parent: Option<ModuleId>,
    pub(crate) children: BTreeMap<String, ModuleId>,
    /// Items without test code and without child modules.
    pub(crate) items: Vec<Item>,
    /// Lines of the file; 0 for a module in braces.
    pub(crate) lines: usize,
}

/// Reads the crate whose root file is `root`.
///
/// # Errors
/// When a file is missing or is not Rust.
pub(crate) fn read(root: &Path) -> anyhow::Result<Modules> {
    let mut reader = Reader { modules: Vec::new() };
    let folder = root.parent().context("a root file without a folder")?;
    reader.file(root, folder, "crate", None)?;
    Ok(reader.modules)
}

/// True if the item exists in tests alone.
pub(crate) fn is_test_code(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::Path(path) => path.is_ident("test"),
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            condition.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "test")
                && !condition.contains("not")
        }
        _ => false,
    })
}

struct Reader {
    modules: Modules,
}

// === impl Reader ===

impl Reader {
    /// Adds the module of `file`, whose child modules are files of `folder`.
    fn file(
        &mut self,
        file: &Path,
        folder: &Path,
        path: &str,
        parent: Option<ModuleId>,
    ) -> anyhow::Result<ModuleId> {
        let text = std::fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let parsed = syn::parse_file(&text).with_context(|| format!("parse {}", file.display()))?;
        let id = self.modules.len();
        self.add(path, id, parent, text.lines().count());
        self.items(parsed.items, id, folder)?;
        Ok(id)
    }

    fn add(&mut self, path: &str, file: ModuleId, parent: Option<ModuleId>, lines: usize) {
        self.modules.push(Module {
            path: path.to_owned(),
            file,
            parent,
            children: BTreeMap::new(),
            items: Vec::new(),
            lines,
        });
    }

    fn items(&mut self, items: Vec<Item>, id: ModuleId, folder: &Path) -> anyhow::Result<()> {
        for item in items {
            if is_test_code(attributes(&item)) {
                continue;
            }
            if let Item::Mod(child) = item {
                self.child(child, id, folder)?;
            } else if let Some(module) = self.modules.get_mut(id) {
                module.items.push(item);
            }
        }
        Ok(())
    }

    fn child(&mut self, item: ItemMod, parent: ModuleId, folder: &Path) -> anyhow::Result<()> {
        let name = item.ident.to_string();
        let Some(module) = self.modules.get(parent) else { return Ok(()) };
        let path = if module.path == "crate" { name.clone() } else { format!("{}::{name}", module.path) };
        let file = module.file;
        let child_folder = folder.join(&name);
        let id = if let Some((_, items)) = item.content {
            let id = self.modules.len();
            self.add(&path, file, Some(parent), 0);
            self.items(items, id, &child_folder)?;
            id
        } else if let Some(named) = path_attribute(&item.attrs) {
            // Its child modules are beside it, as the child modules of a `mod.rs` are.
            let named = folder.join(named);
            let beside = named.parent().unwrap_or(folder).to_owned();
            self.file(&named, &beside, &path, Some(parent))?
        } else {
            let flat = folder.join(format!("{name}.rs"));
            let nested = child_folder.join("mod.rs");
            match (flat.exists(), nested.exists()) {
                (true, _) => self.file(&flat, &child_folder, &path, Some(parent))?,
                (_, true) => self.file(&nested, &child_folder, &path, Some(parent))?,
                _ => bail!("no file for module {path}"),
            }
        };
        if let Some(module) = self.modules.get_mut(parent) {
            module.children.insert(name, id);
        }
        Ok(())
    }
}

/// The file named by `#[path = "…"]`.
fn path_attribute(attributes: &[Attribute]) -> Option<PathBuf> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value().into()),
            _ => None,
        },
        _ => None,
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}
