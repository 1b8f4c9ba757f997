//! Probes of an address: does it lead to an activator that holds requests of a workload?
//!
//! There are two uses. [`directory`](super::directory) probes an activator on its leased port
//! before the activator enters an EndpointSlice. [`path_verification`](super::path_verification)
//! probes the Service's own address before the last pod is removed. That verifies that the node of
//! this process has applied the slices, and that no network policy keeps clients from activators.
//! Other nodes apply the slices on their own; the grace period covers them.
//!
//! Each probe opens a new connection, because an established one keeps its old endpoint.
//!
//! In managed mode the Service leads to activators alone, so several probes in a row must succeed.
//! In attached mode pods share the path, so one success is enough: activators are what remains at
//! zero.
//!
//! On a TCP port a probe looks like a client's connection. So it is announced on the activators'
//! admin port. An announced connection that sends the probe bytes is not counted and wakes nothing.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use autoscaler::contract::{
    LEASES_PATH, PROBE_ACTIVATOR, PROBE_HEADER, TCP_PROBE, WORKLOAD_HEADER, tcp_probe_answer,
};
use autoscaler::{Key, Protocol};
use bytes::Bytes;
use futures::future::{BoxFuture, try_join_all};
use http::{Request, StatusCode};
use http_body_util::Empty;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longest duration of one probe. Activators answer at once, so this is a bound of the network.
const PROBE_TIMEOUT: Duration = Duration::from_millis(500);
/// Successful probes that verify one address of a managed Service.
const MANAGED_PROBES: u32 = 3;
/// Most probes of one address of an attached Service, until one reaches an activator among the
/// pods.
const MAX_ATTACHED_PROBES: u32 = 20;

/// Bytes that are read of a TCP response. A pod's own greeting may be longer.
const MAX_TCP_RESPONSE: u64 = 1024;

/// An address that should lead to activators: an activator's own, or a Service's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedAddress {
    /// The address and port to connect to.
    pub address: SocketAddr,
    /// The protocol of the port.
    pub protocol: Protocol,
    /// The leased port of the activators.
    pub activator_port: u16,
    /// Admin addresses of the activators that the address may lead to.
    pub admin_addresses: Vec<SocketAddr>,
}

/// Sends probes. A trait, so that tests need no network.
pub trait PathProber: fmt::Debug + Send + Sync + 'static {
    /// Probes one address for an activator that holds requests of the workload.
    fn probe<'a>(&'a self, address: &'a ProbedAddress, key: &'a Key)
    -> BoxFuture<'a, Result<(), ProbeError>>;

    /// Opens a connection and closes it. Succeeds if a process listens.
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, Result<(), ProbeError>>;
}

/// Sends probes over the network.
#[derive(Clone, Copy, Debug)]
pub struct NetworkProber;

/// Why a probe failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// No response in time.
    #[error("no response from {0} within {PROBE_TIMEOUT:?}")]
    Timeout(SocketAddr),
    /// The connection failed.
    #[error("could not connect to {0}: {1}")]
    Connect(SocketAddr, std::io::Error),
    /// The HTTP exchange failed.
    #[error("HTTP request to {0} failed: {1}")]
    Http(SocketAddr, http_client::Error),
    /// The request could not be built.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// Another HTTP server answered, such as a pod.
    #[error("{0} is not an activator (HTTP status {1})")]
    NotActivator(SocketAddr, StatusCode),
    /// Another TCP server answered.
    #[error("{0} is not an activator")]
    NotActivatorTcp(SocketAddr),
    /// An activator answered for another workload.
    #[error("{0} is an activator for workload {1:?}")]
    OtherWorkload(SocketAddr, String),
}

// === impl NetworkProber ===

impl PathProber for NetworkProber {
    fn probe<'a>(
        &'a self,
        address: &'a ProbedAddress,
        key: &'a Key,
    ) -> BoxFuture<'a, Result<(), ProbeError>> {
        Box::pin(probe(address, key))
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, Result<(), ProbeError>> {
        Box::pin(async move {
            let connected = timeout(PROBE_TIMEOUT, TcpStream::connect(address)).await;
            let connected = connected.map_err(|_| ProbeError::Timeout(address))?;
            connected.map(drop).map_err(|error| ProbeError::Connect(address, error))
        })
    }
}

async fn probe(probed: &ProbedAddress, key: &Key) -> Result<(), ProbeError> {
    let ProbedAddress { address, protocol, activator_port, admin_addresses } = probed;
    let result = async {
        match protocol {
            Protocol::Http => probe_http(*address, key).await,
            Protocol::Tcp => {
                try_join_all(admin_addresses.iter().map(|admin| announce(*admin, *activator_port, key)))
                    .await?;
                probe_tcp(*address, key).await
            }
        }
    };
    timeout(PROBE_TIMEOUT, result).await.map_err(|_| ProbeError::Timeout(*address))?
}

