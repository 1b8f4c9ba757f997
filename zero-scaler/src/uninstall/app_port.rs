//! The port of an app behind its sidecar, as the sidecars of its ready pods have it.
//!
//! Pods that start without Rouse have no sidecar, so the Service must lead to this port. Some apps
//! accept connections of their own pod only, and some NetworkPolicies open the sidecar's port
//! alone. So it is used only if the ready pods accept a connection there.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time to accept a connection. A dropped packet is sent again after a second.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(2500);
/// Pods that are tried: all pods of one workload have the same app.
const TRIED_PODS: usize = 3;

/// The port on which all ready pods agree; `None` if none has a sidecar, or if they do not agree.
pub fn app_port(pods: &[Pod]) -> Option<u16> {
    let mut ports = pods.iter().filter(|pod| is_ready(pod)).map(port_of);
    let first = ports.next()??;
    ports.all(|port| port == Some(first)).then_some(first)
}

/// Whether ready pods accept connections on this port from another pod.
pub async fn accepts_connections(pods: &[Pod], port: u16) -> bool {
    let addresses = pods.iter().filter(|pod| is_ready(pod)).filter_map(address).take(TRIED_PODS);
    let connects = |ip| async move {
        let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(SocketAddr::new(ip, port))).await;
        matches!(connected, Ok(Ok(_)))
    };
    let connected = join_all(addresses.map(connects)).await;
    !connected.is_empty() && connected.into_iter().all(|accepted| accepted)
}

/// Whether the pod's condition Ready is true, and it is not being deleted.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

fn address(pod: &Pod) -> Option<IpAddr> {
    pod.status.as_ref()?.pod_ip.as_ref()?.parse().ok()
}

fn port_of(pod: &Pod) -> Option<u16> {
    autoscaler::api::app_port(pod.spec.as_ref()?)?.parse().ok().filter(|port| *port > 0)
}

#[cfg(test)]
mod tests {
    use autoscaler::contract::QUEUE_PROXY;
    use serde_json::json;

    use super::*;

    fn pod(ready: bool, port: Option<&str>) -> Pod {
        let sidecar = port.map(
            |port| json!([{"name": QUEUE_PROXY, "env": [{"name": "QUEUE_PROXY_APP_PORT", "value": port}]}]),
        );
        serde_json::from_value(json!({
            "metadata": {},
            "spec": {"containers": [{"name": "app"}], "initContainers": sidecar},
            "status": {"podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
        }))
        .unwrap()
    }

    #[test]
    fn port_is_that_of_all_ready_pods() {
        let port = |pods: &[(bool, Option<&str>)]| {
            app_port(&pods.iter().map(|(ready, port)| pod(*ready, *port)).collect::<Vec<_>>())
        };
        assert_eq!(port(&[(true, Some("8080")), (true, Some("8080"))]), Some(8080));
        assert_eq!(
            port(&[(true, Some("8080")), (false, Some("9000"))]),
            Some(8080),
            "a pod that is not ready"
        );
        assert_eq!(port(&[(true, Some("8080")), (true, Some("9000"))]), None);
        assert_eq!(port(&[(true, Some("8080")), (true, None)]), None, "one pod has no sidecar");
        assert_eq!(port(&[(true, Some("")), (true, Some(""))]), None);
        assert_eq!(port(&[]), None);
    }

    #[tokio::test]
    async fn app_of_loopback_alone_does_not_accept_connections() {
        /// No test listens on it.
        const CLOSED: u16 = 1;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let pods = [pod(true, None)];
        assert!(accepts_connections(&pods, port).await);
        assert!(!accepts_connections(&pods, CLOSED).await);
        assert!(!accepts_connections(&[pod(false, None)], port).await, "no pod is ready");
    }
}
