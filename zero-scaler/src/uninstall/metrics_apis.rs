//! Deletes the APIServices that lead to this installation, and no others.
//!
//! While one has no server, Kubernetes cannot delete namespaces. HPAs keep their sizes without it.

use autoscaler::contract::{CUSTOM_API, EXTERNAL_API};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, Client};

use crate::uninstall::error::UninstallError;

/// The Service to which they lead.
const BACKEND: &str = "metrics-adapter";

/// Deletes them.
///
/// # Errors
/// When the API server refuses.
pub async fn delete(client: &Client, namespace: &str) -> Result<(), UninstallError> {
    let services: Api<APIService> = Api::all(client.clone());
    for name in [EXTERNAL_API, CUSTOM_API] {
        let failed = || format!("delete APIService {name:?}");
        let Some(found) = services.get_opt(name).await.map_err(UninstallError::api(failed()))? else {
            continue;
        };
        if !leads_to(&found, namespace) {
            continue;
        }
        // Not if another adapter takes it over at this moment.
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                resource_version: found.metadata.resource_version,
                uid: None,
            }),
            ..DeleteParams::default()
        };
        match services.delete(name, &params).await {
            Ok(_) => tracing::info!(api_service = name, "APIService deleted"),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(error) => return Err(UninstallError::api(failed())(error)),
        }
    }
    Ok(())
}

fn leads_to(service: &APIService, namespace: &str) -> bool {
    let backend = service.spec.as_ref().and_then(|spec| spec.service.as_ref());
    backend.is_some_and(|backend| {
        backend.namespace.as_deref() == Some(namespace) && backend.name.as_deref() == Some(BACKEND)
    })
}
