//! Many callers with one request each, that wait for their answers.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::clock;
use crate::poller::Poller;
use crate::response;

/// A small one, as clients send them.
const REQUEST: &[u8] =
    b"GET /hello?name=world HTTP/1.1\r\nHost: web.shop.svc\r\nUser-Agent: bench\r\nAccept: */*\r\n\
    X-Request-Id: 4bf92f3577b34da6a3ce929d0e0e4736\r\n\r\n";
/// Connections to one address; beyond that the kernel runs out of ports for them.
const TO_ONE_ADDRESS: usize = 20_000;
/// More than any answer here has.
const LONGEST_ANSWER: usize = 4096;

/// Callers whose requests were sent.
pub(super) struct Callers {
    poller: Poller,
    waiting: Vec<Option<TcpStream>>,
    /// They keep their connections, as clients do.
    answered: Vec<TcpStream>,
}

/// What became of the requests.
pub(super) struct Answers {
    /// From the first answer to the last.
    pub(super) took: Duration,
    pub(super) lost: usize,
    pub(super) last_loss: String,
}

// === impl Callers ===

impl Callers {
    /// Sends `count` requests to `port`, each on a connection of its own.
    ///
    /// # Errors
    /// When one cannot be sent.
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

    /// Waits for all answers.
    ///
    /// # Errors
    /// When some do not come in time.
    pub(super) fn answers(&mut self, patience: Duration) -> Result<Answers> {
        let mut answers = Answers { took: Duration::ZERO, lost: 0, last_loss: String::new() };
        let (mut left, end, mut first) = (self.waiting.len(), clock::now() + patience, None);
        while left > 0 {
            self.poller.wait(Some(Duration::from_secs(1)))?;
            ensure!(clock::now() < end, "{left} requests are not answered within {patience:?}");
            let mut nth = 0;
            while let Some(number) = self.poller.ready(nth) {
                nth += 1;
                let Some(caller) = self.waiting.get_mut(usize::try_from(number)?) else { continue };
                let Some(loss) = caller.as_mut().and_then(read) else { continue };
                first.get_or_insert_with(clock::now);
                self.answered.extend(caller.take());
                left -= 1;
                if let Err(loss) = loss {
                    (answers.lost, answers.last_loss) = (answers.lost + 1, loss);
                }
            }
        }
        answers.took = first.map_or(Duration::ZERO, |first| first.elapsed());
        Ok(answers)
    }
}

/// What came, once something did. The answers here are small and come whole.
fn read(stream: &mut TcpStream) -> Option<Result<(), String>> {
    let mut buffer = [0; LONGEST_ANSWER];
    let count = match stream.read(&mut buffer) {
        Ok(count) => count,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return None,
        Err(error) => return Some(Err(error.to_string())),
    };
    let bytes = buffer.get(..count).unwrap_or_default();
    Some(match response::parse(bytes) {
        Ok(Some(answer)) if answer.status == 200 && answer.length == count => Ok(()),
        _ => Err(String::from_utf8_lossy(bytes).into_owned()),
    })
}

/// The answer to a GET on a connection of its own.
///
/// # Errors
/// When there is none.
pub(super) fn get(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).with_context(|| address.to_string())?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
