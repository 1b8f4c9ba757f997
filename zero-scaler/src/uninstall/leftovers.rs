//! Objects that processes of Rouse made, and that no manifest names.
//!
//! They cannot be deleted yet: running processes would write them again. So they get the ConfigMap
//! of the settings as their owner, and Kubernetes deletes them after it.

use autoscaler::contract::{ACCEPTED_CONFIG_MAP, CONFIG_MAP, SERVING_CERTIFICATE};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::uninstall::error::UninstallError;

/// The Leases of the leader elections.
const LEASES: [&str; 2] = ["metrics-adapter", "zero-scaler"];

/// Makes the ConfigMap the owner of all these objects.
///
/// # Errors
/// When the API server refuses.
pub async fn give_owner(client: &Client, namespace: &str) -> Result<(), UninstallError> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let read = UninstallError::api(format!("read ConfigMap {CONFIG_MAP:?}"));
    let owner = maps.get_metadata(CONFIG_MAP).await.map_err(read)?;
    let reference =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": CONFIG_MAP, "uid": owner.metadata.uid});
    let owned = json!({"metadata": {"ownerReferences": [reference]}});
    write::<ConfigMap>(client, namespace, ACCEPTED_CONFIG_MAP, &owned).await?;
    write::<Secret>(client, namespace, SERVING_CERTIFICATE, &owned).await?;
    for lease in LEASES {
        write::<Lease>(client, namespace, lease, &owned).await?;
    }
    Ok(())
}

async fn write<K>(client: &Client, namespace: &str, name: &str, patch: &Value) -> Result<(), UninstallError>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
    K::DynamicType: Default,
{
    let objects: Api<K> = Api::namespaced(client.clone(), namespace);
    match objects.patch_metadata(name, &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        // Not every installation has each object.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(UninstallError::api(format!("give {name:?} an owner"))(error)),
    }
}
