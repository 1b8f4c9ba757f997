//! Drains: what clients that are connected at a stop receive.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::*;
use crate::incoming_body::IncomingBody;

/// Longer than any step takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);
const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

type Handled = Result<Response<Full<Bytes>>, std::convert::Infallible>;

async fn respond(_: Request<IncomingBody>) -> Handled {
    Ok(Response::new(Full::new(Bytes::from("served"))))
}

fn handler() -> impl RequestHandler {
    |request: Request<IncomingBody>, _: &Arc<ConnectionAddresses>| respond(request)
}

/// A client that is connected to a listener, which has not accepted it.
async fn waiting_client() -> (TcpListener, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (listener, client)
}

async fn expect_served(mut client: TcpStream) {
    let mut answer = String::new();
    timeout(DEADLINE, client.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");
    assert!(answer.ends_with("served"), "{answer}");
}

#[tokio::test]
async fn drain_lets_running_request_finish() {
    let (listener, mut client) = waiting_client().await;
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let (arrived, mut arrivals) = mpsc::channel::<()>(1);
    let release = Arc::new(tokio::sync::Notify::new());
    let service = {
        let release = release.clone();
        move |request: Request<IncomingBody>, addresses: &Arc<ConnectionAddresses>| {
            assert_eq!(addresses.local, address);
            let (release, arrived) = (release.clone(), arrived.clone());
            async move {
                arrived.send(()).await.unwrap();
                release.notified().await;
                respond(request).await
            }
        }
    };
    let server = tokio::spawn(serve(listener, service, ServerOptions::default(), stop.clone()));
    client.write_all(REQUEST).await.unwrap();
    arrivals.recv().await.unwrap();
    stop.cancel();
    release.notify_one();
    expect_served(client).await;
    server.await.unwrap();
}

#[tokio::test]
async fn request_of_a_client_that_waits_to_be_accepted_at_the_stop_is_served() {
    let (listener, mut client) = waiting_client().await;
    client.write_all(REQUEST).await.unwrap();
    let stop = CancellationToken::new();
    stop.cancel();
    let server = tokio::spawn(serve(listener, handler(), ServerOptions::default(), stop));
    expect_served(client).await;
    server.await.unwrap();
}

#[tokio::test]
async fn request_that_follows_its_connection_is_served_in_spite_of_a_stop_between_them() {
    let (listener, mut client) = waiting_client().await;
    let acceptor = Acceptor::new(listener, 1);
    let connections = Connections::new(ServerOptions::default());
    let open = connections.open();
    let served = tokio::spawn(open.serve(acceptor.accept().await, handler(), ()));
    connections.stop();
    let end = tokio::spawn(connections.end());
    // On the runtime's one thread, both have begun.
    tokio::task::yield_now().await;
    client.write_all(REQUEST).await.unwrap();
    expect_served(client).await;
    served.await.unwrap();
    end.await.unwrap();
}

#[tokio::test]
async fn request_that_arrived_before_the_stop_is_served_though_it_is_read_after_it() {
    for begin in [1, REQUEST.len()] {
        let (listener, mut client) = waiting_client().await;
        client.write_all(&REQUEST[..begin]).await.unwrap();
        let accepted = Acceptor::new(listener, 1).accept().await;
        accepted.stream.readable().await.unwrap();
        let connections = Connections::new(ServerOptions::default());
        let open = connections.open();
        connections.stop();
        let end = tokio::spawn(connections.end());
        tokio::task::yield_now().await;
        let served = tokio::spawn(open.serve(accepted, handler(), ()));
        client.write_all(&REQUEST[begin..]).await.unwrap();
        expect_served(client).await;
        served.await.unwrap();
        end.await.unwrap();
    }
}

#[tokio::test]
async fn drain_ends_connections_without_request() {
    let (listener, mut client) = waiting_client().await;
    let stop = CancellationToken::new();
    let server = tokio::spawn(serve(listener, handler(), ServerOptions::default(), stop.clone()));
    stop.cancel();
    let mut answer = Vec::new();
    assert_eq!(timeout(DEADLINE, client.read_to_end(&mut answer)).await.unwrap().unwrap(), 0);
    server.await.unwrap();
}

/// Serves on two workers. Each connection reports the number of its worker.
fn serve_on_two(
    listener: TcpListener,
    stop: CancellationToken,
) -> (tokio::task::JoinHandle<()>, mpsc::UnboundedReceiver<usize>) {
    let (began, on) = mpsc::unbounded_channel();
    let service = move |worker: Arc<usize>, (): &()| {
        began.send(*worker).unwrap();
        handler()
    };
    let server = async move {
        let workers = Workers::start([0, 1]).unwrap();
        let admit = |_: &ConnectionAddresses| Some(());
        serve_on_workers(&workers, listener, admit, service, ServerOptions::default(), stop).await;
        // The drop waits for the threads.
        tokio::task::spawn_blocking(move || drop(workers)).await.unwrap();
    };
    (tokio::spawn(server), on)
}

#[tokio::test]
async fn workers_serve_connections_in_turn() {
    let (listener, first) = waiting_client().await;
    let (address, mut clients) = (listener.local_addr().unwrap(), vec![first]);
    let (_server, mut on) = serve_on_two(listener, CancellationToken::new());
    let mut workers = Vec::new();
    for _ in 0..4 {
        workers.push(timeout(DEADLINE, on.recv()).await.unwrap().unwrap());
        clients.push(TcpStream::connect(address).await.unwrap());
    }
    assert_eq!(workers, [0, 1, 0, 1]);
}

#[tokio::test]
async fn workers_serve_clients_that_wait_to_be_accepted_at_the_stop() {
    let (listener, first) = waiting_client().await;
    let mut clients = vec![first];
    for _ in 0..5 {
        clients.push(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
    }
    for client in &mut clients {
        client.write_all(REQUEST).await.unwrap();
    }
    let stop = CancellationToken::new();
    stop.cancel();
    let (server, _on) = serve_on_two(listener, stop);
    for client in clients {
        expect_served(client).await;
    }
    timeout(DEADLINE, server).await.unwrap().unwrap();
}
