//! HeldClients: many connections with one request each that wait for their responses.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use bench_proxies::clock;

use crate::traffic::poller::Poller;
use crate::traffic::response;

/// A small request with typical headers.
const REQUEST: &[u8] =
    b"GET /hello?name=world HTTP/1.1\r\nHost: web.shop.svc\r\nUser-Agent: bench\r\nAccept: */*\r\n\
    X-Request-Id: 4bf92f3577b34da6a3ce929d0e0e4736\r\n\r\n";
/// Connections to one address; with more the kernel runs out of ephemeral ports.
const TO_ONE_ADDRESS: usize = 20_000;
/// More than any response here has.
const LONGEST_RESPONSE: usize = 4096;

/// Clients whose requests were sent.
pub(super) struct HeldClients {
    poller: Poller,
    waiting: Vec<Option<TcpStream>>,
    /// Kept open, as real clients do.
    answered: Vec<TcpStream>,
}

/// Results of all requests.
pub(super) struct Responses {
    /// Time from the first response to the last.
    pub(super) took: Duration,
    pub(super) lost: usize,
    pub(super) last_loss: String,
}

// === impl HeldClients ===

impl HeldClients {
    /// Sends `count` requests to `port`, each on its own connection.
    ///
    /// # Errors
    /// When a request cannot be sent.
    pub(super) fn connect(port: u16, count: usize) -> Result<Self> {
        let poller = Poller::new()?;
        let mut waiting = Vec::with_capacity(count);
        for number in 0..count {
            let nth = u8::try_from(number / TO_ONE_ADDRESS + 1)?;
            let mut stream = TcpStream::connect((Ipv4Addr::new(127, 0, 0, nth), port))
                .with_context(|| format!("connection {number} of {count}"))?;
            stream.write_all(REQUEST)?;
            stream.set_nonblocking(true)?;
            poller.watch(&stream, u64::try_from(number)?)?;
            waiting.push(Some(stream));
        }
        Ok(Self { poller, waiting, answered: Vec::with_capacity(count) })
    }

    /// Waits for all responses.
    ///
    /// # Errors
    /// When a response does not arrive within `timeout`.
    pub(super) fn responses(&mut self, timeout: Duration) -> Result<Responses> {
        let mut responses = Responses { took: Duration::ZERO, lost: 0, last_loss: String::new() };
        let (mut left, end, mut first) = (self.waiting.len(), clock::now() + timeout, None);
        while left > 0 {
            self.poller.wait(Some(Duration::from_secs(1)))?;
            ensure!(clock::now() < end, "{left} requests have no response after {timeout:?}");
            let mut nth = 0;
            while let Some(number) = self.poller.ready(nth) {
                nth += 1;
                let Some(client) = self.waiting.get_mut(usize::try_from(number)?) else { continue };
                let Some(result) = client.as_mut().and_then(read) else { continue };
                first.get_or_insert_with(clock::now);
                self.answered.extend(client.take());
                left -= 1;
                if let Err(loss) = result {
                    (responses.lost, responses.last_loss) = (responses.lost + 1, loss);
                }
            }
        }
        responses.took = first.map_or(Duration::ZERO, |first| first.elapsed());
        Ok(responses)
    }
}

/// Reads a response, which is small and arrives in one piece; `None` before it arrives.
fn read(stream: &mut TcpStream) -> Option<Result<(), String>> {
    let mut buffer = [0; LONGEST_RESPONSE];
    let count = match stream.read(&mut buffer) {
        Ok(count) => count,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return None,
        Err(error) => return Some(Err(error.to_string())),
    };
    let bytes = buffer.get(..count).unwrap_or_default();
    Some(match response::parse(bytes) {
        Ok(Some(response)) if response.status == 200 && response.length == count => Ok(()),
        _ => Err(String::from_utf8_lossy(bytes).into_owned()),
    })
}

/// The response to a GET on a new connection, head included.
///
/// # Errors
/// When the connection fails.
pub(super) fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).with_context(|| address.to_string())?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    Ok(response)
}
