//! Callers that behave badly, each in a way of its own, over and over.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Result, bail};

/// Longest wait for anything.
const DEADLINE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

const GET: &[u8] = b"GET /hello HTTP/1.1\r\nHost: soak\r\n\r\n";
const HALF_A_HEAD: &[u8] = b"GET /hello HTTP/1.1\r\nHost: so";
const UPLOAD: &[u8] = b"POST /upload HTTP/1.1\r\nHost: soak\r\nContent-Length: 10000000\r\n\r\n";
const CHUNKED: &[u8] = b"POST /upload HTTP/1.1\r\nHost: soak\r\nTransfer-Encoding: chunked\r\n\r\n";
const TUNNEL: &[u8] = b"GET /tunnel HTTP/1.1\r\nHost: soak\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
const LARGE: &[u8] = b"GET /large HTTP/1.1\r\nHost: soak\r\n\r\n";
/// The preface, empty SETTINGS, and HEADERS of a GET on stream 1. The app does not speak this.
const HTTP2: &[u8] =
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\0\0\x07\x01\x05\0\0\0\x01\x82\x86\x84\x41\x02so";

type Manner = fn(SocketAddr) -> io::Result<Outcome>;

const MANNERS: [(&str, Manner); 8] = [
    ("reset", resets),
    ("slow head", drips_a_head),
    ("half a head", opens_by_half),
    ("upload cut", cuts_an_upload),
    ("chunks cut", cuts_chunks),
    ("slow reader", reads_slowly),
    ("tunnel", talks_through_a_tunnel),
    ("HTTP/2 cut", cuts_http2),
];

/// Whether the proxy did what it must.
enum Outcome {
    Fine,
    Wrong(&'static str),
}

/// Callers that run.
pub(super) struct Misbehaviour {
    callers: Vec<JoinHandle<Result<()>>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    over: AtomicBool,
    turns: [AtomicU64; MANNERS.len()],
    /// The connection ended before the caller had done what it wanted, which a proxy may do.
    ended_early: AtomicU64,
}

// === impl Misbehaviour ===

impl Misbehaviour {
    /// # Errors
    /// When there are no more threads.
    pub(super) fn start(proxy: SocketAddr, callers: usize) -> Result<Self> {
        let shared = Arc::new(Shared::default());
        let callers = (0..callers).map(|number| {
            let shared = shared.clone();
            let caller = move || shared.misbehave(proxy, number);
            thread::Builder::new().name("caller".to_owned()).stack_size(256 * 1024).spawn(caller)
        });
        Ok(Self { callers: callers.collect::<Result<_, _>>()?, shared })
    }

    pub(super) fn turns(&self) -> u64 {
        self.shared.turns.iter().map(|turns| turns.load(Ordering::Relaxed)).sum()
    }

