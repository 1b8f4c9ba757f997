//! The ConfigMap `config-autoscaler`, followed live.
//!
//! The last good one stays in force: a bad edit is a Warning event on the ConfigMap that names every bad key, value and
//! bound, and changes nothing. Without a ConfigMap the defaults are in force.

use std::sync::Arc;

use autoscaler::contract::CONFIG_MAP;
use autoscaler::settings::AutoscalerConfig;
use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};
use runtime::readiness::ReadinessLatch;
use tokio::sync::watch;

use crate::kubernetes::events::Events;
use crate::kubernetes::reasons::Reason;

/// Follows the ConfigMap until the process ends.
pub async fn follow(
    client: Client,
    namespace: String,
    events: Events,
    config: watch::Sender<Arc<AutoscalerConfig>>,
    on_change: impl Fn() + Send,
    unread: ReadinessLatch,
) {
    let mut unread = Some(unread);
    let objects =
        watch_object(Api::<ConfigMap>::namespaced(client, &namespace), CONFIG_MAP).default_backoff();
    pin_mut!(objects);
    while let Some(object) = objects.next().await {
        match object {
            Ok(object) => {
                if let Some(new) = read(object.as_ref(), &events) {
                    let changed = config.send_if_modified(|known| {
                        let changed = **known != new;
                        *known = Arc::new(new);
                        changed
                    });
                    if changed {
                        tracing::info!(config = ?*config.borrow(), "settings of the cluster");
                        on_change();
                    }
                }
                // Be it good, bad or absent: only now may anything be decided.
                unread = None;
            }
            Err(error) => tracing::warn!(%error, "watch of {CONFIG_MAP} failed; it is tried again"),
        }
    }
    drop(unread);
}

fn read(object: Option<&ConfigMap>, events: &Events) -> Option<AutoscalerConfig> {
    let Some(object) = object else { return Some(AutoscalerConfig::default()) };
    match AutoscalerConfig::parse(object.data.as_ref().unwrap_or(&std::collections::BTreeMap::new())) {
        Ok(config) => Some(config),
        Err(errors) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            events.warning(object, Reason::BadSetting, format!("ignored as a whole: {}", errors.join("; ")));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever edits one line of it must not change anything else, nor look for a key in vain.
    #[test]
    fn the_config_map_that_is_deployed_holds_every_key_at_its_default() {
        let text = include_str!("../../../deploy/config-autoscaler.yaml");
        let object: ConfigMap = serde_yaml_ng::from_str(text).unwrap();
        let data = object.data.unwrap();
        assert_eq!(AutoscalerConfig::parse(&data), Ok(AutoscalerConfig::default()));
        assert_eq!(data.len(), 21, "{:?}", data.keys());
        // Each of them is read: nonsense in it is complained of.
        for key in data.keys() {
            let nonsense = std::collections::BTreeMap::from([(key.clone(), "?".to_owned())]);
            assert!(AutoscalerConfig::parse(&nonsense).is_err(), "{key}");
        }
    }
}
