//! An activator that stops among many workloads: it accepts connections for some seconds only, so
//! it has to leave all EndpointSlices soon.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use clap::Parser;
use component_base::kubernetes::lease::Leadership;
use component_base::readiness::Readiness;
use fake_api::FakeApi;
use futures::future::BoxFuture;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use zero_scaler::activators::path_probe::{PathProber, ProbeError, ProbedAddress};
use zero_scaler::app::{ExternalInterfaces, controllers};
use zero_scaler::args::Args;
use zero_scaler::clock::Clock;
use zero_scaler::metrics::Metrics;

const WORKLOADS: usize = 400;
/// Of an API server with a fast disk.
const WRITE_LATENCY: Duration = Duration::from_millis(10);
const SET_UP_INTERVAL: Duration = Duration::from_millis(200);
const DEADLINE: Duration = Duration::from_secs(120);
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces";
const STAYS: &str = "10.0.9.1";
const STOPS: &str = "10.0.9.2";

/// A network in which every activator listens.
#[derive(Debug)]
struct Network;

impl PathProber for Network {
    fn probe<'a>(&'a self, _: &'a ProbedAddress, _: &'a Key) -> BoxFuture<'a, Result<(), ProbeError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn connect(&self, _: SocketAddr) -> BoxFuture<'_, Result<(), ProbeError>> {
        Box::pin(std::future::ready(Ok(())))
    }
}

fn create(api: &FakeApi) {
    for i in 0..WORKLOADS {
        let name = format!("web-{i}");
        api.put(
            &format!("/api/v1/namespaces/shop/services/{name}"),
            json!({"spec": {"clusterIP": format!("10.96.{}.{}", i / 250, i % 250), "type": "ClusterIP",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": "queue-proxy"}]}}),
        );
        api.put(
            &format!("/apis/autoscaling.rouse.dev/v1alpha1/namespaces/shop/serverlessservices/{name}"),
            json!({"spec": {"service": name, "selector": format!("app={name}"), "mode": "Proxy",
                "numActivators": 2}}),
        );
    }
}

fn set_activators(api: &FakeApi, addresses: &[&str]) {
    let endpoints: Vec<Value> = (addresses.iter())
        .map(|address| json!({"addresses": [address], "conditions": {"ready": true}}))
        .collect();
    let labels = json!({"kubernetes.io/service-name": "activator"});
    api.put(
        &format!("{SLICES}/rouse-system/endpointslices/activator-x"),
        json!({"metadata": {"labels": labels}, "addressType": "IPv4", "endpoints": endpoints, "ports": []}),
    );
}

/// The number of workloads' slices with an address.
fn slices_with(api: &FakeApi, address: &str) -> usize {
    let has = |slice: &Value| {
        let endpoints = slice["endpoints"].as_array().into_iter().flatten();
        endpoints.map(|endpoint| &endpoint["addresses"][0]).any(|other| other == address)
    };
    let path = format!("{SLICES}/shop/endpointslices/");
    api.objects().iter().filter(|(at, slice)| at.starts_with(&path) && has(slice)).count()
}

/// Returns the time until this many slices have the address, in steps of `interval`: each check
/// copies all objects.
async fn until(api: &FakeApi, address: &str, slices: usize, interval: Duration) -> Duration {
    let began = Instant::now();
    while slices_with(api, address) != slices {
        sleep(interval).await;
        assert!(began.elapsed() < DEADLINE, "{} of {slices} slices", slices_with(api, address));
    }
    began.elapsed()
}

/// Waits for the private Services, whose rate-limited writes follow those of the slices.
async fn until_populated(api: &FakeApi) {
    let began = Instant::now();
    let is_populated = |object: &Value| object.pointer("/status/privateService").is_some();
    while api.objects().iter().filter(|(_, object)| is_populated(object)).count() < WORKLOADS {
        sleep(SET_UP_INTERVAL).await;
        assert!(began.elapsed() < DEADLINE, "private Services are missing");
    }
}

#[tokio::test(start_paused = true)]
async fn stopping_activator_leaves_thousands_of_slices_in_seconds() {
    let api = FakeApi::default();
    create(&api);
    set_activators(&api, &[STAYS, STOPS]);
    let interfaces =
        ExternalInterfaces { client: api.client(), clock: Clock::system(), prober: Arc::new(Network) };
    let (mut tasks, readiness) = (JoinSet::new(), Readiness::default());
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let leadership = Leadership::always_leading();
    let args = Args::parse_from(["zero-scaler", "--open-stats-port"]);
    let _context = controllers(&args, interfaces, &leadership, metrics, &readiness, &mut tasks);
    until(&api, STOPS, WORKLOADS, SET_UP_INTERVAL).await;
    until_populated(&api).await;

    api.set_write_latency(WRITE_LATENCY);
    set_activators(&api, &[STAYS]);
    let took = until(&api, STOPS, 0, WRITE_LATENCY).await;
    // Each workload takes two writes, of the slice and of the status.
    let rate = WORKLOADS as f64 / took.as_secs_f64();
    assert!(rate >= 2000.0, "{rate:.0} slices a second, {WORKLOADS} in {took:?}");
    assert_eq!(slices_with(&api, STAYS), WORKLOADS);
}
