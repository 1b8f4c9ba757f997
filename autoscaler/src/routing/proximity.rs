//! Proximity: how far a pod is from an activator, by node and zone.
//!
//! Input: the locations of both, from the objects of their pods. Output: a rank, by which
//! activators choose among pods that are equally free, and among no others.
//!
//! A location that is not known is near nothing: without nodes and zones all pods are elsewhere,
//! and the choice is the one without ranks.

/// Where a pod runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The name of the node.
    pub node: Option<String>,
    /// The zone of the node.
    pub zone: Option<String>,
}

/// How far two locations are from each other; the nearest is the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Proximity {
    /// Another zone, or not known.
    #[default]
    Elsewhere,
    /// The same zone, on another node.
    SameZone,
    SameNode,
}

// === impl Location ===

impl Location {
    /// The location of these names. An empty one is not known.
    pub fn new(node: Option<String>, zone: Option<String>) -> Self {
        let known = |name: Option<String>| name.filter(|name| !name.is_empty());
        Self { node: known(node), zone: known(zone) }
    }

    /// How far the other location is.
    pub fn proximity(&self, other: &Self) -> Proximity {
        let is_same = |own: &Option<String>, other: &Option<String>| own.is_some() && own == other;
        if is_same(&self.node, &other.node) {
            Proximity::SameNode
        } else if is_same(&self.zone, &other.zone) {
            Proximity::SameZone
        } else {
            Proximity::Elsewhere
        }
    }
}

// === impl Proximity ===

impl Proximity {
    /// Whether it is nearer than most pods of the cluster.
    pub fn is_near(self) -> bool {
        self > Self::Elsewhere
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(node: &str, zone: &str) -> Location {
        Location::new(Some(node.to_owned()), Some(zone.to_owned()))
    }

    #[test]
    fn node_is_nearer_than_zone_and_unknown_is_near_nothing() {
        for (own, other, expected) in [
            (("n1", "a"), ("n1", "a"), Proximity::SameNode),
            (("n1", ""), ("n1", "a"), Proximity::SameNode),
            (("n1", "a"), ("n2", "a"), Proximity::SameZone),
            (("", "a"), ("n1", "a"), Proximity::SameZone),
            (("n1", "a"), ("n2", "b"), Proximity::Elsewhere),
            (("n1", ""), ("n2", ""), Proximity::Elsewhere),
            (("", ""), ("", ""), Proximity::Elsewhere),
        ] {
            let proximity = location(own.0, own.1).proximity(&location(other.0, other.1));
            assert_eq!(proximity, expected, "{own:?} {other:?}");
        }
        assert!(Proximity::SameNode > Proximity::SameZone && Proximity::SameZone.is_near());
        assert!(!Location::default().proximity(&Location::default()).is_near());
    }
}
