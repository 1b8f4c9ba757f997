//! Watches the ready addresses behind one of Rouse's own Services.
//!
//! Uses EndpointSlices rather than DNS: a static image has no full resolver, and DNS caches hide
//! changes. The activator finds adapters and zero-scalers with it; zero-scaler finds adapters.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::watch;

use super::decoded::Decoded;
use super::object_watch::{DecodeErrors, watch_objects};

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
    let (sender, receiver) = watch::channel(BTreeSet::new());
    let api = Api::<Decoded<EndpointSlice>>::namespaced(client, namespace);
    let config = watcher::Config::default().labels(&format!("{SERVICE_NAME}={service}"));
    let errors = errors.of(&EndpointSlice::kind(&()));
    let (service, port) = (service.to_owned(), port.to_owned());
    let follow = async move {
        let events = watch_objects(api, config, errors);
        pin_mut!(events);
        let mut slices = Slices::default();
        while let Some(event) =
            tokio::select! { event = events.next() => event, () = sender.closed() => None }
        {
            match event {
                Ok(event) => {
                    if slices.apply(event, &port) {
                        publish(&sender, slices.addresses(), &service);
                    }
                }
                Err(error) => {
                    tracing::warn!(%service, %error, "watch of EndpointSlices failed, retrying")
                }
            }
        }
    };
    (receiver, follow)
}

fn publish(sender: &watch::Sender<BTreeSet<SocketAddr>>, addresses: BTreeSet<SocketAddr>, service: &str) {
    sender.send_if_modified(|current| {
        let changed = *current != addresses;
        if changed {
            tracing::info!(%service, ?addresses, "peers changed");
            *current = addresses;
        }
        changed
    });
}

/// The addresses of each slice, by the slice's name.
#[derive(Debug, Default)]
struct Slices {
    current: BTreeMap<String, BTreeSet<SocketAddr>>,
    /// Filled during a new list, which replaces everything at its end.
    listing: BTreeMap<String, BTreeSet<SocketAddr>>,
}

impl Slices {
    /// Applies an event; true if the addresses may have changed.
    fn apply(&mut self, event: Event<Decoded<EndpointSlice>>, port: &str) -> bool {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(slice) => {
                let addresses = self.addresses_of(&slice, port);
                self.listing.extend(addresses.map(|addresses| (slice.name_any(), addresses)));
            }
            Event::InitDone => {
                self.current = std::mem::take(&mut self.listing);
                return true;
            }
            Event::Apply(slice) => {
                let addresses = self.addresses_of(&slice, port);
                self.current.extend(addresses.map(|addresses| (slice.name_any(), addresses)));
                return true;
            }
            Event::Delete(slice) => {
                self.current.remove(&slice.name_any());
                return true;
            }
        }
        false
    }

    /// The addresses of a slice; for an undecodable slice, the addresses of its last decoded
    /// version.
    fn addresses_of(&self, slice: &Decoded<EndpointSlice>, port: &str) -> Option<BTreeSet<SocketAddr>> {
        match &slice.0 {
            Ok(slice) => Some(ready_addresses(slice, port)),
            Err(_) => self.current.get(&slice.name_any()).cloned(),
        }
    }

    fn addresses(&self) -> BTreeSet<SocketAddr> {
        self.current.values().flatten().copied().collect()
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
        // An unset condition means ready, by the API's definition.
        .filter(|endpoint| endpoint.conditions.as_ref().and_then(|c| c.ready).unwrap_or(true))
        .filter_map(|endpoint| endpoint.addresses.first()?.parse::<IpAddr>().ok())
        .map(|ip| SocketAddr::new(ip, number))
        .collect()
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

    #[test]
    fn collects_ready_addresses_of_all_slices() {
        let mut slices = Slices::default();
        slices.apply(Event::Apply(slice("a", Some(true), "10.0.0.1")), "stats");
        slices.apply(Event::Apply(slice("b", None, "10.0.0.2")), "stats");
        slices.apply(Event::Apply(slice("c", Some(false), "10.0.0.3")), "stats");
        let expected: BTreeSet<SocketAddr> =
            ["10.0.0.1:8080", "10.0.0.2:8080"].iter().map(|a| a.parse().unwrap()).collect();
        assert_eq!(slices.addresses(), expected);
        slices.apply(Event::Delete(slice("a", Some(true), "10.0.0.1")), "stats");
        assert_eq!(slices.addresses().len(), 1);
    }

    #[test]
    fn new_list_replaces_all_slices() {
        let mut slices = Slices::default();
        slices.apply(Event::Apply(slice("gone", None, "10.0.0.1")), "stats");
        assert!(!slices.apply(Event::Init, "stats"));
        assert!(!slices.apply(Event::InitApply(slice("new", None, "10.0.0.2")), "stats"));
        assert!(slices.apply(Event::InitDone, "stats"));
        assert_eq!(slices.addresses(), BTreeSet::from(["10.0.0.2:8080".parse().unwrap()]));
    }

    #[test]
    fn undecodable_slice_keeps_its_addresses() {
        let bad =
            || serde_json::from_value(serde_json::json!({"metadata": {"name": "a"}, "ports": 5})).unwrap();
        let (mut slices, kept) = (Slices::default(), BTreeSet::from(["10.0.0.1:8080".parse().unwrap()]));
        slices.apply(Event::Apply(slice("a", None, "10.0.0.1")), "stats");
        slices.apply(Event::Apply(bad()), "stats");
        assert_eq!(slices.addresses(), kept);
        slices.apply(Event::Init, "stats");
        slices.apply(Event::InitApply(bad()), "stats");
        slices.apply(Event::InitDone, "stats");
        assert_eq!(slices.addresses(), kept, "also after a new list");
        slices.apply(Event::Delete(bad()), "stats");
        assert_eq!(slices.addresses(), BTreeSet::new());
    }
}
