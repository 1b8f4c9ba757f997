//! Watches the pods behind one of Rouse's own Services.
//!
//! Uses EndpointSlices rather than DNS: a static image has no full resolver, and DNS caches hide
//! changes. The activator finds adapters and zero-scalers with it; the zero-scaler finds adapters,
//! and the adapter the activators that are due to report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};

use futures::{Stream, StreamExt, pin_mut};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::watch;

use super::decoded::Decoded;
use super::object_watch::{DecodeErrors, logged, watch_objects};

/// The label that names a slice's Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The ready addresses of `service`'s port named `port`, and the future that updates them; spawn
/// it.
///
/// The set is empty until the first list is complete. The future ends when the receiver is dropped.
pub fn watch_peers(
    client: Client,
    namespace: &str,
    service: &str,
    port: &str,
    errors: &DecodeErrors,
) -> (watch::Receiver<BTreeSet<SocketAddr>>, impl Future<Output = ()> + Send + use<>) {
    let port = port.to_owned();
    watch_slices(client, namespace, service, errors, move |slice| ready_addresses(slice, &port))
}

/// The pods behind `service` by name, and whether each is ready; otherwise as [`watch_peers`]. With
/// addresses of two families a pod may be in it twice.
pub fn watch_members(
    client: Client,
    namespace: &str,
    service: &str,
    errors: &DecodeErrors,
) -> (watch::Receiver<BTreeSet<(String, bool)>>, impl Future<Output = ()> + Send + use<>) {
    watch_slices(client, namespace, service, errors, |slice| {
        slice.endpoints.iter().flatten().filter_map(|e| Some((pod_name(e)?, is_ready(e)))).collect()
    })
}

fn watch_slices<T, F>(
    client: Client,
    namespace: &str,
    service: &str,
    errors: &DecodeErrors,
    members: F,
) -> (watch::Receiver<BTreeSet<T>>, impl Future<Output = ()> + Send + use<T, F>)
where
    T: Ord + Clone + Debug + Send + Sync + 'static,
    F: Fn(&EndpointSlice) -> BTreeSet<T> + Send + 'static,
{
    let (sender, receiver) = watch::channel(BTreeSet::new());
    let api = Api::<Decoded<EndpointSlice>>::namespaced(client, namespace);
    let config = watcher::Config::default().labels(&format!("{SERVICE_NAME}={service}"));
    let events = watch_objects(api, config, errors.of(&EndpointSlice::kind(&())));
    let service = service.to_owned();
    let events = logged(events, format!("EndpointSlices of {service}"));
    let follow = async move {
        let publish = |members| publish(&sender, members, &service);
        follow_members(events, members, publish, sender.closed()).await;
    };
    (receiver, follow)
}

/// Calls `publish` with the members of all objects whenever they may have changed, until `closed`.
pub(super) async fn follow_members<K, T>(
    events: impl Stream<Item = Event<Decoded<K>>>,
    members: impl Fn(&K) -> BTreeSet<T>,
    publish: impl Fn(BTreeSet<T>),
    closed: impl Future<Output = ()>,
) where
    K: Resource<DynamicType = ()> + Clone,
    T: Ord + Clone,
{
    pin_mut!(events, closed);
    let mut listed = ListedMembers::default();
    while let Some(event) = tokio::select! { event = events.next() => event, () = &mut closed => None } {
        if listed.apply(event, &members) {
            publish(listed.members());
        }
    }
}

fn publish<T: Ord + Debug>(sender: &watch::Sender<BTreeSet<T>>, members: BTreeSet<T>, service: &str) {
    sender.send_if_modified(|current| {
        let changed = *current != members;
        if changed {
            tracing::info!(%service, ?members, "peers changed");
            *current = members;
        }
        changed
    });
}

/// What is read from each object, by the object's name.
#[derive(Debug)]
struct ListedMembers<T> {
    current: BTreeMap<String, BTreeSet<T>>,
    /// Filled during a new list, which replaces everything at its end.
    listing: BTreeMap<String, BTreeSet<T>>,
}

impl<T> Default for ListedMembers<T> {
    fn default() -> Self {
        Self { current: BTreeMap::new(), listing: BTreeMap::new() }
    }
}

