//! The workloads that an activator carries requests of, as it publishes them through the API server
//! while receivers of its reports are out of reach.
//!
//! The text is the value of [`CARRIED_WORKLOADS`](crate::contract::CARRIED_WORKLOADS) on the
//! activator's Lease: keys, separated by spaces, or `*` for all. What cannot be read means all, so
//! an unknown item is not skipped: it may be a workload with a request. A later version of the text
//! must begin with a word that is not a key.

use std::collections::BTreeSet;
use std::fmt;

use crate::contract::key::Key;

/// Longest text, in bytes: an object has room for 256 KiB of annotations.
const MAX_BYTES: usize = 64 * 1024;
const ALL: &str = "*";

/// Workloads with requests in one activator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CarriedWorkloads {
    Listed {
        keys: BTreeSet<Key>,
        /// Length of the text, with a space after each key.
        bytes: usize,
    },
    /// Too many to list.
    All,
}

// === impl CarriedWorkloads ===

impl CarriedWorkloads {
    /// These workloads; all, if they do not fit into the text.
    pub fn new(keys: impl IntoIterator<Item = Key>) -> Self {
        let mut carried = Self::none();
        carried.extend(keys);
        carried
    }

    /// No workload.
    pub const fn none() -> Self {
        Self::Listed { keys: BTreeSet::new(), bytes: 0 }
    }

    /// Reads the text of an annotation; an activator may be of another version.
    pub fn parse(text: &str) -> Self {
        let keys: Result<BTreeSet<Key>, _> = text.split_whitespace().map(str::parse).collect();
        keys.map_or(Self::All, Self::new)
    }

    pub fn is_none(&self) -> bool {
        *self == Self::none()
    }

    pub fn contains(&self, key: &Key) -> bool {
        match self {
            Self::Listed { keys, .. } => keys.contains(key),
            Self::All => true,
        }
    }

    /// The keys; none of all.
    pub fn into_listed(self) -> BTreeSet<Key> {
        match self {
            Self::Listed { keys, .. } => keys,
            Self::All => BTreeSet::new(),
        }
    }

    /// The workloads of both.
    #[must_use]
    pub fn union(mut self, other: Self) -> Self {
        match other {
            Self::Listed { keys, .. } => self.extend(keys),
            Self::All => self = Self::All,
        }
        self
    }

    /// Adds workloads. A receiver of reports does so for each busy workload of each second, so the
    /// others are not inserted again, and nothing is added to all.
    pub fn extend(&mut self, keys: impl IntoIterator<Item = Key>) {
        for key in keys {
            let Self::Listed { keys, bytes } = self else { return };
            // With the slash and a space.
            let length = key.namespace.len() + key.name.len() + 2;
            *bytes += if keys.insert(key) { length } else { 0 };
            if *bytes > MAX_BYTES {
                *self = Self::All;
            }
        }
    }
}

impl Default for CarriedWorkloads {
    fn default() -> Self {
        Self::none()
    }
}

impl fmt::Display for CarriedWorkloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listed { keys, .. } => {
                let keys: Vec<_> = keys.iter().map(Key::to_string).collect();
                f.write_str(&keys.join(" "))
            }
            Self::All => f.write_str(ALL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn carried(names: &[&str]) -> CarriedWorkloads {
        CarriedWorkloads::new(names.iter().map(|name| Key::new("shop", *name)))
    }

    #[test]
    fn text_form_round_trips_and_what_cannot_be_read_is_all() {
        for workloads in [carried(&[]), carried(&["web"]), carried(&["api", "web"]), CarriedWorkloads::All] {
            assert_eq!(CarriedWorkloads::parse(&workloads.to_string()), workloads);
        }
        assert_eq!(carried(&["web", "api"]).to_string(), "shop/api shop/web");
        for text in ["web", "shop/web,shop/api/x", "shop/web *", "[\"shop\"]", "v2 shop/web"] {
            assert_eq!(CarriedWorkloads::parse(text), CarriedWorkloads::All, "{text}");
        }
    }

    #[test]
    fn more_workloads_than_fit_are_all() {
        let names: Vec<_> = (0..10_000).map(|number| number.to_string()).collect();
        let named =
            |count| CarriedWorkloads::new(names.iter().take(count).map(|name| Key::new("shop", name)));
        assert!(named(1000).to_string().len() < MAX_BYTES);
        assert_eq!(named(10_000), CarriedWorkloads::All);
        assert_eq!(named(3).union(named(4)), named(4));
        assert_eq!(named(3).union(CarriedWorkloads::All), CarriedWorkloads::All);
        assert_eq!(CarriedWorkloads::All.union(named(4)), CarriedWorkloads::All);
        let others = (0..3000).map(|number| Key::new("elsewhere", number.to_string()));
        let mut carried = named(3000);
        assert_ne!(carried, CarriedWorkloads::All);
        carried.extend(others);
        assert_eq!(carried, CarriedWorkloads::All);
    }
}
