//! Activators are lost: one, all, or with Rouse's namespace.

use std::net::SocketAddr;
use std::time::Duration;

use autoscaler::contract::PUSH_PATH;
use serde_json::json;
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::harness::cluster::{ACTIVATOR, AUTOSCALER, Cluster, HPA, SERVICE};
use crate::harness::scenario::Scenario;

#[tokio::test(start_paused = true)]
async fn namespace_deletion_scales_up_workload_at_zero() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.decide(0, Some(0));
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    scenario
        .until("zero replicas in the status", |cluster| cluster.field(AUTOSCALER, "/status/replicas") == 0)
        .await;
    delete_namespace(&scenario);
    scenario.until("one replica", |cluster| cluster.size() == 1).await;
    scenario.until("the pod in the endpoints", |cluster| cluster.service_endpoints() == ["10.0.0.0"]).await;
    scenario.advance(Duration::from_secs(120)).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 1]);
    assert_eq!(scenario.cluster.observed().lost_requests, Vec::<String>::new());
    until_of_kubernetes(&mut scenario).await;
}

fn delete_namespace(scenario: &Scenario) {
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    scenario.cluster.api.put("/api/v1/namespaces/rouse-system", deleted);
}

/// Ends the zero-scalers. The endpoints of the Service follow its pods all the same.
async fn until_of_kubernetes(scenario: &mut Scenario) {
    assert_eq!(scenario.cluster.field(SERVICE, "/spec/selector"), json!({"app": "web"}));
    scenario.stop();
    scenario.cluster.scale(2);
    let pods = |cluster: &Cluster| cluster.service_endpoints() == ["10.0.0.0", "10.0.0.1"];
    scenario.until("the pods alone", pods).await;
}

/// Nothing of Rouse deletes such a slice once the namespace is gone.
#[tokio::test(start_paused = true)]
async fn namespace_deletion_leaves_no_activator_behind_a_service_with_a_selector() {
    for workload_is_paused in [false, true] {
        let mut scenario = Scenario::new(1);
        scenario.cluster.attached();
        scenario.until_serving().await;
        scenario.until_at_zero().await;
        pause(&scenario, workload_is_paused);
        scenario.settle().await;
        delete_namespace(&scenario);
        scenario.advance(Duration::from_secs(5)).await;
        assert_eq!(scenario.cluster.size(), i64::from(!workload_is_paused));
        until_of_kubernetes(&mut scenario).await;
    }
}

/// The pods of a paused workload start after the end of Rouse, or those of an app that takes long.
#[tokio::test(start_paused = true)]
async fn namespace_deletion_gives_service_without_ready_pods_a_selector() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.until_at_zero().await;
    pause(&scenario, true);
    scenario.settle().await;
    delete_namespace(&scenario);
    scenario.advance(Duration::from_secs(2)).await;
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR], "it holds requests while pods may start");
    scenario.advance(Duration::from_secs(3)).await;
    assert_eq!((scenario.cluster.size(), scenario.cluster.service_endpoints()), (0, Vec::new()));
    until_of_kubernetes(&mut scenario).await;
}

fn pause(scenario: &Scenario, paused: bool) {
    scenario.cluster.edit(HPA, |hpa| {
        hpa["metadata"]["annotations"]["autoscaling.rouse.dev/paused"] = paused.to_string().into();
    });
}

#[tokio::test(start_paused = true)]
async fn wakes_workload_ten_seconds_after_last_activator_is_lost() {
    let mut scenario = Scenario::new(1);
    scenario.until_serving().await;
    scenario.until_at_zero().await;
    scenario.cluster.activators(&[]);
    scenario.advance(Duration::from_secs(9)).await;
    assert_eq!(scenario.cluster.size(), 0, "scaled up while an activator may just be replaced");
    scenario.advance(Duration::from_secs(2)).await;
    assert_eq!(scenario.cluster.size(), 1);
    scenario.until("the pod in the endpoints", |cluster| cluster.service_endpoints() == ["10.0.0.0"]).await;
    scenario.advance(Duration::from_secs(300)).await;
    assert_eq!(scenario.cluster.observed().sizes, [1, 0, 1], "scaled to zero without an activator");
    scenario.cluster.activators(&[ACTIVATOR]);
    scenario.until("zero replicas", |cluster| cluster.size() == 0).await;
    assert_eq!(scenario.cluster.service_endpoints(), [ACTIVATOR]);
}

/// The push connection of an activator with this address.
async fn connect(address: &str, server: SocketAddr) -> WebSocketStream<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(address.parse().unwrap(), 0)).unwrap();
    let stream = socket.connect(server).await.unwrap();
    client_async(format!("ws://{server}{PUSH_PATH}"), stream).await.unwrap().0
}

#[tokio::test(start_paused = true)]
async fn killed_activator_leaves_endpoints_while_its_pod_is_ready() {
    const KILLED: &str = "127.0.0.2";
    const OTHER: &str = "127.0.0.3";
    let mut scenario = Scenario::new(1);
    [KILLED, OTHER].iter().for_each(|activator| scenario.cluster.start_activator(activator));
    scenario.cluster.activators(&[KILLED, OTHER]);
    scenario.until_serving().await;
    scenario.until_at_zero().await;
    assert_eq!(scenario.cluster.service_endpoints(), [KILLED, OTHER]);
    // Sockets need the real clock.
    tokio::time::resume();
    let server = scenario.serve_pushes().await;
    let (killed, _other) = (connect(KILLED, server).await, connect(OTHER, server).await);
    scenario.cluster.kill_activator(KILLED);
    drop(killed);
    scenario.until("the other activator alone", |cluster| cluster.service_endpoints() == [OTHER]).await;
    scenario.cluster.start_activator(KILLED);
    let _killed = connect(KILLED, server).await;
    scenario.until("both activators", |cluster| cluster.service_endpoints() == [KILLED, OTHER]).await;
}
