//! AppProbe: runs the app's readiness probe once, over a connection of its own.

use std::io::ErrorKind;
use std::net::SocketAddr;

use tokio::time::timeout;

use super::readiness_probe::ReadinessProbe;
use crate::app_connection::PodAddresses;

/// Begins like the kubelet's user agent, because some apps exclude that one from their logs.
const USER_AGENT: &str = "kube-probe/rouse-queue-proxy";

/// The app's readiness probe and the address of its traffic.
#[derive(Clone, Debug)]
pub(crate) struct AppProbe {
    probe: ReadinessProbe,
    /// Address for requests, which may differ from the probe's.
    app: SocketAddr,
    pod: PodAddresses,
}

/// Result of one probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeResult {
    Ready,
    /// The probe failed or timed out.
    Unready,
    /// The app refuses connections on the address of its traffic.
    Unreachable,
}

// === impl AppProbe ===

impl AppProbe {
    /// A probe of the app that takes requests at `app` of the pod.
    pub(crate) fn new(app: SocketAddr, probe: ReadinessProbe, pod: PodAddresses) -> Self {
        Self { probe, app, pod }
    }

    /// Successful probes in a row that a start takes.
    pub(crate) fn successes(&self) -> u32 {
        self.probe.successes
    }

    /// Runs the probe; whether the app is ready.
    pub(crate) async fn succeeds(&self) -> bool {
        self.run().await == ProbeResult::Ready
    }

    /// Runs the probe.
    pub(crate) async fn run(&self) -> ProbeResult {
        let address = self.probe.action.address();
        let result = async {
            match self.pod.connect(address).await {
                Ok(stream) => match self.probe.action.succeeds_over(stream, USER_AGENT).await {
                    Ok(true) => ProbeResult::Ready,
                    Ok(false) | Err(_) => ProbeResult::Unready,
                },
                Err(error) if error.kind() == ErrorKind::ConnectionRefused && address == self.app => {
                    ProbeResult::Unreachable
                }
                Err(_) => ProbeResult::Unready,
            }
        };
        timeout(self.probe.timeout, result).await.unwrap_or(ProbeResult::Unready)
    }
}

#[cfg(test)]
mod tests {
    use autoscaler::Protocol;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn tcp_probe_succeeds_when_the_app_accepts_a_connection() {
        let app = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, pod) = (app.local_addr().unwrap(), PodAddresses::find(Protocol::Http));
        let probe = AppProbe::new(address, ReadinessProbe::tcp(address), pod);
        assert_eq!(probe.run().await, ProbeResult::Ready);
        let closed = SocketAddr::from(([127, 0, 0, 1], 1));
        let refused = AppProbe::new(closed, ReadinessProbe::tcp(closed), pod);
        assert_eq!(refused.run().await, ProbeResult::Unreachable);
        // A refused connection on another address than the app's does not mean unreachable.
        let refused_elsewhere = AppProbe::new(address, ReadinessProbe::tcp(closed), pod);
        assert_eq!(refused_elsewhere.run().await, ProbeResult::Unready);
    }

    #[tokio::test]
    async fn http_probe_succeeds_by_status() {
        let app = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = app.local_addr().unwrap();
        let probe = AppProbe::new(
            address,
            ReadinessProbe::http(address, "/healthz").unwrap(),
            PodAddresses::find(Protocol::Http),
        );
        for (status, expected) in [("200 OK", true), ("503 Not Yet", false), ("302 Found", true), ("", false)]
        {
            let respond = async {
                let (mut stream, _) = app.accept().await.unwrap();
                let mut request = [0; 256];
                let n = stream.read(&mut request).await.unwrap();
                assert!(request[..n].starts_with(b"GET /healthz HTTP/1.1\r\n"));
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(head.as_bytes()).await.unwrap();
            };
            let (succeeded, ()) = tokio::join!(probe.succeeds(), respond);
            assert_eq!(succeeded, expected, "{status}");
        }
    }
}
