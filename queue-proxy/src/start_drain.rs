//! The subcommand `start-drain`: begins the drain of the sidecar in the same pod.
//!
//! The preStop hook of the sidecar's container executes it, because the image has no other program.
//! It connects over loopback, which no other pod can, and sends the pod's UID, which no request has
//! that the app sends for a client.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use autoscaler::contract::{START_DRAIN_HEADER, START_DRAIN_PATH};
use bytes::Bytes;
use http::Request;
use http::header::HOST;
use http_body_util::Empty;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::readiness::pod_identity::{PodIdentity, PodUid};

/// Longest time for the response. The app's hook waits for the drain at the same time.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Begins the drain of the sidecar of the pod with this UID, whose admin port listens on `admin`.
///
/// # Errors
/// When the sidecar does not respond, or rejects the request.
pub async fn start_drain(admin: SocketAddr, uid: Option<PodUid>) -> anyhow::Result<()> {
    let to = over_loopback(admin);
    let uid =
        PodIdentity::new(uid).start_drain_value().context("the pod's UID is not a valid header value")?;
    let request =
        Request::post(START_DRAIN_PATH).header(HOST, to.to_string()).header(START_DRAIN_HEADER, uid);
    let request = request.body(Empty::<Bytes>::new())?;
    let sent = timeout(TIMEOUT, http_client::send_once(request, || TcpStream::connect(to))).await;
    let response = sent
        .with_context(|| format!("no response of the sidecar at {to} within {TIMEOUT:?}"))?
        .with_context(|| format!("no response of the sidecar at {to}"))?;
    anyhow::ensure!(response.status().is_success(), "the sidecar at {to} responded {}", response.status());
    Ok(())
}

/// The loopback address of the same family. A port of all addresses is one of IPv4 as well.
fn over_loopback(listening: SocketAddr) -> SocketAddr {
    let ip = match listening.ip() {
        loopback if loopback.is_loopback() => loopback,
        IpAddr::V6(ip) if !ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        _ => Ipv4Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, listening.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connects_over_loopback_of_the_same_family() {
        for (listening, expected) in [
            ("0.0.0.0:8022", "127.0.0.1:8022"),
            ("[::]:8022", "127.0.0.1:8022"),
            ("[fd00::1]:8022", "[::1]:8022"),
            ("127.0.0.2:1", "127.0.0.2:1"),
        ] {
            assert_eq!(over_loopback(listening.parse().unwrap()).to_string(), expected);
        }
    }
}
