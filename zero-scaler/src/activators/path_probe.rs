//! Who answers: asked of an address with a probe that only an activator knows how to answer.
//!
//! Two uses. Before an activator is put into a slice, it must answer on the leased port, in the workload's name. Before the
//! last pod goes, the Service's own address must lead to an activator: this proves that the slices are taken in where we run, and
//! that nothing between keeps callers from activators. Other nodes take them in on their own; for those there is the grace period.
//! Each question opens a new connection, because an old one would still lead where it led.
//!
//! In managed mode the Service leads to activators alone, so several answers in a row are demanded. In attached mode pods
//! share the path while there are any, so one answer is enough: when the pods go, the activators are what is left.
//!
//! On a port that is not HTTP's a question looks like any caller's connection. So the activators are told beforehand, on their
//! admin port, that one comes: who calls then and says the agreed words is not counted and wakes nobody.

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

/// An activator answers probes itself, so all this time is the network's.
const PATIENCE: Duration = Duration::from_millis(500);
/// Answers in a row that prove a managed Service.
const HITS_IN_A_ROW: u32 = 3;
/// Questions until an attached Service has had its chance to pick an activator among the pods.
const ATTEMPTS: u32 = 20;

/// Most that is read of an answer on a port that is not HTTP's; an app's greeting may be longer.
const MOST_ANSWERED: u64 = 1024;

/// An address that should lead to activators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedAddress {
    /// An activator's, on the leased port, or a Service's.
    pub address: SocketAddr,
    /// What is spoken there.
    pub protocol: Protocol,
    /// The leased port.
    pub activator_port: u16,
    /// The admin ports of the activators that may be behind it.
    pub activators: Vec<SocketAddr>,
}

/// Asks at doors. A trait, so that reconcilers can be run without a network.
pub trait PathProber: fmt::Debug + Send + Sync + 'static {
    /// Asks at one door for an activator of this workload.
    fn ask<'a>(&'a self, door: &'a ProbedAddress, key: &'a Key) -> BoxFuture<'a, Result<(), ProbeError>>;
}

/// Asks over the network.
#[derive(Clone, Copy, Debug)]
pub struct NetworkProber;

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
    Http(SocketAddr, http_client::Error),
    /// The question itself could not be made.
    #[error(transparent)]
    Request(#[from] http::Error),
    /// Somebody else, such as a pod.
    #[error("{0} is answered by something that is not an activator ({1})")]
    SomebodyElse(SocketAddr, StatusCode),
    /// The same, where HTTP is not spoken.
    #[error("{0} is answered by something that is not an activator")]
    Stranger(SocketAddr),
    /// An activator that takes the port for another workload's.
    #[error("{0} is answered by an activator for {1:?}")]
    OtherWorkload(SocketAddr, String),
}

// === impl Network ===

impl PathProber for NetworkProber {
    fn ask<'a>(&'a self, door: &'a ProbedAddress, key: &'a Key) -> BoxFuture<'a, Result<(), ProbeError>> {
        Box::pin(ask(door, key))
    }
}

async fn ask(door: &ProbedAddress, key: &Key) -> Result<(), ProbeError> {
    let asked = async {
        match door.protocol {
            Protocol::Http => http_question(door.address, key).await,
            Protocol::Tcp => {
                try_join_all(door.activators.iter().map(|a| announce(*a, door.activator_port, key))).await?;
                tcp_question(door.address, key).await
            }
        }
    };
    timeout(PATIENCE, asked).await.map_err(|_| ProbeError::Timeout(door.address))?
}

/// Asks at the Service's doors (one for each port) until it is clear whether activators are in the path.
///
/// # Errors
/// What stood against it.
pub async fn verify_path(
    prober: &dyn PathProber,
    doors: &[ProbedAddress],
    key: &Key,
    managed: bool,
) -> Result<(), ProbeError> {
    for door in doors {
        if managed {
            for _ in 0..HITS_IN_A_ROW {
                prober.ask(door, key).await?;
            }
        } else {
            at_least_once(prober, door, key).await?;
        }
    }
    Ok(())
}

async fn at_least_once(prober: &dyn PathProber, door: &ProbedAddress, key: &Key) -> Result<(), ProbeError> {
    let mut asked = 0;
    loop {
        asked += 1;
        match prober.ask(door, key).await {
            // Only a pod's answer leaves hope for the next question.
            Err(ProbeError::SomebodyElse(..) | ProbeError::Stranger(_)) if asked < ATTEMPTS => {}
            end => return end,
        }
    }
}

/// Tells an activator of the question that comes. One that does not listen on the port cannot be the one to be asked.
async fn announce(admin: SocketAddr, port: u16, key: &Key) -> Result<(), ProbeError> {
    match get(admin, &format!("{LEASES_PATH}{port}")).await? {
        (StatusCode::NOT_FOUND, _) => Ok(()),
        answer => is_of(answer, admin, key),
    }
}

