//! The app behind the proxies: a thread for each connection, but for websockets.

use std::collections::VecDeque;
use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::client::{EVENT, EVENTS, LARGE_BODY, content_length, read_head};

const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const SWITCHED: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// Open websockets, which need no thread. The oldest are those of a proxy that has ended.
type Websockets = Arc<Mutex<VecDeque<TcpStream>>>;

/// More than one proxy has at a time.
const MAX_WEBSOCKETS: usize = 4096;

/// Starts it on a free port of loopback.
///
/// # Errors
/// When no port is free.
pub(super) fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let websockets = Websockets::default();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let websockets = websockets.clone();
            // The end of a connection is no error: proxies close idle ones.
            thread::spawn(move || serve(stream, &websockets));
        }
    });
    Ok(address)
}

fn serve(stream: TcpStream, websockets: &Websockets) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut connection = BufReader::with_capacity(64 * 1024, stream);
    let large = vec![b'x'; LARGE_BODY];
    let mut upload = Vec::new();
    loop {
        let head = read_head(&mut connection)?.to_ascii_lowercase();
        upload.resize(content_length(&head).unwrap_or(0), 0);
        connection.read_exact(&mut upload)?;
        let stream = connection.get_mut();
        match head.split(' ').nth(1) {
            Some("/large") => {
                write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {LARGE_BODY}\r\n\r\n")?;
                stream.write_all(&large)?;
            }
            Some("/events") => write_events(stream)?,
            Some("/websocket") => {
                stream.write_all(SWITCHED)?;
                let mut websockets = websockets.lock().unwrap_or_else(PoisonError::into_inner);
                websockets.push_back(connection.into_inner());
                if websockets.len() > MAX_WEBSOCKETS {
                    websockets.pop_front();
                }
                return Ok(());
            }
            _ => stream.write_all(EMPTY)?,
        }
    }
}

fn write_events(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
    let event = format!("{EVENT:x}\r\n{}\r\n", "x".repeat(EVENT));
    for _ in 0..EVENTS {
        stream.write_all(event.as_bytes())?;
    }
    stream.write_all(b"0\r\n\r\n")
}
