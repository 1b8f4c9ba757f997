//! Who answers: asked of an address with a probe that only an activator knows how to answer.
//!
//! Two uses. Before an activator is put into a slice, it must answer on the leased port, in the workload's name. Before the
//! last pod goes, the Service's own address must lead to an activator: that is the only proof that every node between has
//! taken the slices in. Each question opens a new connection, because an old one would still lead where it led.
//!
//! In managed mode the Service leads to activators alone, so several answers in a row are demanded. In attached mode pods
//! share the path while there are any, so one answer is enough: when the pods go, the activators are what is left.

use std::net::SocketAddr;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::contract::{PROBE_ACTIVATOR, PROBE_HEADER, WORKLOAD_HEADER};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

/// An activator answers probes itself, so all this time is the network's.
const PATIENCE: Duration = Duration::from_millis(500);
/// Answers in a row that prove a managed Service.
const HITS_IN_A_ROW: u32 = 3;
/// Questions until an attached Service has had its chance to pick an activator among the pods.
const ATTEMPTS: u32 = 20;

/// Why a question was not answered by an activator of the workload.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Nobody in time.
    #[error("{0} did not answer within {PATIENCE:?}")]
    Timeout(SocketAddr),
    /// No connection.
    #[error("{0}: {1}")]
    Connect(SocketAddr, std::io::Error),
    /// No HTTP.
    #[error("{0}: {1}")]
    Http(SocketAddr, hyper::Error),
    /// The question itself could not be made.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// Somebody else, such as a pod.
    #[error("{0} is answered by something that is not an activator ({1})")]
    SomebodyElse(SocketAddr, StatusCode),
    /// An activator that takes the port for another workload's.
    #[error("{0} is answered by an activator for {1:?}")]
    OtherWorkload(SocketAddr, String),
}

/// Asks one address for an activator of this workload.
///
/// # Errors
/// Anything but the expected answer.
pub async fn ask(address: SocketAddr, key: &Key) -> Result<(), ProbeError> {
    timeout(PATIENCE, question(address, key)).await.map_err(|_| ProbeError::Timeout(address))?
}

/// Asks the Service's addresses (one for each port) until it is clear whether activators are in the path.
///
/// # Errors
/// What stood against it.
pub async fn prove(addresses: &[SocketAddr], key: &Key, managed: bool) -> Result<(), ProbeError> {
    for address in addresses {
        if managed {
            for _ in 0..HITS_IN_A_ROW {
                ask(*address, key).await?;
            }
        } else {
            at_least_once(*address, key).await?;
        }
    }
    Ok(())
}

async fn at_least_once(address: SocketAddr, key: &Key) -> Result<(), ProbeError> {
    let mut asked = 0;
    loop {
        asked += 1;
        match ask(address, key).await {
            // Only a pod's answer leaves hope for the next question.
            Err(ProbeError::SomebodyElse(..)) if asked < ATTEMPTS => {}
            end => return end,
        }
    }
}

async fn question(address: SocketAddr, key: &Key) -> Result<(), ProbeError> {
    let stream = TcpStream::connect(address).await.map_err(|e| ProbeError::Connect(address, e))?;
    let failed = |error| ProbeError::Http(address, error);
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let _connection = AbortOnDropHandle::new(tokio::spawn(connection));
    let request = Request::get("/")
        .header(http::header::HOST, address.to_string())
        .header(http::header::CONNECTION, "close")
        .header(PROBE_HEADER, PROBE_ACTIVATOR)
        .body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await.map_err(failed)?;
    let workload =
        response.headers().get(WORKLOAD_HEADER).map(|w| String::from_utf8_lossy(w.as_bytes()).into_owned());
    match (response.status(), workload) {
        (StatusCode::OK, Some(workload)) if workload == key.to_string() => Ok(()),
        (_, Some(workload)) => Err(ProbeError::OtherWorkload(address, workload)),
        (status, None) => Err(ProbeError::SomebodyElse(address, status)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::Router;
    use axum::http::HeaderMap;
    use axum::response::IntoResponse;

    use super::*;

    /// Answers as an activator of `workload` to every `nth` question, and as a pod to the others.
    async fn answering(workload: &'static str, nth: u32) -> (SocketAddr, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let count = asked.clone();
        let answer = move |headers: HeaderMap| {
            let activator = (count.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(nth);
            let asked = headers.get(PROBE_HEADER).is_some_and(|v| v == PROBE_ACTIVATOR);
            async move {
                if activator && asked {
                    ([(WORKLOAD_HEADER, workload)], PROBE_ACTIVATOR).into_response()
                } else {
                    "hello".into_response()
                }
            }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        (address, asked)
    }

    #[tokio::test]
    async fn a_managed_service_must_be_answered_by_activators_alone() {
        let key = Key::new("shop", "web");
        let (activators, asked) = answering("shop/web", 1).await;
        assert!(prove(&[activators], &key, true).await.is_ok());
        assert_eq!(asked.load(Ordering::Relaxed), HITS_IN_A_ROW);
        let (mixed, _) = answering("shop/web", 2).await;
        assert!(matches!(prove(&[activators, mixed], &key, true).await, Err(ProbeError::SomebodyElse(..))));
    }

    #[tokio::test]
    async fn an_attached_service_must_be_answered_by_one_among_the_pods() {
        let key = Key::new("shop", "web");
        let (mixed, asked) = answering("shop/web", 7).await;
        assert!(prove(&[mixed], &key, false).await.is_ok());
        assert_eq!(asked.load(Ordering::Relaxed), 7);
        let (pods, asked) = answering("shop/web", 1000).await;
        assert!(matches!(prove(&[pods], &key, false).await, Err(ProbeError::SomebodyElse(..))));
        assert_eq!(asked.load(Ordering::Relaxed), ATTEMPTS);
    }

    #[tokio::test]
    async fn another_workloads_activator_and_nobody_are_no_proof() {
        let key = Key::new("shop", "web");
        let (other, _) = answering("shop/api", 1).await;
        assert!(matches!(ask(other, &key).await, Err(ProbeError::OtherWorkload(..))));
        let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        assert!(matches!(ask(nobody, &key).await, Err(ProbeError::Connect(..))));
    }
}