    /// Waits for all of them, and says what they did.
    ///
    /// # Errors
    /// When the proxy did not do what it must.
    pub(super) fn stop(self) -> Result<String> {
        self.shared.over.store(true, Ordering::Relaxed);
        for caller in self.callers {
            let Ok(outcome) = caller.join() else { bail!("a caller panicked") };
            outcome?;
        }
        let turns: Vec<_> = MANNERS
            .iter()
            .zip(&self.shared.turns)
            .map(|((name, _), turns)| format!("{name} {}", turns.load(Ordering::Relaxed)))
            .collect();
        let early = self.shared.ended_early.load(Ordering::Relaxed);
        Ok(format!("{}; {early} ended by the proxy before", turns.join(", ")))
    }
}

// === impl Shared ===

impl Shared {
    fn misbehave(&self, proxy: SocketAddr, number: usize) -> Result<()> {
        let mut manners = MANNERS.iter().zip(&self.turns).cycle().skip(number % MANNERS.len());
        while !self.over.load(Ordering::Relaxed) {
            let Some(((name, manner), turns)) = manners.next() else { break };
            match manner(proxy) {
                Ok(Outcome::Fine) => {}
                Ok(Outcome::Wrong(what)) => bail!("{name}: {what}"),
                Err(error) if is_end(&error) => drop(self.ended_early.fetch_add(1, Ordering::Relaxed)),
                Err(error) => bail!("{name}: {error}"),
            }
            turns.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

fn is_end(error: &io::Error) -> bool {
    use ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

// === manners ===

fn resets(proxy: SocketAddr) -> io::Result<Outcome> {
    for reads in [false, true] {
        let mut stream = connect(proxy)?;
        stream.write_all(GET)?;
        if reads {
            stream.read_exact(&mut [0; 10])?;
        }
        reset(stream)?;
        thread::sleep(PAUSE);
    }
    Ok(Outcome::Fine)
}

fn drips_a_head(proxy: SocketAddr) -> io::Result<Outcome> {
    let mut stream = connect(proxy)?;
    for byte in GET.chunks(1) {
        stream.write_all(byte)?;
        thread::sleep(PAUSE);
    }
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    Ok(if &head == b"HTTP/1.1 200" { Outcome::Fine } else { Outcome::Wrong("a whole head was not answered") })
}

/// The proxy must end it.
fn opens_by_half(proxy: SocketAddr) -> io::Result<Outcome> {
    let mut stream = connect(proxy)?;
    stream.write_all(HALF_A_HEAD)?;
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => Ok(Outcome::Fine),
        Err(error) if is_end(&error) => Ok(Outcome::Fine),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Ok(Outcome::Wrong("the connection was left open"))
        }
        Err(error) => Err(error),
    }
}

fn cuts_an_upload(proxy: SocketAddr) -> io::Result<Outcome> {
    let mut stream = connect(proxy)?;
    stream.write_all(UPLOAD)?;
    for _ in 0..20 {
        stream.write_all(&[b'x'; 8192])?;
        thread::sleep(PAUSE / 10);
    }
    Ok(Outcome::Fine)
}

fn cuts_chunks(proxy: SocketAddr) -> io::Result<Outcome> {
    let mut stream = connect(proxy)?;
    stream.write_all(CHUNKED)?;
    for _ in 0..20 {
        stream.write_all(b"5\r\nhello\r\n")?;
        thread::sleep(PAUSE);
    }
    stream.write_all(b"5\r\nhe")?;
    reset(stream)?;
    Ok(Outcome::Fine)
}

fn reads_slowly(proxy: SocketAddr) -> io::Result<Outcome> {
    let mut stream = connect(proxy)?;
    stream.write_all(LARGE)?;
    let mut some = [0; 4096];
    for _ in 0..50 {
        stream.read_exact(&mut some)?;
        thread::sleep(PAUSE);
    }
    Ok(Outcome::Fine)
}

fn talks_through_a_tunnel(proxy: SocketAddr) -> io::Result<Outcome> {
    let mut stream = ask_for_tunnel(proxy)?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    for _ in 0..50 {
        stream.write_all(b"are you there")?;
        let mut echo = [0; 13];
        stream.read_exact(&mut echo)?;
        if &echo != b"are you there" {
            return Ok(Outcome::Wrong("a tunnel changed what was said"));
        }
        thread::sleep(PAUSE);
    }
    Ok(Outcome::Fine)
}

fn cuts_http2(proxy: SocketAddr) -> io::Result<Outcome> {
    let mut stream = connect(proxy)?;
    stream.write_all(HTTP2)?;
    stream.read_exact(&mut [0; 9])?;
    thread::sleep(PAUSE);
    Ok(Outcome::Fine)
}

/// A connection on which a tunnel is asked for.
pub(super) fn ask_for_tunnel(proxy: SocketAddr) -> io::Result<TcpStream> {
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

/// A close with a linger of zero is a reset.
fn reset(stream: TcpStream) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?)
}
