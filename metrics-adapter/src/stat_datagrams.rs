//! StatDatagrams: asks pods for their stats over one socket, however many pods there are.
//!
//! Used by the [`ScrapeClient`](crate::scrape_client::ScrapeClient) before anything else: a question and its answer cost two system
//! calls, no connection, and nothing that has to be kept. A question that stays without an answer is sent once more, because datagrams
//! get lost; then it is the client's to ask in another way. Neither is done when it is this process that is behind: what is too much would become more.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::stats::Stat;
use autoscaler::stats::datagram::{Answer, LENGTH, Question};
use parking_lot::{Mutex, MutexGuard};
use slab::Slab;
use socket2::SockRef;
use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// How long each try waits. Pods are a millisecond away; one whose node is busy is not asked twice for nothing.
const TRIES: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(150)];
/// Questions that may wait for their answers. A round has at most 128.
const MAX_WAITING: usize = 1 << 16;
/// Bits of a nonce that say where its question waits; the others are random.
const PLACE_BITS: u32 = 16;
/// Room for answers that come while this process does something else, in bytes. The kernel gives what it allows.
const RECEIVE_BUFFER: usize = 4 << 20;
/// A wait that ends so much later than it should says that this process is behind, and nothing of the pod.
const LATE: Duration = Duration::from_millis(20);
/// Answers taken in before anything else has a turn: while they wait, no question is worth asking.
const AT_ONCE: usize = 1024;
/// Wait after a socket failed.
const RETRY: Duration = Duration::from_millis(50);

/// What a pod answered: its stat, or that its first period is not over.
type Told = Option<Stat>;

/// Why nothing was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unheard {
    /// The pod says nothing, or cannot be asked this way.
    Silent,
    /// This process has more to do than it can. To ask again, or in a way that takes more of its time, would make that worse.
    Behind,
}

/// The sockets, and who waits for what.
#[derive(Debug)]
pub struct StatDatagrams {
    /// Of each family of addresses; none where there is none.
    ipv4: Option<UdpSocket>,
    ipv6: Option<UdpSocket>,
    port: u16,
    waiting: Mutex<Slab<Waiting>>,
}

/// A question without an answer.
#[derive(Debug)]
struct Waiting {
    nonce: u64,
    /// None once it is answered.
    told: Option<oneshot::Sender<Told>>,
}

/// A place among those that wait; given back when dropped.
struct Place<'a> {
    datagrams: &'a StatDatagrams,
    index: usize,
}

// === impl StatDatagrams ===

