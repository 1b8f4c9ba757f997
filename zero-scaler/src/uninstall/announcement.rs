//! Notifies the zero-scalers that all parts of Rouse are about to be deleted.
//!
//! By an annotation on the ConfigMap of the settings, which they watch. It goes with the ConfigMap,
//! so an installation in the same namespace begins without it.

use autoscaler::contract::{CONFIG_MAP, UNINSTALL};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

use crate::uninstall::error::UninstallError;

/// Writes the annotation.
///
/// # Errors
/// When there is no ConfigMap, or the API server refuses.
pub async fn announce(client: &Client, namespace: &str) -> Result<(), UninstallError> {
    let annotation = json!({"metadata": {"annotations": {UNINSTALL: "true"}}});
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    match maps.patch(CONFIG_MAP, &PatchParams::default(), &Patch::Merge(annotation)).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => {
            Err(UninstallError::NotInstalled(namespace.to_owned()))
        }
        Err(error) => Err(UninstallError::api(format!("annotate ConfigMap {CONFIG_MAP:?}"))(error)),
    }
}
