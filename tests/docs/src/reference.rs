//! Pages of `docs/reference` that are generated from the code, so that they cannot differ from it.
//!
//! Input: the descriptions that the programs' libraries give of their settings, metrics and
//! conditions. Output: Markdown, printed by `docgen` and compared by a test of this crate.

mod annotations;
mod conditions;
mod metrics;
mod table;

/// A generated page.
#[derive(Clone, Copy, Debug)]
pub struct ReferencePage {
    /// File name without its extension, and the argument of `docgen`.
    pub name: &'static str,
    /// Makes the text.
    pub render: fn() -> String,
}

/// All generated pages.
pub const PAGES: &[ReferencePage] = &[
    ReferencePage { name: "annotations", render: annotations::render },
    ReferencePage { name: "conditions", render: conditions::render },
    ReferencePage { name: "metrics", render: metrics::render },
];