impl StatDatagrams {
    /// Asks on this port of pods. Needs a runtime.
    pub fn bind(port: u16) -> Arc<Self> {
        let [ipv4, ipv6] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()].map(socket);
        Arc::new(Self { ipv4, ipv6, port, waiting: Mutex::default() })
    }

    /// What the pod at an address says.
    ///
    /// # Errors
    /// When nothing is heard of it in time.
    pub async fn ask(&self, ip: IpAddr) -> Result<Told, Unheard> {
        let socket = if ip.is_ipv4() { &self.ipv4 } else { &self.ipv6 }.as_ref().ok_or(Unheard::Silent)?;
        let (told, mut answer) = oneshot::channel();
        let (nonce, _place) = self.wait(told).ok_or(Unheard::Behind)?;
        let question = Question { nonce }.encode();
        for patience in TRIES {
            let asked = Instant::now();
            let sent = socket.send_to(&question, SocketAddr::new(ip, self.port)).await;
            sent.map_err(|_| Unheard::Silent)?;
            match tokio::time::timeout(patience, &mut answer).await {
                Ok(told) => return told.map_err(|_| Unheard::Behind),
                Err(_) if asked.elapsed() > patience + LATE => return Err(Unheard::Behind),
                Err(_) => {}
            }
        }
        Err(Unheard::Silent)
    }

    /// Takes in answers. Never returns.
    pub async fn receive(self: Arc<Self>) {
        tokio::join!(self.receive_on(self.ipv4.as_ref()), self.receive_on(self.ipv6.as_ref()));
    }

    async fn receive_on(&self, socket: Option<&UdpSocket>) {
        let Some(socket) = socket else { return std::future::pending().await };
        // One more byte than an answer has, so that a longer one is seen to be none.
        let mut buffer = [0; LENGTH + 1];
        loop {
            if let Err(error) = self.receive_some(socket, &mut buffer).await {
                tracing::debug!(%error, "no datagram");
                tokio::time::sleep(RETRY).await;
            }
        }
    }

    /// Waits for an answer, and takes in those that are there already.
    async fn receive_some(&self, socket: &UdpSocket, buffer: &mut [u8; LENGTH + 1]) -> io::Result<()> {
        socket.readable().await?;
        for _ in 0..AT_ONCE {
            match socket.try_recv(buffer) {
                Ok(length) => {
                    if let Some(answer) = buffer.get(..length).and_then(Answer::decode) {
                        self.take_in(answer);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        tokio::task::yield_now().await;
        Ok(())
    }

    /// A late answer, one to a question that nobody asked and a second one find nobody who waits.
    fn take_in(&self, Answer { nonce, stat }: Answer) {
        let index = usize::try_from(nonce & ((1 << PLACE_BITS) - 1)).unwrap_or(usize::MAX);
        // The place is given back by who waits.
        let told = self.lock().get_mut(index).filter(|it| it.nonce == nonce).and_then(|it| it.told.take());
        if let Some(told) = told {
            let _ = told.send(stat);
        }
    }

    fn wait(&self, told: oneshot::Sender<Told>) -> Option<(u64, Place<'_>)> {
        let mut waiting = self.lock();
        if waiting.len() >= MAX_WAITING {
            return None;
        }
        let entry = waiting.vacant_entry();
        let index = entry.key();
        let nonce = (rand::random::<u64>() << PLACE_BITS) | u64::try_from(index).ok()?;
        entry.insert(Waiting { nonce, told: Some(told) });
        Some((nonce, Place { datagrams: self, index }))
    }

    fn lock(&self) -> MutexGuard<'_, Slab<Waiting>> {
        self.waiting.lock()
    }
}

// === impl Place ===

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.datagrams.lock().try_remove(self.index);
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
        .inspect_err(|error| tracing::warn!(%ip, %error, "pods of this family are asked by HTTP alone"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pods that answer every question `times`, after so many were lost.
    async fn pods(lost: usize, times: usize) -> Arc<StatDatagrams> {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let datagrams = StatDatagrams::bind(socket.local_addr().unwrap().port());
        tokio::spawn(async move {
            let mut buffer = [0; 100];
            let mut asked = 0;
            loop {
                let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
                asked += 1;
                let Question { nonce } = Question::decode(&buffer[..length]).unwrap();
                let stat = Stat { timestamp: 42, ..Stat::default() };
                for _ in 0..if asked > lost { times } else { 0 } {
                    // What nobody asked does no harm.
                    socket.send_to(b"hello", from).await.unwrap();
                    socket.send_to(&Answer::encode(nonce ^ (1 << 60), Some(&stat)), from).await.unwrap();
                    socket.send_to(&Answer::encode(nonce, Some(&stat)), from).await.unwrap();
                }
            }
        });
        tokio::spawn(datagrams.clone().receive());
        datagrams
    }

    #[tokio::test]
    async fn pods_are_heard_whatever_is_lost_or_comes_twice() {
        for (lost, times) in [(0, 1), (1, 1), (0, 3)] {
            let datagrams = pods(lost, times).await;
            for ip in ["127.0.0.1", "127.0.0.2"] {
                let told = datagrams.ask(ip.parse().unwrap()).await;
                // What was asked for at 127.0.0.1 alone is heard there alone.
                let heard = told.map(|told| told.unwrap().timestamp);
                // On a busy machine, this process may be the one that is late.
                let expected = if ip == "127.0.0.1" { Ok(42) } else { Err(Unheard::Silent) };
                assert!(
                    heard == expected || heard == Err(Unheard::Behind),
                    "{heard:?}: {ip}, {lost} lost, {times} times"
                );
            }
            assert!(datagrams.lock().is_empty());
        }
    }

    #[tokio::test]
    async fn who_gives_up_gives_the_place_back() {
        let datagrams = pods(usize::MAX, 0).await;
        let asked =
            tokio::time::timeout(Duration::from_millis(1), datagrams.ask("127.0.0.1".parse().unwrap()));
        assert!(asked.await.is_err());
        assert!(datagrams.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn silence_says_nothing_of_a_pod_while_this_process_is_behind() {
        let datagrams = pods(usize::MAX, 0).await;
        let mut asked = Box::pin(datagrams.ask("127.0.0.1".parse().unwrap()));
        assert!(futures::poll!(&mut asked).is_pending());
        tokio::time::advance(TRIES[0] + 2 * LATE).await;
        assert_eq!(asked.await, Err(Unheard::Behind));
    }
}