impl<T: Ord + Clone> ListedMembers<T> {
    /// Applies an event; true if the members may have changed.
    fn apply<K: Resource + Clone>(
        &mut self,
        event: Event<Decoded<K>>,
        members: impl Fn(&K) -> BTreeSet<T>,
    ) -> bool {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => {
                let members = self.members_of(&object, members);
                self.listing.extend(members.map(|members| (object.name_any(), members)));
            }
            Event::InitDone => {
                self.current = std::mem::take(&mut self.listing);
                return true;
            }
            Event::Apply(object) => {
                let members = self.members_of(&object, members);
                self.current.extend(members.map(|members| (object.name_any(), members)));
                return true;
            }
            Event::Delete(object) => {
                self.current.remove(&object.name_any());
                return true;
            }
        }
        false
    }

    /// The members of an object; for an undecodable one, those of its last decoded version.
    fn members_of<K: Resource + Clone>(
        &self,
        object: &Decoded<K>,
        members: impl Fn(&K) -> BTreeSet<T>,
    ) -> Option<BTreeSet<T>> {
        match &object.0 {
            Ok(object) => Some(members(object)),
            Err(_) => self.current.get(&object.name_any()).cloned(),
        }
    }

    fn members(&self) -> BTreeSet<T> {
        self.current.values().flatten().cloned().collect()
    }
}

/// The ready endpoints of a slice, with its port that has the name `port`.
fn ready_addresses(slice: &EndpointSlice, port: &str) -> BTreeSet<SocketAddr> {
    let named = slice.ports.iter().flatten().find(|p| p.name.as_deref().unwrap_or_default() == port);
    let Some(number) = named.and_then(|p| p.port).and_then(|n| u16::try_from(n).ok()) else {
        return BTreeSet::new();
    };
    slice
        .endpoints
        .iter()
        .flatten()
        .filter(|endpoint| is_ready(endpoint))
        .filter_map(|endpoint| endpoint.addresses.first()?.parse::<IpAddr>().ok())
        .map(|ip| SocketAddr::new(ip, number))
        .collect()
}

/// An unset condition means ready, by the API's definition.
fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
}

fn pod_name(endpoint: &Endpoint) -> Option<String> {
    endpoint.target_ref.as_ref()?.name.clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(name: &str, ready: Option<bool>, address: &str) -> Decoded<EndpointSlice> {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": name},
            "addressType": "IPv4",
            "ports": [{"name": "stats", "port": 8080}, {"name": "other", "port": 1}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": ready}}],
        }))
        .unwrap()
    }

    fn stats(slice: &EndpointSlice) -> BTreeSet<SocketAddr> {
        ready_addresses(slice, "stats")
    }

    #[test]
    fn collects_ready_addresses_of_all_slices() {
        let mut slices = ListedMembers::default();
        slices.apply(Event::Apply(slice("a", Some(true), "10.0.0.1")), stats);
        slices.apply(Event::Apply(slice("b", None, "10.0.0.2")), stats);
        slices.apply(Event::Apply(slice("c", Some(false), "10.0.0.3")), stats);
        let expected: BTreeSet<SocketAddr> =
            ["10.0.0.1:8080", "10.0.0.2:8080"].iter().map(|a| a.parse().unwrap()).collect();
        assert_eq!(slices.members(), expected);
        slices.apply(Event::Delete(slice("a", Some(true), "10.0.0.1")), stats);
        assert_eq!(slices.members().len(), 1);
    }

    #[test]
    fn new_list_replaces_all_slices() {
        let mut slices = ListedMembers::default();
        slices.apply(Event::Apply(slice("gone", None, "10.0.0.1")), stats);
        assert!(!slices.apply(Event::Init, stats));
        assert!(!slices.apply(Event::InitApply(slice("new", None, "10.0.0.2")), stats));
        assert!(slices.apply(Event::InitDone, stats));
        assert_eq!(slices.members(), BTreeSet::from(["10.0.0.2:8080".parse().unwrap()]));
    }

    #[test]
    fn undecodable_slice_keeps_its_addresses() {
        let bad =
            || serde_json::from_value(serde_json::json!({"metadata": {"name": "a"}, "ports": 5})).unwrap();
        let (mut slices, kept) =
            (ListedMembers::default(), BTreeSet::from(["10.0.0.1:8080".parse().unwrap()]));
        slices.apply(Event::Apply(slice("a", None, "10.0.0.1")), stats);
        slices.apply(Event::Apply(bad()), stats);
        assert_eq!(slices.members(), kept);
        slices.apply(Event::Init, stats);
        slices.apply(Event::InitApply(bad()), stats);
        slices.apply(Event::InitDone, stats);
        assert_eq!(slices.members(), kept, "also after a new list");
        slices.apply(Event::Delete(bad()), stats);
        assert_eq!(slices.members(), BTreeSet::new());
    }
}
