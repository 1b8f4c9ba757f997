//! The version of Kubernetes, for tests of what only some versions have.

use anyhow::{Context, Result};
use kube::Client;

/// What a version of Kubernetes began to serve by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// The API server adds sidecars by a MutatingAdmissionPolicy. Else a webhook of Rouse does.
    MutatingAdmissionPolicy,
    /// The kubelet lists the containers of a pod as soon as it has started one. Else it does so
    /// once a second, and probes an app behind a native sidecar a second after its start.
    PlegOnDemandRelist,
    /// An HPA may have `minReplicas: 0`.
    HpaScaleToZero,
}

impl Feature {
    fn first_minor(self) -> u32 {
        match self {
            Self::MutatingAdmissionPolicy | Self::PlegOnDemandRelist => 36,
            Self::HpaScaleToZero => 37,
        }
    }

    /// Whether the cluster has it. A test that prints this and returns has nothing to check.
    ///
    /// # Errors
    /// When the API server does not report its version.
    pub async fn is_served(self, client: &Client) -> Result<bool> {
        let version = client.apiserver_version().await?;
        let minor: u32 =
            version.minor.trim_end_matches('+').parse().with_context(|| version.minor.clone())?;
        let is_served = minor >= self.first_minor();
        if !is_served {
            println!("Kubernetes {} has no {self:?}", version.git_version);
        }
        Ok(is_served)
    }
}
