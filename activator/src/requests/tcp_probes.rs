//! TcpProbes: the open TCP ports, and which of them the zero-scaler is about to probe.
//!
//! Before the last pod is removed, the zero-scaler connects to the Service to verify that an
//! activator answers. On a TCP port its connection cannot be distinguished from a client's, which
//! is counted and wakes the workload at once, because in many protocols the server sends first. So
//! the zero-scaler announces the probe on the admin port. For a moment, the first bytes of
//! connections to that port are then compared with the agreed ones; a match is answered and not
//! counted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::contract::{
    LEASES_PATH, PROBE_ACTIVATOR, TCP_PROBE, TCP_PROBE_WITHIN, WORKLOAD_HEADER, tcp_probe_answer,
};
use bytes::Bytes;
use component_base::admin::text_response;
use http::{HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// The open ports. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct TcpProbes(Arc<Mutex<HashMap<u16, Arc<PortProbe>>>>);

/// An open port; it is closed when this is dropped.
#[derive(Debug)]
pub struct TcpProbePort {
    port: u16,
    all: TcpProbes,
    expected: Arc<PortProbe>,
}

#[derive(Debug)]
struct PortProbe {
    workload: Key,
    until: Mutex<Option<Instant>>,
}

// === impl TcpProbes ===

impl TcpProbes {
    /// Adds an open `port` of `workload`.
    pub fn open(&self, port: u16, workload: Key) -> TcpProbePort {
        let expected = Arc::new(PortProbe { workload, until: Mutex::default() });
        // The newest lease of a port wins.
        self.0.lock().insert(port, expected.clone());
        TcpProbePort { port, all: self.clone(), expected }
    }

    /// The response to a request on the admin port, if it is for an open port: the name of its
    /// workload. Announces a probe of the port.
    pub fn answer(&self, method: &Method, path: &str) -> Option<Response<Full<Bytes>>> {
        let port = path.strip_prefix(LEASES_PATH).filter(|_| method == Method::GET)?;
        let expected = port.parse().ok().and_then(|port: u16| self.0.lock().get(&port).cloned());
        let Some(expected) = expected else {
            return Some(text_response(
                StatusCode::NOT_FOUND,
                "this port is not open, or it is an HTTP port\n",
            ));
        };
        *expected.until.lock() = Some(Instant::now() + TCP_PROBE_WITHIN);
        let mut response = text_response(StatusCode::OK, PROBE_ACTIVATOR);
        if let Ok(workload) = HeaderValue::try_from(expected.workload.to_string()) {
            response.headers_mut().insert(WORKLOAD_HEADER, workload);
        }
        Some(response)
    }
}

// === impl TcpProbePort ===

impl TcpProbePort {
    /// Answers a connection of the zero-scaler; returns any other. Waits for data only while a
    /// probe is expected.
    pub async fn filter(&self, mut client: TcpStream) -> Option<TcpStream> {
        let Some(remaining) = self.expected.remaining() else { return Some(client) };
        let mut first = [0; TCP_PROBE.len()];
        let peeked = timeout(remaining, client.peek(&mut first)).await;
        if !matches!(peeked, Ok(Ok(_)) if first == TCP_PROBE) {
            return Some(client);
        }
        let answer = tcp_probe_answer(&self.expected.workload);
        // Closing with unread bytes sends a reset, which may overtake the answer.
        let _ = client.try_read(&mut first);
        if let Err(error) = client.write_all(answer.as_bytes()).await {
            tracing::debug!(port = self.port, %error, "response to probe failed");
        }
        let _ = client.shutdown().await;
        None
    }
}

impl Drop for TcpProbePort {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        if all.get(&self.port).is_some_and(|open| Arc::ptr_eq(open, &self.expected)) {
            all.remove(&self.port);
        }
    }
}

// === impl PortProbe ===

impl PortProbe {
    /// For how long a probe is still expected.
    fn remaining(&self) -> Option<Duration> {
        let until = (*self.until.lock())?;
        Some(until.saturating_duration_since(Instant::now())).filter(|remaining| !remaining.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    fn query(probes: &TcpProbes, path: &str) -> Option<(StatusCode, Option<String>)> {
        let response = probes.answer(&Method::GET, path)?;
        let workload = response.headers().get(WORKLOAD_HEADER);
        Some((response.status(), workload.map(|value| value.to_str().unwrap().to_owned())))
    }

    #[test]
    fn admin_port_names_workload_of_open_port() {
        let probes = TcpProbes::default();
        assert_eq!(query(&probes, "/metrics"), None);
        for unknown in ["/leases/20001", "/leases/x", "/leases/"] {
            assert_eq!(query(&probes, unknown), Some((StatusCode::NOT_FOUND, None)), "{unknown}");
        }
        let old = probes.open(20001, Key::new("shop", "db"));
        let new = probes.open(20001, Key::new("shop", "cache"));
        drop(old);
        let answer = Some((StatusCode::OK, Some("shop/cache".to_owned())));
        assert_eq!(query(&probes, "/leases/20001"), answer);
        drop(new);
        assert_eq!(query(&probes, "/leases/20001"), Some((StatusCode::NOT_FOUND, None)));
    }

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (client, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (client.unwrap(), accepted.unwrap().0)
    }

    #[tokio::test]
    async fn answers_only_expected_probe_and_leaves_data_of_others() {
        let probes = TcpProbes::default();
        let port = probes.open(20001, Key::new("shop", "db"));
        let (mut probe, stream) = pair().await;
        probe.write_all(TCP_PROBE).await.unwrap();
        let unexpected = port.filter(stream).await;
        assert!(unexpected.is_some());

        query(&probes, "/leases/20001").unwrap();
        assert!(port.filter(unexpected.unwrap()).await.is_none());
        let mut answer = String::new();
        probe.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "activator shop/db\r\n");

        let (mut client, stream) = pair().await;
        client.write_all(b"PING\r\n").await.unwrap();
        let mut stream = port.filter(stream).await.unwrap();
        drop(client);
        let mut first = String::new();
        stream.read_to_string(&mut first).await.unwrap();
        assert_eq!(first, "PING\r\n");
    }
}
