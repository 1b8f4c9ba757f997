//! A simulated network of activators, for unit tests.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use autoscaler::Key;
use component_base::readiness::Readiness;
use fake_api::FakeApi;
use futures::future::BoxFuture;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::runtime::watcher::Event;
use parking_lot::Mutex;
use prometheus::Registry;
use serde_json::json;

use crate::activators::directory::Activators;
use crate::activators::path_probe::{PathProber, ProbeError, ProbedAddress};
use crate::cache::cluster_cache::ClusterCache;
use crate::cache::work_queue::WorkQueues;
use crate::metrics::Metrics;

/// Addresses in neither set are unreachable: probes and connections time out.
#[derive(Debug, Default)]
pub(crate) struct FakeNetwork {
    listening: Mutex<BTreeSet<IpAddr>>,
    refusing: Mutex<BTreeSet<IpAddr>>,
    /// Successful probes.
    pub(crate) passed: AtomicUsize,
    /// Probes without an answer.
    pub(crate) timed_out: AtomicUsize,
}

// === impl FakeNetwork ===

impl FakeNetwork {
    /// Activators listen at these addresses.
    pub(crate) fn listening(addresses: &[&str]) -> Self {
        let network = Self::default();
        network.set(addresses, &[]);
        network
    }

    /// Sets the addresses that listen, and those that refuse connections.
    pub(crate) fn set(&self, listening: &[&str], refusing: &[&str]) {
        let parse = |addresses: &[&str]| addresses.iter().map(|ip| ip.parse().unwrap()).collect();
        *self.listening.lock() = parse(listening);
        *self.refusing.lock() = parse(refusing);
    }

    async fn answer(&self, address: SocketAddr) -> Result<(), ProbeError> {
        if self.listening.lock().contains(&address.ip()) {
            return Ok(());
        }
        if self.refusing.lock().contains(&address.ip()) {
            return Err(ProbeError::Connect(address, ErrorKind::ConnectionRefused.into()));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        Err(ProbeError::Timeout(address))
    }
}

impl PathProber for FakeNetwork {
    fn probe<'a>(&'a self, probed: &'a ProbedAddress, _: &'a Key) -> BoxFuture<'a, Result<(), ProbeError>> {
        Box::pin(async {
            let answer = self.answer(probed.address).await;
            match &answer {
                Ok(()) => drop(self.passed.fetch_add(1, Ordering::Relaxed)),
                Err(ProbeError::Timeout(_)) => drop(self.timed_out.fetch_add(1, Ordering::Relaxed)),
                Err(_) => {}
            }
            answer
        })
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, Result<(), ProbeError>> {
        Box::pin(self.answer(address))
    }
}

/// Ready activators at these addresses of a network, and the cache that they are read from.
pub(crate) fn activators_of(
    network: &Arc<FakeNetwork>,
    addresses: &[&str],
) -> (Arc<Activators>, Arc<ClusterCache>) {
    let (queues, readiness) = (Arc::new(WorkQueues::default()), Readiness::default());
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let client = FakeApi::default().client();
    let (cache, _) = crate::cache::watches::watches(
        &client,
        "rouse-system",
        std::num::NonZeroU32::MAX,
        queues,
        &metrics,
        &readiness,
    );
    let endpoints: Vec<_> = addresses.iter().map(|address| json!({"addresses": [address]})).collect();
    let slice: EndpointSlice = serde_json::from_value(json!({
        "metadata": {"name": "a", "namespace": "rouse-system", "labels": {"kubernetes.io/service-name": "activator"}},
        "addressType": "IPv4",
        "endpoints": endpoints,
    }))
    .unwrap();
    cache.slices.apply(&Event::Apply(slice.into()));
    let activators = Activators::new(cache.clone(), "rouse-system".to_owned(), network.clone());
    (Arc::new(activators), cache)
}
