//! The namespace of this pod, compared with that of the installation.
//!
//! A kustomization with `namespace:` moves the objects of `deploy/` and leaves the names in the
//! policies and in the defaults of flags. Such an installation would run and do nothing.

use std::io::ErrorKind;

/// Kubernetes mounts it with the token of the pod's service account.
const FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Why a process of an installation does not start.
#[derive(Debug, thiserror::Error)]
pub enum OwnNamespaceError {
    /// The file exists and cannot be read.
    #[error("could not read {FILE}: {0}")]
    Unreadable(#[from] std::io::Error),
    /// The policies do not apply to this pod's service account.
    #[error(
        "this pod is in namespace {own}, and its installation in {expected}: remove `namespace:` from the \
         kustomization, or set ROUSE_SYSTEM_NAMESPACE and replace {expected} in deploy/policies.yaml"
    )]
    Differs {
        /// Of the pod.
        own: String,
        /// Of the installation.
        expected: String,
    },
}

/// Checks that this process runs in the namespace of its installation. A process outside of a
/// cluster, or with a kubeconfig, may run anywhere.
///
/// # Errors
/// In another namespace.
pub fn ensure_own_namespace(expected: &str) -> Result<(), OwnNamespaceError> {
    if std::env::var_os("KUBECONFIG").is_some() {
        return Ok(());
    }
    match std::fs::read_to_string(FILE) {
        Ok(own) => compare(own.trim(), expected),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn compare(own: &str, expected: &str) -> Result<(), OwnNamespaceError> {
    if own == expected {
        return Ok(());
    }
    Err(OwnNamespaceError::Differs { own: own.to_owned(), expected: expected.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_another_namespace_and_names_the_fix() {
        compare("rouse-system", "rouse-system").unwrap();
        let error = compare("platform", "rouse-system").unwrap_err().to_string();
        assert!(
            error.contains("namespace platform, and its installation in rouse-system: remove"),
            "{error}"
        );
    }
}
