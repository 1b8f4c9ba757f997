//! Reads the project's documents: pages, fenced blocks, headings and links.
//!
//! Input: the Markdown files of the repository that users read. The tests of this crate check them
//! without a cluster; the system tests apply their YAML and run their commands on one. Only the
//! Markdown that these documents use is understood: fences of three backticks, headings with `#`,
//! inline links, and `<img src="...">`.
//!
//! [`monitoring`] reads what `deploy/monitoring` gives to operators.

pub mod block;
pub mod link;
#[cfg(feature = "reference")]
pub mod metric_description;
pub mod monitoring;
pub mod page;
#[cfg(feature = "reference")]
pub mod reference;
