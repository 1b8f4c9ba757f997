//! AbusiveClients: threads that misbehave toward a proxy in one scenario after the other, until
//! they are stopped.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, bail};

/// Timeout of a connect, a read or a write.
const DEADLINE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

const GET: &[u8] = b"GET /hello HTTP/1.1\r\nHost: soak\r\n\r\n";
const HALF_A_HEAD: &[u8] = b"GET /hello HTTP/1.1\r\nHost: so";
const UPLOAD: &[u8] = b"POST /upload HTTP/1.1\r\nHost: soak\r\nContent-Length: 10000000\r\n\r\n";
const CHUNKED: &[u8] = b"POST /upload HTTP/1.1\r\nHost: soak\r\nTransfer-Encoding: chunked\r\n\r\n";
const TUNNEL: &[u8] = b"GET /tunnel HTTP/1.1\r\nHost: soak\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
const LARGE: &[u8] = b"GET /large HTTP/1.1\r\nHost: soak\r\n\r\n";
/// The preface, empty SETTINGS, and HEADERS of a GET on stream 1. The app does not support HTTP/2.
const HTTP2: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x07\x01\x05\0\0\0\x01\x82\x86\x84\x41\x02so";

type Scenario = fn(SocketAddr) -> io::Result<ProxyReaction>;

const SCENARIOS: [(&str, Scenario); 8] = [
    ("reset", reset_connections),
    ("slow head", send_head_slowly),
    ("half a head", send_half_a_head),
    ("upload cut", cut_upload),
    ("chunks cut", cut_chunked_upload),
    ("slow reader", read_slowly),
    ("tunnel", echo_through_tunnel),
    ("HTTP/2 cut", cut_http2),
];

/// Whether the proxy handled a scenario correctly.
enum ProxyReaction {
    Correct,
    Wrong(&'static str),
}

/// Running client threads.
pub(super) struct AbusiveClients {
    clients: Vec<JoinHandle<Result<()>>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    /// Completed runs of each scenario.
    completed: [AtomicU64; SCENARIOS.len()],
    /// Scenarios whose connection the proxy closed early, which it may do.
    closed_early: AtomicU64,
}

// === impl AbusiveClients ===

impl AbusiveClients {
    /// Starts the clients.
    ///
    /// # Errors
    /// When a thread cannot be created.
    pub(super) fn start(proxy: SocketAddr, clients: usize) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let clients = (0..clients).map(|number| {
            let shared = shared.clone();
            let client = move || shared.run_scenarios(proxy, number);
            thread::Builder::new().name("client".to_owned()).stack_size(256 * 1024).spawn(client)
        });
        Ok(Self { clients: clients.collect::<Result<_, _>>()?, shared })
    }