/// Probes all addresses of a Service, one for each IP and port. Succeeds if activators are in the
/// path.
///
/// # Errors
/// The first failed probe; in attached mode the last of an address.
pub async fn verify_path(
    prober: &dyn PathProber,
    addresses: &[ProbedAddress],
    key: &Key,
    is_managed: bool,
) -> Result<(), ProbeError> {
    for address in addresses {
        if is_managed {
            for _ in 0..MANAGED_PROBES {
                prober.probe(address, key).await?;
            }
        } else {
            probe_until_success(prober, address, key).await?;
        }
    }
    Ok(())
}

async fn probe_until_success(
    prober: &dyn PathProber,
    address: &ProbedAddress,
    key: &Key,
) -> Result<(), ProbeError> {
    let mut probes = 0;
    loop {
        probes += 1;
        match prober.probe(address, key).await {
            // A pod answered. The next connection may reach an activator.
            Err(ProbeError::NotActivator(..) | ProbeError::NotActivatorTcp(_))
                if probes < MAX_ATTACHED_PROBES => {}
            result => return result,
        }
    }
}

/// Announces a TCP probe to an activator. One that does not listen on the port cannot receive it.
async fn announce(admin: SocketAddr, port: u16, key: &Key) -> Result<(), ProbeError> {
    match get(admin, &format!("{LEASES_PATH}{port}")).await? {
        (StatusCode::NOT_FOUND, _) => Ok(()),
        response => check_workload(response, admin, key),
    }
}

async fn probe_tcp(address: SocketAddr, key: &Key) -> Result<(), ProbeError> {
    let mut stream = TcpStream::connect(address).await.map_err(|e| ProbeError::Connect(address, e))?;
    let mut response = Vec::new();
    let exchange = async {
        stream.write_all(TCP_PROBE).await?;
        (&mut stream).take(MAX_TCP_RESPONSE).read_to_end(&mut response).await
    };
    // A connection that is closed early is a response of a pod as well.
    let _ = exchange.await;
    if response == tcp_probe_answer(key).as_bytes() {
        Ok(())
    } else {
        Err(ProbeError::NotActivatorTcp(address))
    }
}

async fn probe_http(address: SocketAddr, key: &Key) -> Result<(), ProbeError> {
    check_workload(get(address, "/").await?, address, key)
}

/// Succeeds if the response is an activator's, for this workload.
fn check_workload(
    (status, workload): (StatusCode, Option<String>),
    address: SocketAddr,
    key: &Key,
) -> Result<(), ProbeError> {
    match (status, workload) {
        (StatusCode::OK, Some(workload)) if workload == key.to_string() => Ok(()),
        (_, Some(workload)) => Err(ProbeError::OtherWorkload(address, workload)),
        (status, None) => Err(ProbeError::NotActivator(address, status)),
    }
}

