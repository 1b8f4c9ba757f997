//! TestApp: the app behind the proxy. It reads strictly, records its requests and runs the actions
//! of a row.

mod http2_connection;

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::addresses::{AppAddress, ReservedPort};
use crate::app_state::{AppState, ObservedRequest};
use crate::case::AppAction;
use crate::http2::case::Http2Action;
use crate::wire::{Head, ReadError, Wire, latin1};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// Longer than the short header timeout, and much shorter than any deadline.
pub(crate) const PAUSE: Duration = Duration::from_millis(500);
/// The response to an activator's probe, because the app stands in for a queue-proxy there.
const PROBE_RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nqueue-proxy";
const PROBE: &str = "rouse-probe";
/// The client preface of HTTP/2.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A running app.
#[derive(Debug)]
pub struct TestApp {
    /// Address of the listener.
    pub address: SocketAddr,
    shared: Arc<AppState>,
    accepting: AbortHandle,
    _reserved: ReservedPort,
}

// === impl TestApp ===

impl TestApp {
    /// Starts an app that runs the actions on its first connection with a request, and responds
    /// with 200 to all other requests.
    ///
    /// # Errors
    /// When a socket cannot be bound.
    pub async fn start(
        at: AppAddress,
        actions: Vec<AppAction>,
        http2: Vec<Http2Action>,
    ) -> anyhow::Result<Self> {
        let (listener, reserved) = at.listen().await.context("the app's socket")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(AppState {
            actions: Mutex::new(actions),
            http2: Mutex::new(http2),
            observed: watch::Sender::new(Vec::new()),
            clients: Mutex::new(BTreeSet::new()),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone())).abort_handle();
        Ok(Self { address, shared, accepting, _reserved: reserved })
    }

    /// The requests received so far.
    pub fn observed(&self) -> Vec<ObservedRequest> {
        self.shared.observed.borrow().clone()
    }

    /// Addresses from which connections came.
    pub fn clients(&self) -> BTreeSet<IpAddr> {
        self.shared.clients.lock().clone()
    }

    /// Waits until the app has received so many requests.
    pub async fn wait_for_requests(&self, count: usize) {
        // An error means that the sender is dropped, but self owns it.
        let _ = self.shared.observed.subscribe().wait_for(|observed| observed.len() >= count).await;
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<AppState>) {
    while let Ok((stream, client)) = listener.accept().await {
        shared.clients.lock().insert(client.ip().to_canonical());
        tokio::spawn(serve(Wire::new(stream), shared.clone()));
    }
}

async fn serve(mut wire: Wire<TcpStream>, shared: Arc<AppState>) {
    // A TCP probe connects and closes without a byte.
    while HTTP2.starts_with(wire.peek()) {
        if wire.peek().len() == HTTP2.len() {
            return http2_connection::serve(wire, &shared).await;
        }
        if !wire.more().await {
            return;
        }
    }
    if wire.peek().starts_with(HTTP2) {
        return http2_connection::serve(wire, &shared).await;
    }
    if let Err(read_error) = run_actions(&mut wire, &shared).await {
        shared.record(ObservedRequest::read_error(&read_error));
    }
}

async fn run_actions(wire: &mut Wire<TcpStream>, shared: &AppState) -> Result<(), ReadError> {
    let actions = shared.take_actions();
    // The head whose body was not read before an early response.
    let mut unread = None;
    for run_actions in actions {
        match run_actions {
            AppAction::Reads => {
                if !request(wire, shared).await? {
                    return Ok(());
                }
            }
            AppAction::ReadsHead => unread = head_only(wire, shared).await?,
            AppAction::Sends(bytes) => wire.send(&bytes).await,
            AppAction::ReadsBytes(expected) => {
                let got = wire.take(expected.len()).await;
                unread = None;
                if got != expected {
                    return Err(ReadError::Malformed(format!("the tunnel has {:?}", latin1(&got))));
                }
            }
            AppAction::ExpectsEnd => {
                return match wire.take(1).await.is_empty() {
                    true => Ok(()),
                    false => Err(ReadError::Malformed("bytes instead of the end".to_owned())),
                };
            }
            AppAction::ExpectsReset => {
                return match wire.take(1).await.is_empty() && wire.was_reset() {
                    true => Ok(()),
                    false => Err(ReadError::Malformed("no reset of the connection".to_owned())),
                };
            }
            AppAction::ClosesWrite => wire.close_write().await,
            AppAction::Pauses => tokio::time::sleep(PAUSE).await,
            AppAction::Stalls => std::future::pending().await,
            AppAction::Closes => return Ok(()),
            AppAction::Resets => {
                let reset = wire.set_reset();
                return reset.map_err(|error| ReadError::Malformed(format!("cannot reset: {error}")));
            }
        }
    }
    if let Some(head) = unread {
        wire.body(head.framing_of_request()?).await?;
    }
    while request(wire, shared).await? {
        wire.send(OK).await;
    }
    Ok(())
}

/// Reads and records a request; false at the end of the connection.
async fn request(wire: &mut Wire<TcpStream>, shared: &AppState) -> Result<bool, ReadError> {
    let Some(head) = next_head(wire).await? else { return Ok(false) };
    let body = wire.body(head.framing_of_request()?).await?;
    shared.record(ObservedRequest::of(&head, Some(&body)));
    Ok(!body.cut)
}

async fn head_only(wire: &mut Wire<TcpStream>, shared: &AppState) -> Result<Option<Head>, ReadError> {
    let head = next_head(wire).await?;
    if let Some(head) = &head {
        shared.record(ObservedRequest::of(head, None));
    }
    Ok(head)
}

/// The next head, after any probes.
async fn next_head(wire: &mut Wire<TcpStream>) -> Result<Option<Head>, ReadError> {
    loop {
        match wire.head().await? {
            Some(head) if !head.all(PROBE).is_empty() => wire.send(PROBE_RESPONSE).await,
            head => return Ok(head),
        }
    }
}