async fn tcp_question(address: SocketAddr, key: &Key) -> Result<(), ProbeError> {
    let mut stream = TcpStream::connect(address).await.map_err(|e| ProbeError::Connect(address, e))?;
    let mut answer = Vec::new();
    let spoken = async {
        stream.write_all(TCP_PROBE).await?;
        (&mut stream).take(MOST_ANSWERED).read_to_end(&mut answer).await
    };
    // Who closes on us has answered as well, in a way.
    let _ = spoken.await;
    if answer == tcp_probe_answer(key).as_bytes() { Ok(()) } else { Err(ProbeError::Stranger(address)) }
}

async fn http_question(address: SocketAddr, key: &Key) -> Result<(), ProbeError> {
    is_of(get(address, "/").await?, address, key)
}

/// Whether an activator of this workload answered so.
fn is_of(
    (status, workload): (StatusCode, Option<String>),
    address: SocketAddr,
    key: &Key,
) -> Result<(), ProbeError> {
    match (status, workload) {
        (StatusCode::OK, Some(workload)) if workload == key.to_string() => Ok(()),
        (_, Some(workload)) => Err(ProbeError::OtherWorkload(address, workload)),
        (status, None) => Err(ProbeError::SomebodyElse(address, status)),
    }
}

/// The status of an answer, and the workload that it names.
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

    fn http(address: SocketAddr) -> ProbedAddress {
        ProbedAddress { address, protocol: Protocol::Http, activator_port: 20000, activators: Vec::new() }
    }

    /// A port that is not HTTP's, whose callers are answered in turn, and the admin port of its activator.
    async fn tcp_answering(answers: &'static [&'static str]) -> (ProbedAddress, Arc<AtomicU32>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (admin, told) = answering("shop/web", 1).await;
        tokio::spawn(async move {
            for answer in answers.iter().cycle() {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut probe = vec![0; TCP_PROBE.len()];
                stream.read_exact(&mut probe).await.unwrap();
                assert_eq!(probe, TCP_PROBE);
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        let door = ProbedAddress {
            address,
            protocol: Protocol::Tcp,
            activator_port: 20000,
            activators: vec![admin],
        };
        (door, told)
    }

    #[tokio::test]
    async fn without_http_each_question_is_announced_and_only_the_agreed_words_are_an_answer() {
        let key = Key::new("shop", "web");
        let (activators, told) = tcp_answering(&["activator shop/web\r\n"]).await;
        assert!(verify_path(&NetworkProber, &[activators], &key, true).await.is_ok());
        assert_eq!(told.load(Ordering::Relaxed), HITS_IN_A_ROW);
        let (mixed, told) = tcp_answering(&["", "220 ready\r\n", "activator shop/web\r\n"]).await;
        assert!(matches!(ask(&mixed, &key).await, Err(ProbeError::Stranger(_))));
        assert!(verify_path(&NetworkProber, &[mixed], &key, false).await.is_ok());
        assert_eq!(told.load(Ordering::Relaxed), 3);
        let (other, _) = tcp_answering(&["activator shop/api\r\n"]).await;
        assert!(matches!(ask(&other, &key).await, Err(ProbeError::Stranger(_))));
    }

    #[tokio::test]
    async fn nobody_is_called_while_an_activator_cannot_be_told() {
        let (mut door, _) = tcp_answering(&["activator shop/web\r\n"]).await;
        let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        door.activators.push(nobody);
        let asked = ask(&door, &Key::new("shop", "web")).await;
        assert!(matches!(asked, Err(ProbeError::Connect(address, _)) if address == nobody), "{asked:?}");
    }

    #[tokio::test]
    async fn a_managed_service_must_be_answered_by_activators_alone() {
        let key = Key::new("shop", "web");
        let (activators, asked) = answering("shop/web", 1).await;
        assert!(verify_path(&NetworkProber, &[http(activators)], &key, true).await.is_ok());
        assert_eq!(asked.load(Ordering::Relaxed), HITS_IN_A_ROW);
        let (mixed, _) = answering("shop/web", 2).await;
        let doors = [http(activators), http(mixed)];
        assert!(matches!(
            verify_path(&NetworkProber, &doors, &key, true).await,
            Err(ProbeError::SomebodyElse(..))
        ));
    }

    #[tokio::test]
    async fn an_attached_service_must_be_answered_by_one_among_the_pods() {
        let key = Key::new("shop", "web");
        let (mixed, asked) = answering("shop/web", 7).await;
        assert!(verify_path(&NetworkProber, &[http(mixed)], &key, false).await.is_ok());
        assert_eq!(asked.load(Ordering::Relaxed), 7);
        let (pods, asked) = answering("shop/web", 1000).await;
        assert!(matches!(
            verify_path(&NetworkProber, &[http(pods)], &key, false).await,
            Err(ProbeError::SomebodyElse(..))
        ));
        assert_eq!(asked.load(Ordering::Relaxed), ATTEMPTS);
    }

    #[tokio::test]
    async fn another_workloads_activator_and_nobody_are_no_proof() {
        let key = Key::new("shop", "web");
        let (other, _) = answering("shop/api", 1).await;
        assert!(matches!(ask(&http(other), &key).await, Err(ProbeError::OtherWorkload(..))));
        let nobody = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        assert!(matches!(ask(&http(nobody), &key).await, Err(ProbeError::Connect(..))));
    }
}