/// The status of a response, and the workload that it names.
async fn get(address: SocketAddr, path: &str) -> Result<(StatusCode, Option<String>), ProbeError> {
    let request = Request::get(path)
        .header(http::header::HOST, address.to_string())
        .header(http::header::CONNECTION, "close")
        .header(PROBE_HEADER, PROBE_ACTIVATOR)
        .body(Empty::<Bytes>::new())?;
    let response = http_client::send_once(request, || TcpStream::connect(address)).await;
    let response = response.map_err(|error| match error {
        http_client::Error::Unreachable(error) => ProbeError::Connect(address, error),
        error => ProbeError::Http(address, error),
    })?;
    let workload =
        response.headers().get(WORKLOAD_HEADER).map(|w| String::from_utf8_lossy(w.as_bytes()).into_owned());
    Ok((response.status(), workload))
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::Router;
    use axum::http::HeaderMap;
    use axum::response::IntoResponse;

    use super::*;

    /// Answers every `nth` probe as an activator of `workload`, and the others as a pod. Counts
    /// probes.
    async fn http_server(workload: &'static str, nth: u32) -> (SocketAddr, Arc<AtomicU32>) {
        let probes = Arc::new(AtomicU32::new(0));
        let count = probes.clone();
        let respond = move |headers: HeaderMap| {
            let is_activator = (count.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(nth);
            let is_probe = headers.get(PROBE_HEADER).is_some_and(|v| v == PROBE_ACTIVATOR);
            async move {
                if is_activator && is_probe {
                    ([(WORKLOAD_HEADER, workload)], PROBE_ACTIVATOR).into_response()
                } else {
                    "hello".into_response()
                }
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(respond)).await });
        (address, probes)
    }

    fn http(address: SocketAddr) -> ProbedAddress {
        ProbedAddress {
            address,
            protocol: Protocol::Http,
            activator_port: 20000,
            admin_addresses: Vec::new(),
        }
    }

    /// A TCP server with these responses in turn. Counts the announcements to its activator.
    async fn tcp_server(responses: &'static [&'static str]) -> (ProbedAddress, Arc<AtomicU32>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (admin, announcements) = http_server("shop/web", 1).await;
        tokio::spawn(async move {
            for response in responses.iter().cycle() {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut probe = vec![0; TCP_PROBE.len()];
                stream.read_exact(&mut probe).await.unwrap();
                assert_eq!(probe, TCP_PROBE);
                stream.write_all(response.as_bytes()).await.unwrap();
            }
        });
        let probed = ProbedAddress {
            address,
            protocol: Protocol::Tcp,
            activator_port: 20000,
            admin_addresses: vec![admin],
        };
        (probed, announcements)
    }

    #[tokio::test]
    async fn announces_each_tcp_probe_and_accepts_only_activator_response() {
        let key = Key::new("shop", "web");
        let (activators, announcements) = tcp_server(&["activator shop/web\r\n"]).await;
        assert!(verify_path(&NetworkProber, &[activators], &key, true).await.is_ok());
        assert_eq!(announcements.load(Ordering::Relaxed), MANAGED_PROBES);
        let (mixed, announcements) = tcp_server(&["", "220 ready\r\n", "activator shop/web\r\n"]).await;
        assert!(matches!(probe(&mixed, &key).await, Err(ProbeError::NotActivatorTcp(_))));
        assert!(verify_path(&NetworkProber, &[mixed], &key, false).await.is_ok());
        assert_eq!(announcements.load(Ordering::Relaxed), 3);
        let (other, _) = tcp_server(&["activator shop/api\r\n"]).await;
        assert!(matches!(probe(&other, &key).await, Err(ProbeError::NotActivatorTcp(_))));
    }

    #[tokio::test]
    async fn sends_no_tcp_probe_while_an_activator_is_unreachable() {
        let (mut probed, _) = tcp_server(&["activator shop/web\r\n"]).await;
        let closed = SocketAddr::from(([127, 0, 0, 1], 1));
        probed.admin_addresses.push(closed);
        let result = probe(&probed, &Key::new("shop", "web")).await;
        assert!(matches!(result, Err(ProbeError::Connect(address, _)) if address == closed), "{result:?}");
    }

    #[tokio::test]
    async fn managed_service_is_verified_by_activators_alone() {
        let key = Key::new("shop", "web");
        let (activators, probes) = http_server("shop/web", 1).await;
        assert!(verify_path(&NetworkProber, &[http(activators)], &key, true).await.is_ok());
        assert_eq!(probes.load(Ordering::Relaxed), MANAGED_PROBES);
        let (mixed, _) = http_server("shop/web", 2).await;
        let addresses = [http(activators), http(mixed)];
        assert!(matches!(
            verify_path(&NetworkProber, &addresses, &key, true).await,
            Err(ProbeError::NotActivator(..))
        ));
    }

    #[tokio::test]
    async fn attached_service_is_verified_by_one_activator_among_pods() {
        let key = Key::new("shop", "web");
        let (mixed, probes) = http_server("shop/web", 7).await;
        assert!(verify_path(&NetworkProber, &[http(mixed)], &key, false).await.is_ok());
        assert_eq!(probes.load(Ordering::Relaxed), 7);
        let (pods, probes) = http_server("shop/web", 1000).await;
        assert!(matches!(
            verify_path(&NetworkProber, &[http(pods)], &key, false).await,
            Err(ProbeError::NotActivator(..))
        ));
        assert_eq!(probes.load(Ordering::Relaxed), MAX_ATTACHED_PROBES);
    }

    #[tokio::test]
    async fn rejects_activator_of_another_workload_and_closed_port() {
        let key = Key::new("shop", "web");
        let (other, _) = http_server("shop/api", 1).await;
        assert!(matches!(probe(&http(other), &key).await, Err(ProbeError::OtherWorkload(..))));
        let closed = SocketAddr::from(([127, 0, 0, 1], 1));
        assert!(matches!(probe(&http(closed), &key).await, Err(ProbeError::Connect(..))));
        assert!(NetworkProber.connect(other).await.is_ok());
        let refused = NetworkProber.connect(closed).await;
        assert!(
            matches!(&refused, Err(ProbeError::Connect(_, e)) if e.kind() == ErrorKind::ConnectionRefused),
            "{refused:?}"
        );
    }
}
