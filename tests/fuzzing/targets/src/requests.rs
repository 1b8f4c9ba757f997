//! Bytes of a client on a connection to a proxy, of HTTP/1 or HTTP/2.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use proxy::gateway::{self, Sender};
use proxy::incoming_body::IncomingBody;
use proxy::listener::ConnectionAddresses;
use proxy::server::{self, ServerOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

pub(crate) const WORDS: &[&[u8]] = &[
    b"\r\n",
    b"\r\n\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Expect: 100-continue\r\n",
    b"Connection: close\r\n",
    b"0\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\0\0\0\x04\0\0\0\0\0",
    b"\0\0\x04\x03\0\0\0\0\x01\0\0\0\x08",
    b"\0\0\0\0\x01\0\0\0\x01",
];

const OPTIONS: ServerOptions = ServerOptions {
    header_read_timeout: Duration::from_secs(5),
    idle_timeout: Duration::from_secs(5),
    max_connections: 16,
    max_header_bytes: 64 * 1024,
    http2_window: 64 * 1024,
    drain_timeout: Duration::ZERO,
};
/// A client that has closed its sending side gets its responses, and the connection ends.
const ENDS: Duration = Duration::from_secs(20);

thread_local! {
    static SERVER: (Runtime, SocketAddr) = start();
}

fn start() -> (Runtime, SocketAddr) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let address = listener.local_addr().unwrap();
    let handler = |request, addresses: &Arc<ConnectionAddresses>| respond(request, Arc::clone(addresses));
    runtime.spawn(server::serve(listener, handler, OPTIONS, CancellationToken::new()));
    (runtime, address)
}

/// As a proxy does: checks and prepares the request, reads its body.
async fn respond(
    mut request: Request<IncomingBody>,
    addresses: Arc<ConnectionAddresses>,
) -> Result<Response<Full<bytes::Bytes>>, Infallible> {
    if gateway::check_request(&request).is_err() {
        return Ok(Response::builder().status(400).body(Full::default()).unwrap());
    }
    gateway::prepare_request(&mut request, &addresses, Sender::Client);
    let body = request.into_body().collect().await;
    Ok(Response::new(Full::new(body.map(http_body_util::Collected::to_bytes).unwrap_or_default())))
}

pub(crate) fn check(bytes: &[u8]) {
    SERVER.with(|(runtime, address)| {
        runtime.block_on(async {
            let mut client = TcpStream::connect(*address).await.unwrap();
            let (mut read, mut write) = client.split();
            let send = async {
                // The server may close before all bytes are written.
                let _ = write.write_all(bytes).await;
                let _ = write.shutdown().await;
            };
            let receive = async {
                let mut response = Vec::new();
                let _ = read.read_to_end(&mut response).await;
            };
            let both = async { tokio::join!(send, receive) };
            tokio::time::timeout(ENDS, both).await.expect("the connection ends after its client has left");
        });
    });
}
