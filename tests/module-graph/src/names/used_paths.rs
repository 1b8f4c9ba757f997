//! The paths in the items of a module, as written.
//!
//! Arguments of macros and of attributes are searched for paths by their tokens.

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, ImplItemFn, Item, ItemUse, Macro, Meta, Visibility};

use super::imports::{Path, for_each_import};
use crate::sources::is_test_code;

/// The paths of the items that were visited.
#[derive(Default)]
pub(super) struct UsedPaths {
    pub(super) found: Vec<Path>,
}

// === impl UsedPaths ===

impl<'ast> Visit<'ast> for UsedPaths {
    fn visit_item(&mut self, item: &'ast Item) {
        match item {
            // Re-exports are for other modules; a private import is for this one.
            Item::Use(item) if !matches!(item.vis, Visibility::Inherited) => {}
            item => visit::visit_item(self, item),
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        for_each_import(&item.tree, &mut Vec::new(), &mut |path, _| self.found.push(path.to_vec()));
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        if !is_test_code(&item.attrs) {
            visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.found.push(segments(path));
        visit::visit_path(self, path);
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta
            && !list.path.is_ident("cfg")
        {
            self.tokens(list.tokens.clone());
            self.quoted_paths(list.tokens.clone());
        }
    }

    fn visit_macro(&mut self, call: &'ast Macro) {
        visit::visit_macro(self, call);
        self.tokens(call.tokens.clone());
    }
}

impl UsedPaths {
    /// Paths in a macro's arguments: identifiers joined by `::`.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut path = Path::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    self.end(&mut path);
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.end(&mut path);
    }

    /// Paths in strings, as in `#[serde(with = "module")]`, which stands for two functions of it.
    fn quoted_paths(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.quoted_paths(group.stream()),
                TokenTree::Literal(literal) => {
                    let text = literal.to_string();
                    let Ok(path) = syn::parse_str::<syn::Path>(text.trim_matches('"')) else { continue };
                    self.visit_path(&path);
                    for function in ["serialize", "deserialize"] {
                        let mut path = segments(&path);
                        path.push(function.to_owned());
                        self.found.push(path);
                    }
                }
                _ => {}
            }
        }
    }

    fn end(&mut self, path: &mut Path) {
        if !path.is_empty() {
            self.found.push(std::mem::take(path));
        }
    }
}

fn segments(path: &syn::Path) -> Path {
    path.segments.iter().map(|segment| segment.ident.to_string()).collect()
}
