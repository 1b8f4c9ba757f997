//! Watches the ConfigMap in which the cluster publishes the front proxy's CA and headers.
//!
//! An invalid ConfigMap or a deleted one changes nothing. Until the first valid one, no connection
//! is trusted as the front proxy's.

use std::sync::Arc;

use arc_swap::ArcSwap;
use component_base::kubernetes::watch_object;
use component_base::readiness::ReadinessLatch;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use crate::external_metrics::auth::front_proxy::FrontProxy;

/// Namespace of the ConfigMap.
const NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap.
const CONFIG_MAP: &str = "extension-apiserver-authentication";

/// Updates `front_proxy` on every change; opens `latch` after the first list.
#[tracing::instrument(skip_all, fields(config_map = CONFIG_MAP))]
pub async fn watch_front_proxy(client: Client, front_proxy: Arc<ArcSwap<FrontProxy>>, latch: ReadinessLatch) {
    let maps = watch_object(Api::<ConfigMap>::namespaced(client, NAMESPACE), CONFIG_MAP);
    pin_mut!(maps);
    let mut latch = Some(latch);
    while let Some(map) = maps.next().await {
        match map.map(|map| FrontProxy::parse(&map.data.unwrap_or_default())) {
            Some(Ok(new)) => {
                if !new.is_configured() {
                    tracing::error!(
                        "front proxy absent: the ConfigMap has no requestheader-client-ca-file, so requests of HPAs \
                         are refused; start kube-apiserver with --requestheader-client-ca-file"
                    );
                }
                front_proxy.store(Arc::new(new));
            }
            Some(Err(error)) => tracing::error!(%error, "invalid ConfigMap, keeping the last valid one"),
            None => tracing::error!("ConfigMap not found, keeping its last content"),
        }
        drop(latch.take());
    }
}
