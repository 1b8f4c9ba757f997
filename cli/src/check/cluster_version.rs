//! The version of the cluster, and what it supports.

/// The first version that keeps `tolerance` of an HPA.
const TOLERANCE: ClusterVersion = ClusterVersion { major: 1, minor: 35 };
/// The first version with MutatingAdmissionPolicy v1.
const MUTATING_POLICIES: ClusterVersion = ClusterVersion { major: 1, minor: 36 };

/// Version of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClusterVersion {
    pub major: u32,
    pub minor: u32,
}

// === impl ClusterVersion ===

impl ClusterVersion {
    /// Parses the parts, of which some clouds append a sign: `1`, `33+`. `None` if they are not
    /// numbers.
    pub fn parse(major: &str, minor: &str) -> Option<Self> {
        let number = |text: &str| text.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok();
        Some(Self { major: number(major)?, minor: number(minor)? })
    }

    /// Whether HPAs keep `tolerance`.
    pub fn has_tolerance(self) -> bool {
        self >= TOLERANCE
    }

    /// Whether a policy can add the sidecar, and not a webhook alone.
    pub fn has_mutating_policies(self) -> bool {
        self >= MUTATING_POLICIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_versions_with_a_sign() {
        let version = ClusterVersion::parse("1", "33+").unwrap();
        assert_eq!(version, ClusterVersion { major: 1, minor: 33 });
        assert!(!version.has_tolerance() && !version.has_mutating_policies());
        assert_eq!(ClusterVersion::parse("", ""), None);
    }
}
