//! StatDatagrams: queries pods for their stats over one UDP socket, however many pods there are.
//!
//! The scrape client tries this first: a query and its answer cost two system calls, no connection
//! and no state to keep. An unanswered query is sent once more, because datagrams get lost; then
//! the client falls back to HTTP. It does neither while this process is overloaded, because a retry
//! would add to the load.
//!
//! The second attempt also sends a query of version 1. Sidecars from before version 2 answer that
//! one alone. Until their pods are replaced, which may take weeks, HTTP to all of them would cost
//! several times as much.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::stats::Stat;
use autoscaler::stats::datagram::{MAX_LENGTH, StatQuery, StatResponse};
use parking_lot::Mutex;
use slab::Slab;
use socket2::SockRef;
use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Timeout of each attempt, and the number of versions that it sends. Pods are a millisecond away;
/// the second attempt is longer, for pods on a busy node.
const ATTEMPTS: [(Duration, usize); 2] = [(Duration::from_millis(50), 1), (Duration::from_millis(150), 2)];
/// Queries that may be pending. A round has at most 128.
const MAX_PENDING: usize = 1 << 16;
/// Low bits of a nonce that index the pending query; the others are random.
const INDEX_BITS: u32 = 16;
/// Receive buffer of the socket, in bytes, for answers that arrive while this process is busy. The
/// kernel may grant less.
const RECEIVE_BUFFER: usize = 4 << 20;
/// A timeout that fires this much late means that this process is overloaded; the pod may be fine.
const LATE: Duration = Duration::from_millis(20);
/// Answers received before yielding to other tasks. Answers come first, because they free pending
/// queries.
const RECEIVE_BATCH: usize = 1024;
/// Delay after a failed receive.
const RETRY: Duration = Duration::from_millis(50);

/// A pod's answer: its stat, or `None` before the end of its first period.
type DatagramResponse = Option<Stat>;

/// Why a query has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramError {
    /// The pod did not answer, or cannot be reached by datagram.
    NoAnswer,
    /// This process is overloaded. A retry, or the more expensive HTTP, would make that worse.
    Overloaded,
}

/// The sockets and the pending queries.
#[derive(Debug)]
pub struct StatDatagrams {
    /// One socket per address family; `None` where the node lacks the family.
    ipv4: Option<UdpSocket>,
    ipv6: Option<UdpSocket>,
    pending: Mutex<Slab<PendingQuery>>,
}

/// A query without an answer.
#[derive(Debug)]
struct PendingQuery {
    nonce: u64,
    /// `None` once the query is answered.
    reply: Option<oneshot::Sender<DatagramResponse>>,
}

/// An entry among the pending queries, removed when dropped.
struct PendingSlot<'a> {
    datagrams: &'a StatDatagrams,
    index: usize,
}

// === impl StatDatagrams ===