    /// Completed scenarios so far.
    pub(super) fn completed(&self) -> u64 {
        self.shared.completed.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Stops all clients, and returns their scenario counts as text.
    ///
    /// # Errors
    /// When the proxy handled a scenario incorrectly.
    pub(super) fn stop(self) -> Result<String> {
        self.shared.stopped.store(true, Ordering::Relaxed);
        for client in self.clients {
            let Ok(outcome) = client.join() else { bail!("a client thread panicked") };
            outcome?;
        }
        let counts: Vec<_> = SCENARIOS
            .iter()
            .zip(&self.shared.completed)
            .map(|((name, _), count)| format!("{name} {}", count.load(Ordering::Relaxed)))
            .collect();
        let early = self.shared.closed_early.load(Ordering::Relaxed);
        Ok(format!("{}; closed early by the proxy {early}", counts.join(", ")))
    }
}

// === impl Shared ===

impl Shared {
    fn run_scenarios(&self, proxy: SocketAddr, number: usize) -> Result<()> {
        let mut scenarios = SCENARIOS.iter().zip(&self.completed).cycle().skip(number % SCENARIOS.len());
        while !self.stopped.load(Ordering::Relaxed) {
            let Some(((name, scenario), count)) = scenarios.next() else { break };
            match scenario(proxy) {
                Ok(ProxyReaction::Correct) => {}
                Ok(ProxyReaction::Wrong(error)) => bail!("{name}: {error}"),
                Err(error) if is_end(&error) => drop(self.closed_early.fetch_add(1, Ordering::Relaxed)),
                Err(error) => bail!("{name}: {error}"),
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn is_end(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

// === scenarios ===

fn reset_connections(proxy: SocketAddr) -> io::Result<ProxyReaction> {
    for reads in [false, true] {
        let mut stream = connect(proxy)?;
        stream.write_all(GET)?;
        if reads {
            stream.read_exact(&mut [0; 10])?;
        }
        reset(stream)?;
        thread::sleep(PAUSE);
    }
    Ok(ProxyReaction::Correct)
}

fn send_head_slowly(proxy: SocketAddr) -> io::Result<ProxyReaction> {
    let mut stream = connect(proxy)?;
    for byte in GET.chunks(1) {
        stream.write_all(byte)?;
        thread::sleep(PAUSE);
    }
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    let is_ok = &head == b"HTTP/1.1 200";
    Ok(if is_ok {
        ProxyReaction::Correct
    } else {
        ProxyReaction::Wrong("a complete head was not answered with 200")
    })
}

/// The proxy must close the connection after its header timeout.
fn send_half_a_head(proxy: SocketAddr) -> io::Result<ProxyReaction> {
    let mut stream = connect(proxy)?;
    stream.write_all(HALF_A_HEAD)?;
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => Ok(ProxyReaction::Correct),
        Err(error) if is_end(&error) => Ok(ProxyReaction::Correct),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Ok(ProxyReaction::Wrong("the connection was left open"))
        }
        Err(error) => Err(error),
    }
}

fn cut_upload(proxy: SocketAddr) -> io::Result<ProxyReaction> {
    let mut stream = connect(proxy)?;
    stream.write_all(UPLOAD)?;
    for _ in 0..20 {
        stream.write_all(&[b'x'; 8192])?;
        thread::sleep(PAUSE / 10);
    }
    Ok(ProxyReaction::Correct)
}

fn cut_chunked_upload(proxy: SocketAddr) -> io::Result<ProxyReaction> {
    let mut stream = connect(proxy)?;
    stream.write_all(CHUNKED)?;
    for _ in 0..20 {
        stream.write_all(b"5\r\nhello\r\n")?;
        thread::sleep(PAUSE);
    }
    stream.write_all(b"5\r\nhe")?;
    reset(stream)?;
    Ok(ProxyReaction::Correct)
}

fn read_slowly(proxy: SocketAddr) -> io::Result<ProxyReaction> {
    let mut stream = connect(proxy)?;
    stream.write_all(LARGE)?;
    let mut some = [0; 4096];
    for _ in 0..50 {
        stream.read_exact(&mut some)?;
        thread::sleep(PAUSE);
    }
    Ok(ProxyReaction::Correct)
}

fn echo_through_tunnel(proxy: SocketAddr) -> io::Result<ProxyReaction> {
    let mut stream = request_tunnel(proxy)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    for _ in 0..50 {
        stream.write_all(b"echo this")?;
        let mut echo = [0; 9];
        stream.read_exact(&mut echo)?;
        if &echo != b"echo this" {
            return Ok(ProxyReaction::Wrong("the tunnel changed the bytes"));
        }
        thread::sleep(PAUSE);
    }
    Ok(ProxyReaction::Correct)
}

fn cut_http2(proxy: SocketAddr) -> io::Result<ProxyReaction> {
    let mut stream = connect(proxy)?;
    stream.write_all(HTTP2)?;
    stream.read_exact(&mut [0; 9])?;
    thread::sleep(PAUSE);
    Ok(ProxyReaction::Correct)
}

/// Opens a connection and sends a request for a tunnel.
pub(super) fn request_tunnel(proxy: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = connect(proxy)?;
    stream.write_all(TUNNEL)?;
    Ok(stream)
}

fn connect(proxy: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&proxy, DEADLINE)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    Ok(stream)
}

/// Resets the connection: a close with a linger time of zero.
fn reset(stream: TcpStream) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?)
}
