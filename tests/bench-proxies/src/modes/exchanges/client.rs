//! Client: one exchange after another over a connection.

use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Bytes of a large body.
pub(super) const LARGE_BODY: usize = 1 << 20;
/// Events of a stream, and the bytes of each.
pub(super) const EVENTS: usize = 1000;
pub(super) const EVENT: usize = 100;

/// A request and its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Exchange {
    /// A response with a large body.
    Download,
    /// A request with a large body.
    Upload,
    /// A response that is written event by event.
    Events,
    /// A small response on a connection of its own.
    Connection,
}

/// A client and its connection.
pub(super) struct Client {
    address: SocketAddr,
    exchange: Exchange,
    request: Vec<u8>,
    connection: Option<BufReader<TcpStream>>,
    /// The last body, or the last chunk of it.
    body: Vec<u8>,
}

// === impl Exchange ===

impl Exchange {
    pub(super) const ALL: [Self; 4] = [Self::Download, Self::Upload, Self::Events, Self::Connection];

    fn request(self) -> Vec<u8> {
        let (line, headers) = match self {
            Self::Download => ("GET /large", String::new()),
            Self::Upload => ("POST /upload", format!("Content-Length: {LARGE_BODY}\r\n")),
            Self::Events => ("GET /events", String::new()),
            Self::Connection => ("GET /hello", "Connection: close\r\n".to_owned()),
        };
        let head = format!("{line} HTTP/1.1\r\nHost: web.shop.example.com\r\n{headers}\r\n");
        let body = if self == Self::Upload { LARGE_BODY } else { 0 };
        [head.into_bytes(), vec![b'x'; body]].concat()
    }
}

impl fmt::Display for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Download => f.write_str("responses of 1 MiB"),
            Self::Upload => f.write_str("uploads of 1 MiB"),
            Self::Events => write!(f, "streams of {EVENTS} events of {EVENT} bytes"),
            Self::Connection => f.write_str("a connection for each request"),
        }
    }
}

// === impl Client ===

impl Client {
    pub(super) fn new(address: SocketAddr, exchange: Exchange) -> Self {
        Self { address, exchange, request: exchange.request(), connection: None, body: Vec::new() }
    }

    /// Sends the request and reads the whole response.
    ///
    /// # Errors
    /// When the connection fails, or the response is not the expected one.
    pub(super) fn exchange(&mut self) -> io::Result<()> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => connect(self.address)?,
        };
        connection.get_mut().write_all(&self.request)?;
        let head = read_head(&mut connection)?.to_ascii_lowercase();
        if !head.starts_with("http/1.1 200 ") {
            return Err(io::Error::new(ErrorKind::InvalidData, head));
        }
        let length = match content_length(&head) {
            Some(length) => self.read(&mut connection, length)?,
            None => self.read_chunks(&mut connection)?,
        };
        let expected = match self.exchange {
            Exchange::Download => LARGE_BODY,
            Exchange::Events => EVENTS * EVENT,
            Exchange::Upload | Exchange::Connection => 0,
        };
        if length != expected {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("{length} bytes, not {expected}")));
        }
        self.connection = Some(connection).filter(|_| self.exchange != Exchange::Connection);
        Ok(())
    }

    fn read(&mut self, connection: &mut BufReader<TcpStream>, length: usize) -> io::Result<usize> {
        self.body.resize(length, 0);
        connection.read_exact(&mut self.body)?;
        Ok(length)
    }

    fn read_chunks(&mut self, connection: &mut BufReader<TcpStream>) -> io::Result<usize> {
        let mut sum = 0;
        loop {
            let mut line = String::new();
            connection.read_line(&mut line)?;
            let length = usize::from_str_radix(line.trim(), 16);
            let length = length.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
            sum += self.read(connection, length)?;
            connection.read_line(&mut line)?;
            if length == 0 {
                return Ok(sum);
            }
        }
    }
}

fn connect(address: SocketAddr) -> io::Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    Ok(BufReader::with_capacity(64 * 1024, stream))
}

/// Reads up to the empty line.
///
/// # Errors
/// When the connection ends before it.
pub(super) fn read_head(connection: &mut impl BufRead) -> io::Result<String> {
    let mut head = String::new();
    loop {
        let before = head.len();
        if connection.read_line(&mut head)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if head.get(before..).is_some_and(|line| line.trim().is_empty()) {
            return Ok(head);
        }
    }
}

/// Of a head in lower case.
pub(super) fn content_length(head: &str) -> Option<usize> {
    head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok())
}
