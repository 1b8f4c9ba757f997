//! Watches the ConfigMap in which the cluster publishes the front proxy's CA and headers.
//!
//! An invalid ConfigMap or a deleted one changes nothing. Until the first valid one, no connection
//! is trusted as the front proxy's.

use std::sync::Arc;

use arc_swap::ArcSwap;
use component_base::readiness::ReadinessLatch;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};

use crate::external_metrics::auth::front_proxy::FrontProxy;

/// Namespace of the ConfigMap.
const NAMESPACE: &str = "kube-system";
/// Name of the ConfigMap.
const CONFIG_MAP: &str = "extension-apiserver-authentication";

/// Updates `front_proxy` on every change; opens `latch` after the first list.
#[tracing::instrument(skip_all, fields(config_map = CONFIG_MAP))]
pub async fn watch_front_proxy(client: Client, front_proxy: Arc<ArcSwap<FrontProxy>>, latch: ReadinessLatch) {
    let only_it = watcher::Config::default().fields(&format!("metadata.name={CONFIG_MAP}"));
    let events = watcher(Api::<ConfigMap>::namespaced(client, NAMESPACE), only_it).default_backoff();
    pin_mut!(events);
    let mut latch = Some(latch);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(map) | Event::InitApply(map)) => {
                match FrontProxy::parse(&map.data.unwrap_or_default()) {
                    Ok(new) => front_proxy.store(Arc::new(new)),
                    Err(error) => tracing::error!(%error, "invalid ConfigMap, keeping the last valid one"),
                }
            }
            Ok(Event::Delete(_)) => tracing::error!("ConfigMap deleted, keeping its last content"),
            Ok(Event::InitDone) => drop(latch.take()),
            Ok(Event::Init) => {}
            Err(error) => tracing::warn!(%error, "watch failed, retrying"),
        }
    }
}
