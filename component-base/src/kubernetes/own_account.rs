//! The service account of this pod, compared with that of its installation.
//!
//! A kustomization with `namespace:`, `namePrefix:` or `nameSuffix:` renames the objects of
//! `deploy/`, and leaves the names in the policies and in the defaults of flags. Such an
//! installation would run and do nothing.

use std::io::ErrorKind;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// Kubernetes mounts it in each pod.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Why a process of an installation does not start.
#[derive(Debug, thiserror::Error)]
pub enum OwnAccountError {
    /// The file exists and cannot be read.
    #[error("could not read {TOKEN}: {0}")]
    Unreadable(#[from] std::io::Error),
    /// The policies do not apply to this pod's service account.
    #[error(
        "the service account of this pod is {own}, and that of its installation {expected}: remove `namespace:`, \
         `namePrefix:` and `nameSuffix:` from the kustomization; for another namespace, set \
         ROUSE_SYSTEM_NAMESPACE and replace rouse-system in deploy/policies.yaml"
    )]
    Differs {
        /// Of the pod.
        own: String,
        /// Of the installation.
        expected: String,
    },
}

/// The claim of a token that names its user.
#[derive(serde::Deserialize)]
struct Claims {
    sub: String,
}

/// Checks that this process has the service account of its installation. A process outside of a
/// cluster, or with a kubeconfig, may have any.
///
/// # Errors
/// With another account, by its name or its namespace.
pub fn ensure_own_account(namespace: &str, account: &str) -> Result<(), OwnAccountError> {
    if std::env::var_os("KUBECONFIG").is_some() {
        return Ok(());
    }
    match std::fs::read_to_string(TOKEN) {
        Ok(token) => compare(&token, format!("system:serviceaccount:{namespace}:{account}")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A token of another form than Kubernetes' names no account here.
fn compare(token: &str, expected: String) -> Result<(), OwnAccountError> {
    match subject(token) {
        Some(own) if own != expected => Err(OwnAccountError::Differs { own, expected }),
        _ => Ok(()),
    }
}

/// The account in a JSON web token. The API server verifies the token; this is for the message.
fn subject(token: &str) -> Option<String> {
    let claims = BASE64_URL_SAFE_NO_PAD.decode(token.trim().split('.').nth(1)?).ok()?;
    Some(serde_json::from_slice::<Claims>(&claims).ok()?.sub)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(account: &str) -> String {
        let claims = format!(r#"{{"iss":"https://kubernetes","sub":"system:serviceaccount:{account}"}}"#);
        format!("e30.{}.c2ln\n", BASE64_URL_SAFE_NO_PAD.encode(claims))
    }

    fn compare_account(account: &str) -> Result<(), String> {
        let expected = "system:serviceaccount:rouse-system:activator".to_owned();
        compare(&token(account), expected).map_err(|error| error.to_string())
    }

    #[test]
    fn rejects_account_that_a_kustomization_renamed_and_names_the_fix() {
        compare_account("rouse-system:activator").unwrap();
        for renamed in ["platform:activator", "rouse-system:team-activator", "rouse-system:activator-2"] {
            let error = compare_account(renamed).unwrap_err();
            assert!(error.contains(&format!("{renamed}, and that of its installation")), "{error}");
            assert!(error.contains("remove `namespace:`, `namePrefix:`"), "{error}");
        }
    }

    #[test]
    fn accepts_token_of_another_form() {
        compare("opaque", "system:serviceaccount:rouse-system:activator".to_owned()).unwrap();
    }
}
