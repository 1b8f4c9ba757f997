//! Activators that come and go among many workloads. One that stops accepts connections for some
//! seconds only, so it has to leave all EndpointSlices soon. One that joins can wait.

use std::collections::HashMap;
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
const JOINS: &str = "10.0.9.3";
const JOINS_LAST: &str = "10.0.9.4";
/// Time in which activators have to be the same before workloads move to those that joined.
const SETTLE: Duration = Duration::from_secs(60);
/// One fifth of the rate limit of the other writes.
const MOVES_PER_SECOND: usize = 20;

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

/// A zero-scaler with these activators, and with all objects in place. It ends with its tasks.
async fn populated(api: &FakeApi, activators: &[&str]) -> JoinSet<()> {
    set_activators(api, activators);
    let interfaces =
        ExternalInterfaces { client: api.client(), clock: Clock::system(), prober: Arc::new(Network) };
    let (mut tasks, readiness) = (JoinSet::new(), Readiness::default());
    let metrics = Metrics::register(&Registry::new()).unwrap();
    let leadership = Leadership::always_leading();
    let args = Args::parse_from(["zero-scaler", "--open-stats-port"]);
    let _context = controllers(&args, interfaces, &leadership, metrics, &readiness, &mut tasks);
    until(api, STOPS, WORKLOADS, SET_UP_INTERVAL).await;
    until_populated(api).await;
    tasks
}

/// Gives each workload a ready pod.
fn create_pods(api: &FakeApi) {
    for i in 0..WORKLOADS {
        let service = format!("web-{i}-private");
        let labels = json!({"kubernetes.io/service-name": service,
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"});
        let address = format!("10.1.{}.{}", i / 250, i % 250);
        api.put(
            &format!("{SLICES}/shop/endpointslices/{service}-x"),
            json!({"metadata": {"labels": labels}, "addressType": "IPv4",
                "endpoints": [{"addresses": [address], "conditions": {"ready": true}}],
                "ports": [{"name": "http", "port": 8012, "protocol": "TCP"}]}),
        );
    }
}

/// How often each of the workloads' slices was written since this many requests.
fn slice_writes(api: &FakeApi, since: usize) -> HashMap<String, usize> {
    let mut writes = HashMap::new();
    for request in api.requests_since(since) {
        if request.starts_with("PATCH ") && request.contains("/shop/endpointslices/") {
            *writes.entry(request).or_default() += 1;
        }
    }
    writes
}

#[tokio::test(start_paused = true)]
async fn rollout_of_activators_writes_slices_at_zero_twice() {
    let api = FakeApi::default();
    create(&api);
    let _tasks = populated(&api, &[STAYS, STOPS]).await;
    let before = api.requests().len();
    for activators in
        [&[STAYS, STOPS, JOINS][..], &[STAYS, JOINS], &[STAYS, JOINS, JOINS_LAST], &[JOINS, JOINS_LAST]]
    {
        set_activators(&api, activators);
        sleep(Duration::from_secs(10)).await;
        for stopped in [STAYS, STOPS].iter().filter(|it| !activators.contains(it)) {
            assert_eq!(slices_with(&api, stopped), 0, "{stopped} is about to close its ports");
        }
    }
    let writes = slice_writes(&api, before);
    assert_eq!((writes.len(), writes.values().max()), (WORKLOADS, Some(&2)));
    let before = api.requests().len();
    sleep(10 * SETTLE).await;
    assert_eq!(slice_writes(&api, before), HashMap::new(), "no workload at zero moves afterwards");
}

#[tokio::test(start_paused = true)]
async fn workloads_with_pods_move_slowly_to_an_activator_that_joins() {
    let api = FakeApi::default();
    create(&api);
    create_pods(&api);
    let _tasks = populated(&api, &[STAYS, STOPS]).await;
    sleep(2 * SETTLE).await;
    let before = api.requests().len();
    set_activators(&api, &[STAYS, STOPS, JOINS]);
    sleep(SETTLE - Duration::from_secs(1)).await;
    assert_eq!(slice_writes(&api, before), HashMap::new());
    sleep(Duration::from_secs(6)).await;
    let moved = slice_writes(&api, before).len();
    assert!((3 * MOVES_PER_SECOND..=6 * MOVES_PER_SECOND).contains(&moved), "{moved} in five seconds");
    sleep(SETTLE).await;
    // Two activators carry each workload, so two thirds have the new one in the end.
    let (moved, most) = (slices_with(&api, JOINS), slice_writes(&api, before).into_values().max());
    assert!((WORKLOADS / 2..=5 * WORKLOADS / 6).contains(&moved), "{moved} slices");
    assert_eq!(most, Some(1), "each is written once");
}

#[tokio::test(start_paused = true)]
async fn stopping_activator_leaves_thousands_of_slices_in_seconds() {
    let api = FakeApi::default();
    create(&api);
    let _tasks = populated(&api, &[STAYS, STOPS]).await;

    api.set_write_latency(WRITE_LATENCY);
    set_activators(&api, &[STAYS]);
    let took = until(&api, STOPS, 0, WRITE_LATENCY).await;
    // Each workload takes two writes, of the slice and of the status.
    let rate = WORKLOADS as f64 / took.as_secs_f64();
    assert!(rate >= 2000.0, "{rate:.0} slices a second, {WORKLOADS} in {took:?}");
    assert_eq!(slices_with(&api, STAYS), WORKLOADS);
}
