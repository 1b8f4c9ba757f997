//! The app behind every proxy: answers each request at once with the same small response.
//!
//! It runs in this process, on its own threads. It must be faster than any proxy, so it only
//! searches for the ends of request heads; a body that contains such an end would be counted as a
//! request. Two paths serve the soak: an upgrade to an echo, and a response larger than any buffer.
//! It also answers the activator's probe, which is a GET of `/`.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result};

use super::poller::Poller;

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 14\r\n\
    X-App: backend\r\n\
    \r\n\
    Hello, world!\n";

/// A proxy opens a connection for every client at once.
const BACKLOG: i32 = 4096;
const LISTENER: u64 = u64::MAX;
const HEAD_END: &[u8] = b"\r\n\r\n";

const TUNNEL: &[u8] = b"GET /tunnel ";
const SWITCHING_PROTOCOLS: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";
const PROBE: &[u8] = b"GET / ";
const PROBE_RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nqueue-proxy";
const LARGE: &[u8] = b"GET /large ";
const LARGE_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 67108864\r\n\r\n";
const LARGE_LENGTH: usize = 64 << 20;
/// Pause before the next write to a full socket.
const FULL_SOCKET_PAUSE: Duration = Duration::from_millis(1);

/// One thread's share of the connections.
struct Worker {
    poller: Poller,
    listener: TcpListener,
    connections: HashMap<u64, Connection>,
    accepted: u64,
    buffer: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    heads: HeadCounter,
    /// After the upgrade; bytes are echoed from then on.
    is_tunnel: bool,
}

/// Counts the ends of request heads over any number of reads.
#[derive(Default)]
struct HeadCounter {
    /// Bytes of [`HEAD_END`] matched so far.
    matched: usize,
}

/// Starts the backend; it serves until the process ends.
///
/// # Errors
/// When a socket or a thread cannot be created.
pub(crate) fn start(threads: usize) -> Result<SocketAddr> {
    start_on(Ipv4Addr::LOCALHOST, threads)
}

/// The same at this address.
///
/// # Errors
/// When a socket or a thread cannot be created.
pub(crate) fn start_on(ip: Ipv4Addr, threads: usize) -> Result<SocketAddr> {
    let listener = TcpListener::bind((ip, 0)).context("the backend cannot listen")?;
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    for _ in 0..threads {
        let mut worker = Worker::new(listener.try_clone()?)?;
        std::thread::Builder::new().name("backend".to_owned()).spawn(move || worker.serve())?;
    }
    Ok(address)
}

// === impl Worker ===

impl Worker {
    fn new(listener: TcpListener) -> Result<Self> {
        let poller = Poller::new()?;
        poller.watch_shared(&listener, LISTENER)?;
        Ok(Self { poller, listener, connections: HashMap::new(), accepted: 0, buffer: vec![0; 16 * 1024] })
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            self.poller.wait(None)?;
            let mut nth = 0;
            while let Some(number) = self.poller.ready(nth) {
                nth += 1;
                match number {
                    LISTENER => self.accept(),
                    number => self.answer(number),
                }
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            self.accepted += 1;
            let prepared = stream
                .set_nonblocking(true)
                .and_then(|()| stream.set_nodelay(true))
                .and_then(|()| self.poller.watch(&stream, self.accepted));
            if prepared.is_ok() {
                self.connections.insert(self.accepted, Connection::new(stream));
            }
        }
    }

    fn answer(&mut self, number: u64) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        match connection.answer(&mut self.buffer) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => drop(self.connections.remove(&number)),
        }
    }
}

// === impl Connection ===

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Self { stream, heads: HeadCounter::default(), is_tunnel: false }
    }

    fn answer(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        let count = self.stream.read(buffer)?;
        if count == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let bytes = buffer.get(..count).unwrap_or_default();
        if self.is_tunnel {
            return self.stream.write_all(bytes);
        }
        if bytes.starts_with(TUNNEL) {
            self.is_tunnel = true;
            return self.stream.write_all(SWITCHING_PROTOCOLS);
        }
        if bytes.starts_with(PROBE) {
            return self.stream.write_all(PROBE_RESPONSE);
        }
        if bytes.starts_with(LARGE) {
            let stream = self.stream.try_clone()?;
            std::thread::Builder::new().spawn(move || send_large_response(stream))?;
            return Ok(());
        }
        for _ in 0..self.heads.count(bytes) {
            self.stream.write_all(RESPONSE)?;
        }
        Ok(())
    }
}

/// Returns after the response, or when the client has closed the connection.
fn send_large_response(mut stream: TcpStream) {
    let zeros = vec![0; 64 * 1024];
    let pieces =
        std::iter::once(LARGE_HEAD).chain(std::iter::repeat_n(&zeros[..], LARGE_LENGTH / zeros.len()));
    for mut rest in pieces {
        while !rest.is_empty() {
            match stream.write(rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(FULL_SOCKET_PAUSE),
                Err(_) => return,
            }
        }
    }
}

// === impl HeadCounter ===

impl HeadCounter {
    fn count(&mut self, bytes: &[u8]) -> usize {
        let mut ended = 0;
        for byte in bytes {
            self.matched = match HEAD_END.get(self.matched) == Some(byte) {
                true => self.matched + 1,
                false => usize::from(*byte == b'\r'),
            };
            if self.matched == HEAD_END.len() {
                self.matched = 0;
                ended += 1;
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_each_head_once_for_every_split() {
        let requests = b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /\r HTTP/1.1\r\n\r\r\n\r\n";
        for cut in 0..=requests.len() {
            let (first, second) = requests.split_at(cut);
            let mut heads = HeadCounter::default();
            assert_eq!(heads.count(first) + heads.count(second), 2, "cut at {cut}");
        }
    }

    #[test]
    fn answers_requests_over_a_connection() {
        let mut stream = TcpStream::connect(start(2).unwrap()).unwrap();
        let mut response = vec![0; RESPONSE.len()];
        for _ in 0..3 {
            stream.write_all(b"GET /hello HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            stream.read_exact(&mut response).unwrap();
            assert_eq!(response, RESPONSE);
        }
    }

    #[test]
    fn answers_the_activators_probe() {
        let mut stream = TcpStream::connect(start(1).unwrap()).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nrouse-probe: queue-proxy\r\n\r\n").unwrap();
        let mut response = vec![0; PROBE_RESPONSE.len()];
        stream.read_exact(&mut response).unwrap();
        assert_eq!(response, PROBE_RESPONSE);
    }
}
