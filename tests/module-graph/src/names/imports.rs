//! The paths of a `use`, one for each name that it imports.

use syn::UseTree;

/// A path as written, one name for each segment.
pub(super) type Path = Vec<String>;

/// Calls `import` with each path of a `use` and the name that it gets here; without a name for `*`.
pub(super) fn for_each_import(
    tree: &UseTree,
    prefix: &mut Path,
    import: &mut impl FnMut(&[String], Option<&str>),
) {
    match tree {
        UseTree::Path(part) => {
            prefix.push(part.ident.to_string());
            for_each_import(&part.tree, prefix, import);
            prefix.pop();
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| for_each_import(tree, prefix, import)),
        UseTree::Glob(_) => import(prefix, None),
        UseTree::Name(name) if name.ident == "self" => {
            if let Some(last) = prefix.last().cloned() {
                import(prefix, Some(&last));
            }
        }
        UseTree::Name(name) => named(&name.ident.to_string(), None, prefix, import),
        UseTree::Rename(rename) => {
            named(&rename.ident.to_string(), Some(rename.rename.to_string()), prefix, import);
        }
    }
}

fn named(
    ident: &str,
    renamed: Option<String>,
    prefix: &mut Path,
    import: &mut impl FnMut(&[String], Option<&str>),
) {
    if ident != "self" {
        prefix.push(ident.to_owned());
    }
    import(prefix, Some(renamed.as_deref().unwrap_or(ident)));
    if ident != "self" {
        prefix.pop();
    }
}
