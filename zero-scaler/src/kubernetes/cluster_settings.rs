//! The settings of the cluster, from ConfigMap `config-autoscaler`.
//!
//! The leader copies valid data into `config-autoscaler-accepted`, from which all processes read.
//! An invalid edit changes nothing: a Warning event on the ConfigMap names every invalid key, its
//! value and its bounds. Without a ConfigMap the defaults are in force.
//!
//! An annotation on the ConfigMap announces the deletion of all of Rouse. Of an uninstall that is
//! called off it is removed. A ConfigMap that is gone is part of the uninstall, and changes
//! nothing.

use std::sync::Arc;
use std::time::Duration;

use autoscaler::contract::{ACCEPTED_CONFIG_MAP, CONFIG_MAP, UNINSTALL};
use autoscaler::settings::AutoscalerConfig;
use component_base::kubernetes::lease::Leadership;
use component_base::kubernetes::{ObservedSettings, watch_settings};
use component_base::readiness::ReadinessLatch;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::sync::watch;

use crate::kubernetes::events::Events;
use crate::kubernetes::rate_limit::RateLimitedClient;
use crate::kubernetes::reasons::Reason;
use crate::kubernetes::server_side_apply::apply;

/// Delay after which a failed write of the copy is retried.
const RETRY_DELAY: Duration = Duration::from_secs(5);

/// Follows the ConfigMaps for the life of the process.
pub struct ClusterSettings {
    client: RateLimitedClient,
    namespace: String,
    events: Events,
    config: watch::Sender<Arc<AutoscalerConfig>>,
    leadership: Leadership,
    /// The version of the ConfigMap that was validated last, so that each one causes one event.
    validated: Option<String>,
}

// === impl ClusterSettings ===

impl ClusterSettings {
    /// Settings that are sent to `config` once this runs.
    pub fn new(
        client: RateLimitedClient,
        namespace: String,
        events: Events,
        config: watch::Sender<Arc<AutoscalerConfig>>,
        leadership: Leadership,
    ) -> Self {
        Self { client, namespace, events, config, leadership, validated: None }
    }

    /// Follows the ConfigMaps. `announce` gets whether an uninstall is announced, and returns
    /// whether that changed. `latch` is released when both ConfigMaps were read, valid or not.
    pub async fn run(
        mut self,
        on_change: impl Fn() + Send,
        announce: impl Fn(bool) -> bool + Send,
        latch: ReadinessLatch,
    ) {
        let mut latch = Some(latch);
        let changes = watch_settings(&self.client, &self.namespace, CONFIG_MAP, ACCEPTED_CONFIG_MAP);
        pin_mut!(changes);
        let mut observed = ObservedSettings::default();
        // Data that the leader has yet to copy.
        let mut pending = false;
        loop {
            let mut leadership = self.leadership.clone();
            let is_leader = leadership.is_leader();
            if pending && is_leader {
                pending = self.copy(&observed).await.is_err();
            }
            tokio::select! {
                change = changes.next() => match change {
                    Some(new) => {
                        observed = new;
                        if let Some(announced) = uninstall(&observed).filter(|announced| announce(*announced)) {
                            tracing::warn!(announced, "announcement of an uninstall changed");
                            on_change();
                        }
                        self.apply_accepted(&observed, &on_change);
                        pending = self.is_valid(&observed) && observed.is_copy_outdated();
                        drop(latch.take());
                    }
                    None => return,
                },
                () = leadership.acquired(), if pending && !is_leader => {}
                () = tokio::time::sleep(RETRY_DELAY), if pending && is_leader => {}
            }
        }
    }

    fn apply_accepted(&self, observed: &ObservedSettings, on_change: &impl Fn()) {
        let Ok(new) = AutoscalerConfig::parse(&observed.in_force()) else { return };
        let changed = self.config.send_if_modified(|current| {
            let changed = **current != new;
            *current = Arc::new(new);
            changed
        });
        if changed {
            tracing::info!(config = ?*self.config.borrow(), "settings changed");
            on_change();
        }
    }

    fn is_valid(&mut self, observed: &ObservedSettings) -> bool {
        let Err(errors) = AutoscalerConfig::parse(&observed.submitted_data()) else { return true };
        let Some(object) = &observed.submitted else { return true };
        if self.validated != object.metadata.resource_version {
            self.validated.clone_from(&object.metadata.resource_version);
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let note = format!("ConfigMap {CONFIG_MAP} is invalid and has no effect: {}", errors.join("; "));
            self.events.warning(object, Reason::BadSetting, note);
        }
        false
    }

    async fn copy(&self, observed: &ObservedSettings) -> Result<ConfigMap, kube::Error> {
        let copy = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": ACCEPTED_CONFIG_MAP, "namespace": self.namespace},
            "data": observed.submitted_data(),
        });
        let result = apply::<ConfigMap>(&self.client, &copy).await;
        if let Err(error) = &result {
            tracing::warn!(%error, config_map = ACCEPTED_CONFIG_MAP, "settings not copied, retrying");
        }
        result
    }
}

/// Whether an uninstall is announced; `None` without a ConfigMap.
fn uninstall(observed: &ObservedSettings) -> Option<bool> {
    let annotations = observed.submitted.as_ref()?.metadata.annotations.as_ref();
    Some(annotations.and_then(|all| all.get(UNINSTALL)).is_some_and(|value| value == "true"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file lists every key, so that an edit of one line changes nothing else.
    #[test]
    fn deployed_config_map_lists_every_key_at_its_default() {
        let text = include_str!("../../../deploy/config-autoscaler.yaml");
        let object: ConfigMap = serde_yaml_ng::from_str(text).unwrap();
        let data = object.data.unwrap();
        assert_eq!(AutoscalerConfig::parse(&data), Ok(AutoscalerConfig::default()));
        assert_eq!(data.len(), 21, "{:?}", data.keys());
        // Each key is read: an invalid value is an error.
        for key in data.keys() {
            let invalid = std::collections::BTreeMap::from([(key.clone(), "?".to_owned())]);
            assert!(AutoscalerConfig::parse(&invalid).is_err(), "{key}");
        }
    }
}
