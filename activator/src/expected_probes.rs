//! ExpectedProbes: which ports that are not HTTP's are open, and which of them the zero-scaler is about to probe.
//!
//! Before the last pod goes, the zero-scaler calls the Service to see who answers. On a port of bytes its connection looks
//! like any caller's, and a caller's is counted and wakes the workload at once, for with many protocols the caller waits
//! for the app's greeting. So the zero-scaler says on the admin port that it will call; for a moment callers of that port are
//! then asked for their first words, and who says the agreed ones is answered and not counted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::contract::{
    LEASES_PATH, PROBE_ACTIVATOR, TCP_PROBE, TCP_PROBE_WITHIN, WORKLOAD_HEADER, tcp_probe_answer,
};
use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode};
use http_body_util::Full;
use parking_lot::Mutex;
use runtime::admin::text_response;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// The open ports. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct ExpectedProbes(Arc<Mutex<HashMap<u16, Arc<ExpectedProbe>>>>);

/// One port. It is open until this is dropped.
#[derive(Debug)]
pub struct ProbedPort {
    port: u16,
    all: ExpectedProbes,
    expected: Arc<ExpectedProbe>,
}

#[derive(Debug)]
struct ExpectedProbe {
    workload: Key,
    until: Mutex<Option<Instant>>,
}

// === impl ExpectedProbes ===

impl ExpectedProbes {
    /// `port` is open and stands for `workload`.
    pub fn open(&self, port: u16, workload: Key) -> ProbedPort {
        let expected = Arc::new(ExpectedProbe { workload, until: Mutex::default() });
        // The newest lease of a port wins.
        self.0.lock().insert(port, expected.clone());
        ProbedPort { port, all: self.clone(), expected }
    }

    /// The answer to a question on the admin port, if it is one about a port: whose it is. A probe of it is then expected.
    pub fn answer(&self, method: &Method, path: &str) -> Option<Response<Full<Bytes>>> {
        let port = path.strip_prefix(LEASES_PATH).filter(|_| method == Method::GET)?;
        let expected = port.parse().ok().and_then(|port: u16| self.0.lock().get(&port).cloned());
        let Some(expected) = expected else {
            return Some(text_response(StatusCode::NOT_FOUND, "this port is not open, or it is HTTP's\n"));
        };
        *expected.until.lock() = Some(Instant::now() + TCP_PROBE_WITHIN);
        let mut response = text_response(StatusCode::OK, PROBE_ACTIVATOR);
        if let Ok(workload) = HeaderValue::try_from(expected.workload.to_string()) {
            response.headers_mut().insert(WORKLOAD_HEADER, workload);
        }
        Some(response)
    }
}

// === impl ProbedPort ===

impl ProbedPort {
    /// Answers a caller who turns out to be the zero-scaler; gives back any other. Waits only while a probe is expected.
    pub async fn pass(&self, mut caller: TcpStream) -> Option<TcpStream> {
        let Some(left) = self.expected.left() else { return Some(caller) };
        let mut said = [0; TCP_PROBE.len()];
        let spoken = timeout(left, caller.peek(&mut said)).await;
        if !matches!(spoken, Ok(Ok(_)) if said == TCP_PROBE) {
            return Some(caller);
        }
        let answer = tcp_probe_answer(&self.expected.workload);
        // Unread bytes would turn the end into a reset, which may overtake the answer.
        let _ = caller.try_read(&mut said);
        if let Err(error) = caller.write_all(answer.as_bytes()).await {
            tracing::debug!(port = self.port, %error, "probe not answered");
        }
        let _ = caller.shutdown().await;
        None
    }
}

impl Drop for ProbedPort {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        if all.get(&self.port).is_some_and(|open| Arc::ptr_eq(open, &self.expected)) {
            all.remove(&self.port);
        }
    }
}

// === impl ExpectedProbe ===

impl ExpectedProbe {
    /// For how long a probe is still expected.
    fn left(&self) -> Option<Duration> {
        let until = (*self.until.lock())?;
        Some(until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    fn asked(probes: &ExpectedProbes, path: &str) -> Option<(StatusCode, Option<String>)> {
        let response = probes.answer(&Method::GET, path)?;
        let workload = response.headers().get(WORKLOAD_HEADER);
        Some((response.status(), workload.map(|value| value.to_str().unwrap().to_owned())))
    }

    #[test]
    fn the_admin_port_tells_whose_an_open_port_is() {
        let probes = ExpectedProbes::default();
        assert_eq!(asked(&probes, "/metrics"), None);
        for unknown in ["/leases/20001", "/leases/x", "/leases/"] {
            assert_eq!(asked(&probes, unknown), Some((StatusCode::NOT_FOUND, None)), "{unknown}");
        }
        let old = probes.open(20001, Key::new("shop", "db"));
        let new = probes.open(20001, Key::new("shop", "cache"));
        drop(old);
        let answer = Some((StatusCode::OK, Some("shop/cache".to_owned())));
        assert_eq!(asked(&probes, "/leases/20001"), answer);
        drop(new);
        assert_eq!(asked(&probes, "/leases/20001"), Some((StatusCode::NOT_FOUND, None)));
    }

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (caller, accepted) =
            tokio::join!(TcpStream::connect(listener.local_addr().unwrap()), listener.accept());
        (caller.unwrap(), accepted.unwrap().0)
    }

    #[tokio::test]
    async fn only_an_expected_probe_is_answered_and_nothing_is_taken_from_others() {
        let probes = ExpectedProbes::default();
        let port = probes.open(20001, Key::new("shop", "db"));
        let (mut probe, stream) = pair().await;
        probe.write_all(TCP_PROBE).await.unwrap();
        let unexpected = port.pass(stream).await;
        assert!(unexpected.is_some());

        asked(&probes, "/leases/20001").unwrap();
        assert!(port.pass(unexpected.unwrap()).await.is_none());
        let mut answer = String::new();
        probe.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "activator shop/db\r\n");

        let (mut caller, stream) = pair().await;
        caller.write_all(b"PING\r\n").await.unwrap();
        let mut stream = port.pass(stream).await.unwrap();
        drop(caller);
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "PING\r\n");
    }
}
