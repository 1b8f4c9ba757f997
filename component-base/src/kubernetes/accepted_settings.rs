//! Settings in a ConfigMap, and the copy of its last valid content.
//!
//! Users edit one ConfigMap; the leader of one component copies valid content into another one. All
//! processes take their settings from the copy, so that they agree after a restart beside an
//! invalid edit. Before the first copy exists, the ConfigMap of the users counts.

use std::collections::BTreeMap;

use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use super::object_watch::watch_object;

/// Both ConfigMaps, as they are now.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObservedSettings {
    /// The ConfigMap that users edit.
    pub submitted: Option<ConfigMap>,
    /// The copy of its last valid content.
    pub accepted: Option<ConfigMap>,
}

enum Change {
    Submitted(Option<ConfigMap>),
    Accepted(Option<ConfigMap>),
}

// === impl ObservedSettings ===

impl ObservedSettings {
    /// The data that counts for every process; empty without a ConfigMap.
    pub fn in_force(&self) -> BTreeMap<String, String> {
        data(self.accepted.as_ref().or(self.submitted.as_ref()))
    }

    /// The data that users want.
    pub fn submitted_data(&self) -> BTreeMap<String, String> {
        data(self.submitted.as_ref())
    }

    /// Whether the copy has to be written, if the submitted data is valid.
    pub fn is_copy_outdated(&self) -> bool {
        (self.accepted.is_some() || self.submitted.is_some())
            && (self.accepted.is_none() || self.submitted_data() != self.in_force())
    }
}

/// Watches both ConfigMaps. The first item comes when both were read, then one for each change.
/// Never ends; failures are logged and retried.
pub fn watch_settings(
    client: &Client,
    namespace: &str,
    submitted: &str,
    accepted: &str,
) -> impl Stream<Item = ObservedSettings> + Send + use<> {
    let maps = || Api::<ConfigMap>::namespaced(client.clone(), namespace);
    let submitted = watch_object(maps(), submitted);
    let accepted = watch_object(maps(), accepted);
    let changes =
        stream::select(submitted.map(Change::Submitted).boxed(), accepted.map(Change::Accepted).boxed());
    changes
        .scan((None, None), |(submitted, accepted), change| {
            match change {
                Change::Submitted(map) => *submitted = Some(map),
                Change::Accepted(map) => *accepted = Some(map),
            }
            std::future::ready(Some(observed(submitted, accepted)))
        })
        .filter_map(std::future::ready)
}

/// `None` until both were read.
fn observed(
    submitted: &Option<Option<ConfigMap>>,
    accepted: &Option<Option<ConfigMap>>,
) -> Option<ObservedSettings> {
    Some(ObservedSettings { submitted: submitted.clone()?, accepted: accepted.clone()? })
}

fn data(map: Option<&ConfigMap>) -> BTreeMap<String, String> {
    map.and_then(|map| map.data.clone()).unwrap_or_default()
}
