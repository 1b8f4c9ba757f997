//! The app behind the proxy: reads strictly, remembers what it saw, and does what a row says.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::case::Act;
use crate::http2;
use crate::wire::{Body, Broken, Head, Wire, latin1};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
/// Longer than any timeout that rows set, by far less than any deadline.
pub(crate) const REST: Duration = Duration::from_millis(500);
/// What a prober of a queue-proxy expects of it; the app stands in for one behind an activator.
const PROBED: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\nqueue-proxy";
const PROBE: &str = "rouse-probe";
/// The preface of HTTP/2, as far as it differs from any HTTP/1 request.
const HTTP2: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// What proxies add to every request, which rows leave out unless they are about it.
const ADDED: [&str; 3] = ["x-forwarded-for", "x-forwarded-proto", "rouse-proxied"];

/// A running app.
#[derive(Debug)]
pub struct TestApp {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

/// A request that the app saw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// As rows write it.
    pub text: String,
    /// All headers, also those that are left out of the text.
    pub fields: Vec<(String, String)>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    acts: Mutex<Vec<Act>>,
    http2: Mutex<Vec<http2::Act>>,
    seen: watch::Sender<Vec<Sight>>,
}

// === impl TestApp ===

impl TestApp {
    /// An app that does this on its first connection with a request, and answers all others.
    ///
    /// # Errors
    /// When there is no socket.
    pub async fn start(acts: Vec<Act>, http2: Vec<http2::Act>) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("the app's socket")?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            acts: Mutex::new(acts),
            http2: Mutex::new(http2),
            seen: watch::Sender::new(Vec::new()),
        });
        let accepting = tokio::spawn(accept(listener, shared.clone())).abort_handle();
        Ok(Self { address, shared, accepting })
    }

    /// What it has seen so far.
    pub fn seen(&self) -> Vec<Sight> {
        self.shared.seen.borrow().clone()
    }

    /// Waits until it has seen so many requests.
    pub async fn has_seen(&self, count: usize) {
        // The sender lives in self.
        let _ = self.shared.seen.subscribe().wait_for(|seen| seen.len() >= count).await;
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

// === impl Shared ===

impl Shared {
    pub(crate) fn saw(&self, sight: Sight) {
        self.seen.send_modify(|seen| seen.push(sight));
    }

    pub(crate) fn http2_acts(&self) -> Vec<http2::Act> {
        std::mem::take(&mut *lock(&self.http2))
    }
}

// === impl Sight ===

impl Sight {
    fn of(head: &Head, body: Option<&Body>) -> Self {
        let unread = Body { bytes: b"[unread]".to_vec(), ..Body::default() };
        Self::new(&head.start, &head.fields, body.unwrap_or(&unread))
    }

    pub(crate) fn new(start: &str, fields: &[(String, String)], body: &Body) -> Self {
        let mut lines = lines(fields.iter().filter(|(name, _)| !ADDED.contains(&name.as_str())));
        lines.insert(0, start.to_owned());
        let mut text = lines.join("\n");
        let cut = if body.cut { "[cut]" } else { "" };
        if !body.bytes.is_empty() || body.cut {
            text = format!("{text}\n\n{}{cut}", short(&body.bytes));
        }
        if !body.trailers.is_empty() {
            text = format!("{text}\n\n{}", self::lines(body.trailers.iter()).join("\n"));
        }
        Self { text, fields: fields.to_vec() }
    }

    fn broken(why: &Broken) -> Self {
        Self { text: format!("[{why}]"), fields: Vec::new() }
    }
}

fn lines<'a>(fields: impl Iterator<Item = &'a (String, String)>) -> Vec<String> {
    let mut fields: Vec<_> = fields.collect();
    // Stable: the order of values of one name has a meaning, that of names has none.
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    fields.into_iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

/// Long bodies of one letter are written by their length.
fn short(bytes: &[u8]) -> String {
    match bytes {
        [first, rest @ ..] if rest.len() >= 64 && rest.iter().all(|byte| byte == first) => {
            format!("[{} x {}]", bytes.len(), char::from(*first))
        }
        _ => latin1(bytes),
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(Wire::new(stream), shared.clone()));
    }
}

async fn serve(mut wire: Wire<TcpStream>, shared: Arc<Shared>) {
    // A prober may connect, see that somebody listens, and leave.
    while HTTP2.starts_with(wire.peek()) {
        if wire.peek().len() == HTTP2.len() {
            return http2::app(wire, &shared).await;
        }
        if !wire.more().await {
            return;
        }
    }
    if wire.peek().starts_with(HTTP2) {
        return http2::app(wire, &shared).await;
    }
    if let Err(broken) = act(&mut wire, &shared).await {
        shared.saw(Sight::broken(&broken));
    }
}

async fn act(wire: &mut Wire<TcpStream>, shared: &Shared) -> Result<(), Broken> {
    let acts = std::mem::take(&mut *lock(&shared.acts));
    // The body that an early answer left for later.
    let mut unread = None;
    for act in acts {
        match act {
            Act::Reads => {
                if !request(wire, shared).await? {
                    return Ok(());
                }
            }
            Act::ReadsHead => unread = head_only(wire, shared).await?,
            Act::Sends(bytes) => wire.send(&bytes).await,
            Act::ReadsBytes(expected) => {
                let got = wire.take(expected.len()).await;
                unread = None;
                if got != expected {
                    return Err(Broken::Malformed(format!("tunnel brought {:?}", latin1(&got))));
                }
            }
            Act::EndsHere => {
                return match wire.take(1).await.is_empty() {
                    true => Ok(()),
                    false => Err(Broken::Malformed("more came instead of the end".to_owned())),
                };
            }
            Act::Finishes => wire.finish().await,
            Act::Rests => tokio::time::sleep(REST).await,
            Act::Closes => return Ok(()),
            Act::Resets => return reset(wire),
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

/// Reads and remembers a request; false at the end of the connection.
async fn request(wire: &mut Wire<TcpStream>, shared: &Shared) -> Result<bool, Broken> {
    let Some(head) = next_head(wire).await? else { return Ok(false) };
    let body = wire.body(head.framing_of_request()?).await?;
    shared.saw(Sight::of(&head, Some(&body)));
    Ok(!body.cut)
}

async fn head_only(wire: &mut Wire<TcpStream>, shared: &Shared) -> Result<Option<Head>, Broken> {
    let head = next_head(wire).await?;
    if let Some(head) = &head {
        shared.saw(Sight::of(head, None));
    }
    Ok(head)
}

/// The next head that is no probe's.
async fn next_head(wire: &mut Wire<TcpStream>) -> Result<Option<Head>, Broken> {
    loop {
        match wire.head().await? {
            Some(head) if !head.all(PROBE).is_empty() => wire.send(PROBED).await,
            head => return Ok(head),
        }
    }
}

/// A close with a linger of zero is a reset.
#[allow(deprecated, reason = "with zero it does not block, which is why it was deprecated")]
fn reset(wire: &mut Wire<TcpStream>) -> Result<(), Broken> {
    wire.stream()
        .set_linger(Some(Duration::ZERO))
        .map_err(|error| Broken::Malformed(format!("no reset: {error}")))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