impl StatDatagrams {
    /// Binds the sockets. Must be called within a runtime.
    pub fn bind() -> Arc<Self> {
        let [ipv4, ipv6] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()].map(socket);
        Arc::new(Self { ipv4, ipv6, pending: Mutex::default() })
    }

    /// Queries the pod with this statistics port, and sets its latency objective, 0 for none.
    ///
    /// # Errors
    /// When it does not answer in time.
    pub async fn query(
        &self,
        pod: SocketAddr,
        objective_micros: u64,
    ) -> Result<DatagramResponse, DatagramError> {
        let socket =
            if pod.is_ipv4() { &self.ipv4 } else { &self.ipv6 }.as_ref().ok_or(DatagramError::NoAnswer)?;
        let (reply, mut answer) = oneshot::channel();
        let (nonce, _slot) = self.add_pending(reply).ok_or(DatagramError::Overloaded)?;
        let newest_first = [Some(objective_micros), None];
        for (timeout, versions) in ATTEMPTS {
            let start = Instant::now();
            for objective_micros in newest_first.into_iter().take(versions) {
                let query = StatQuery { nonce, objective_micros }.encode();
                let sent = socket.send_to(&query, pod).await;
                sent.map_err(|_| DatagramError::NoAnswer)?;
            }
            match tokio::time::timeout(timeout, &mut answer).await {
                Ok(answer) => return answer.map_err(|_| DatagramError::Overloaded),
                Err(_) if start.elapsed() > timeout + LATE => return Err(DatagramError::Overloaded),
                Err(_) => {}
            }
        }
        Err(DatagramError::NoAnswer)
    }

    /// Receives answers. Never returns.
    pub async fn receive(self: Arc<Self>) {
        tokio::join!(self.receive_on(self.ipv4.as_ref()), self.receive_on(self.ipv6.as_ref()));
    }

    async fn receive_on(&self, socket: Option<&UdpSocket>) {
        let Some(socket) = socket else { return std::future::pending().await };
        // One byte more than an answer has, so that a longer datagram fails to decode.
        let mut buffer = [0; MAX_LENGTH + 1];
        loop {
            if let Err(error) = self.receive_batch(socket, &mut buffer).await {
                tracing::debug!(%error, "receiving datagrams failed, retrying");
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// Waits for an answer, then receives all that are queued, up to the batch limit.
    async fn receive_batch(&self, socket: &UdpSocket, buffer: &mut [u8; MAX_LENGTH + 1]) -> io::Result<()> {
        socket.readable().await?;
        for _ in 0..RECEIVE_BATCH {
            match socket.try_recv(buffer) {
                Ok(length) => {
                    if let Some(answer) = buffer.get(..length).and_then(StatResponse::decode) {
                        self.complete(answer);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        tokio::task::yield_now().await;
        Ok(())
    }

    /// Completes the pending query. Late, duplicate and forged answers match none and are dropped.
    fn complete(&self, StatResponse { nonce, stat }: StatResponse) {
        let index = usize::try_from(nonce & ((1 << INDEX_BITS) - 1)).unwrap_or(usize::MAX);
        // The waiting task removes the entry.
        let reply =
            self.pending.lock().get_mut(index).filter(|it| it.nonce == nonce).and_then(|it| it.reply.take());
        if let Some(reply) = reply {
            let _ = reply.send(stat);
        }
    }

    fn add_pending(&self, reply: oneshot::Sender<DatagramResponse>) -> Option<(u64, PendingSlot<'_>)> {
        let mut pending = self.pending.lock();
        if pending.len() >= MAX_PENDING {
            return None;
        }
        let entry = pending.vacant_entry();
        let index = entry.key();
        let nonce = (rand::random::<u64>() << INDEX_BITS) | u64::try_from(index).ok()?;
        entry.insert(PendingQuery { nonce, reply: Some(reply) });
        Some((nonce, PendingSlot { datagrams: self, index }))
    }
}

// === impl PendingSlot ===

impl Drop for PendingSlot<'_> {
    fn drop(&mut self) {
        self.datagrams.pending.lock().try_remove(self.index);
    }
}

fn socket(ip: IpAddr) -> Option<UdpSocket> {
    let open = || {
        let socket = std::net::UdpSocket::bind((ip, 0))?;
        socket.set_nonblocking(true)?;
        SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER)?;
        UdpSocket::from_std(socket)
    };
    let opened: io::Result<_> = open();
    opened
        .inspect_err(|error| tracing::warn!(%ip, %error, "UDP socket not opened, scraping this address family by HTTP only"))
        .ok()
}

#[cfg(test)]
mod tests {
    use autoscaler::stats::AppStat;

    use super::*;

    /// Pods that ignore the first `lost` queries and then answer each one `times` times. Sidecars
    /// of version 1 drop queries of version 2.
    async fn pods(lost: usize, times: usize, old: bool) -> (Arc<StatDatagrams>, SocketAddr) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let (datagrams, address) = (StatDatagrams::bind(), socket.local_addr().unwrap());
        tokio::spawn(async move {
            let mut buffer = [0; 100];
            let mut received = 0;
            loop {
                let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
                received += 1;
                let query = StatQuery::decode(&buffer[..length]).unwrap();
                let forged = StatQuery { nonce: query.nonce ^ (1 << 60), ..query };
                let app = AppStat { objective_micros: 7, ..AppStat::default() };
                let stat = Stat { timestamp: 42, app: Some(app), ..Stat::default() };
                let answers = received > lost && !(old && query.objective_micros.is_some());
                for _ in 0..if answers { times } else { 0 } {
                    // Datagrams that match no query are dropped.
                    socket.send_to(b"hello", from).await.unwrap();
                    for query in [forged, query] {
                        let answer = StatResponse::encode(query, Some(&stat));
                        socket.send_to(&answer, from).await.unwrap();
                    }
                }
            }
        });
        tokio::spawn(datagrams.clone().receive());
        (datagrams, address)
    }

    #[tokio::test]
    async fn query_survives_lost_and_duplicate_datagrams() {
        for (lost, times) in [(0, 1), (1, 1), (0, 3)] {
            let (datagrams, address) = pods(lost, times, false).await;
            for ip in ["127.0.0.1", "127.0.0.2"] {
                let pod = SocketAddr::new(ip.parse().unwrap(), address.port());
                let answer = datagrams.query(pod, 7).await;
                let objective = answer.map(|stat| stat.unwrap().app.unwrap().objective_micros);
                // Only 127.0.0.1 answers. On a busy machine, this process may be the one that is
                // late.
                let expected = if ip == "127.0.0.1" { Ok(7) } else { Err(DatagramError::NoAnswer) };
                assert!(
                    objective == expected || objective == Err(DatagramError::Overloaded),
                    "{objective:?}: {ip}, {lost} lost, {times} times"
                );
            }
            assert!(datagrams.pending.lock().is_empty());
        }
    }

    #[tokio::test]
    async fn sidecar_of_the_first_version_answers_the_second_attempt() {
        let (datagrams, address) = pods(0, 1, true).await;
        let answer = datagrams.query(address, 7).await;
        let answer = answer.map(|stat| stat.map(|stat| (stat.timestamp, stat.app)));
        let late = Err(DatagramError::Overloaded);
        assert!(answer == Ok(Some((42, None))) || answer == late, "{answer:?}");
    }

    #[tokio::test]
    async fn cancelled_query_frees_its_entry() {
        let (datagrams, address) = pods(usize::MAX, 0, false).await;
        let mut query = Box::pin(datagrams.query(address, 0));
        assert!(futures::poll!(&mut query).is_pending());
        assert_eq!(datagrams.pending.lock().len(), 1);
        drop(query);
        assert!(datagrams.pending.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn late_timeout_reports_overload_instead_of_no_answer() {
        let (datagrams, address) = pods(usize::MAX, 0, false).await;
        let mut query = Box::pin(datagrams.query(address, 0));
        assert!(futures::poll!(&mut query).is_pending());
        tokio::time::advance(ATTEMPTS[0].0 + 2 * LATE).await;
        assert_eq!(query.await, Err(DatagramError::Overloaded));
    }
}
