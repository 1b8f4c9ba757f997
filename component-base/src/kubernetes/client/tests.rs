//! Tests of the client with an API server over TLS.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use fake_api::{FakeApi, Protocols};
use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::{Api, ListParams, PostParams};
use kube::runtime::watcher::{self, Event};
use prometheus::Registry;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::*;
use crate::kubernetes::{DecodeErrors, NamespaceEvent, NamespaceWatches};
use crate::listener::bind_port;

/// Its default.
const KUBE_APISERVER: Protocols = Protocols::Http2 { streams: 100 };

/// An API server behind a TCP proxy that counts connections.
struct Server {
    api: FakeApi,
    client: Client,
    connections: watch::Receiver<usize>,
    /// Closes all connections at each change.
    cut: watch::Sender<()>,
    _tasks: JoinSet<()>,
}

impl Server {
    async fn start(protocols: Protocols) -> Self {
        install_tls();
        let api = FakeApi::default();
        let (listener, proxy) = (listen().await, listen().await);
        let (backend, address) = (listener.local_addr().unwrap(), proxy.local_addr().unwrap());
        let ((count, connections), (cut, cuts)) = (watch::channel(0), watch::channel(()));
        let mut tasks = JoinSet::new();
        let served = api.clone();
        tasks.spawn(async move { served.serve(listener, protocols).await.unwrap() });
        tasks.spawn(count_connections(proxy, backend, count, cuts));
        let mut config = Config::new(format!("https://{address}").parse().unwrap());
        config.accept_invalid_certs = true;
        Self { api, client: direct_client(&config).unwrap(), connections, cut, _tasks: tasks }
    }

    fn put(&self, namespace: usize, name: &str) {
        let path = format!("/api/v1/namespaces/shop-{namespace}/pods/{name}");
        self.api.put(&path, json!({"metadata": {"name": name, "namespace": format!("shop-{namespace}")}}));
    }

    /// Watches of the pods in this many namespaces.
    fn watches(&self, namespaces: usize) -> (NamespaceWatches<Pod>, watch::Sender<BTreeSet<String>>) {
        let (sender, receiver) = watch::channel((0..namespaces).map(|i| format!("shop-{i}")).collect());
        let errors = DecodeErrors::register(&Registry::new(), "test").unwrap();
        let config = watcher::Config::default();
        (NamespaceWatches::new(self.client.clone(), receiver, config, errors), sender)
    }

    fn connections(&self) -> usize {
        *self.connections.borrow()
    }
}

async fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

async fn count_connections(
    listener: TcpListener,
    backend: SocketAddr,
    count: watch::Sender<usize>,
    cuts: watch::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    loop {
        let mut client = listener.accept().await.unwrap().0;
        let (count, mut cuts) = (count.clone(), cuts.clone());
        cuts.mark_unchanged();
        connections.spawn(async move {
            count.send_modify(|count| *count += 1);
            let mut server = TcpStream::connect(backend).await.unwrap();
            tokio::select! {
                _ = copy_bidirectional(&mut client, &mut server) => {}
                _ = cuts.changed() => {}
            }
            count.send_modify(|count| *count -= 1);
        });
    }
}

/// Reads events until each namespace was listed.
async fn until_listed(watches: &mut NamespaceWatches<Pod>, namespaces: usize) {
    let mut listed = BTreeSet::new();
    while listed.len() < namespaces {
        if let NamespaceEvent::Objects(namespace, Event::InitDone) = watches.next().await.unwrap() {
            listed.insert(namespace);
        }
    }
}

/// The namespaces of the next pods that were applied.
async fn applied(watches: &mut NamespaceWatches<Pod>, namespaces: usize) -> BTreeSet<String> {
    let mut applied = BTreeSet::new();
    while applied.len() < namespaces {
        if let NamespaceEvent::Objects(namespace, Event::Apply(_) | Event::InitApply(_)) =
            watches.next().await.unwrap()
        {
            applied.insert(namespace);
        }
    }
    applied
}

#[tokio::test]
async fn listener_takes_the_local_port_of_a_connection() {
    let server = listen().await;
    let mut streams = Vec::new();
    // Other programs of the machine may have a local port as well.
    for _ in 0..20 {
        let uri = format!("http://{}", server.local_addr().unwrap()).parse().unwrap();
        streams.push(tower::Service::call(&mut connector(), uri).await.unwrap());
    }
    let mut ports = streams.iter().map(|stream| stream.inner().local_addr().unwrap().port());
    assert!(ports.any(|port| bind_port(port).is_ok()));
}

#[tokio::test]
async fn watches_of_250_namespaces_share_three_connections() {
    let server = Server::start(KUBE_APISERVER).await;
    let (mut watches, _namespaces) = server.watches(250);
    until_listed(&mut watches, 250).await;
    for namespace in 0..250 {
        server.put(namespace, "web");
    }
    assert_eq!(applied(&mut watches, 250).await.len(), 250);
    assert_eq!(server.connections(), 3);
}

/// hyper assumes 100 streams until the server's SETTINGS arrive, and queues what is above them. A
/// watch begins after its list, so not all have begun.
#[tokio::test]
async fn streams_are_those_that_the_server_allows() {
    for (streams, expected) in [(10, 10..=20), (1000, 1..=2)] {
        let server = Server::start(Protocols::Http2 { streams }).await;
        let (mut watches, _namespaces) = server.watches(90);
        until_listed(&mut watches, 90).await;
        let (mut more, _namespaces) = server.watches(90);
        until_listed(&mut more, 90).await;
        assert!(expected.contains(&server.connections()), "{streams}: {}", server.connections());
    }
}

#[tokio::test]
async fn watches_continue_after_their_connections_are_lost() {
    let server = Server::start(KUBE_APISERVER).await;
    let (mut watches, _namespaces) = server.watches(150);
    until_listed(&mut watches, 150).await;
    server.cut.send_replace(());
    for namespace in 0..150 {
        server.put(namespace, "web");
    }
    assert_eq!(applied(&mut watches, 150).await.len(), 150);
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn ended_watches_free_their_streams() {
    let server = Server::start(KUBE_APISERVER).await;
    let (mut watches, namespaces) = server.watches(90);
    until_listed(&mut watches, 90).await;
    for first in [1000, 2000, 3000] {
        namespaces.send_replace((first..first + 90).map(|i| format!("shop-{i}")).collect());
        until_listed(&mut watches, 90).await;
    }
    // Streams that are being reset may still take a place when the next ones are opened.
    assert!(server.connections() <= 2, "{}", server.connections());
}

#[tokio::test]
async fn watch_that_is_not_read_stops_no_other_read() {
    let server = Server::start(KUBE_APISERVER).await;
    let pods = Api::<Pod>::namespaced(server.client.clone(), "shop-0");
    let request = kube::core::Request::new("/api/v1/namespaces/shop-0/pods");
    let mut unread = Vec::new();
    for _ in 0..40 {
        let watch = request.watch(&kube::api::WatchParams::default(), "0").unwrap();
        unread.push(server.client.request_stream(watch).await.unwrap());
    }
    // Each watch gets more than its window.
    for i in 0..20 {
        let filler = json!({"metadata": {"annotations": {"filler": "x".repeat(10_000)}}});
        server.api.put(&format!("/api/v1/namespaces/shop-0/pods/web-{i}"), filler);
    }
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), 20);
    assert_eq!(server.connections(), 1);
    let lines = unread.pop().unwrap().lines().take(20);
    assert_eq!(lines.try_collect::<Vec<_>>().await.unwrap().len(), 20, "it continues when it is read");
}

#[tokio::test]
async fn writes_share_a_connection_of_their_own() {
    let server = Server::start(KUBE_APISERVER).await;
    let (mut watches, _namespaces) = server.watches(1);
    until_listed(&mut watches, 1).await;
    assert_eq!(server.connections(), 1);
    let writes = (0..64).map(|i| {
        let maps = Api::<ConfigMap>::namespaced(server.client.clone(), "shop-0");
        let map = serde_json::from_value(json!({"metadata": {"name": format!("web-{i}")}})).unwrap();
        async move { maps.create(&PostParams::default(), &map).await }
    });
    futures::future::try_join_all(writes).await.unwrap();
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn server_without_http2_gets_a_connection_for_each_watch() {
    let server = Server::start(Protocols::Http1).await;
    let (mut watches, _namespaces) = server.watches(5);
    until_listed(&mut watches, 5).await;
    server.put(3, "web");
    assert_eq!(applied(&mut watches, 1).await, BTreeSet::from(["shop-3".to_owned()]));
    assert!(server.connections() >= 5, "{}", server.connections());
}

/// Thousands of watches begin at once, and must not wait for each other's timeouts.
#[tokio::test]
async fn reads_that_wait_for_a_failed_connection_fail_with_it() {
    install_tls();
    let listener = listen().await;
    let config = Config::new(format!("https://{}", listener.local_addr().unwrap()).parse().unwrap());
    let client = direct_client(&config).unwrap();
    let mut reads = JoinSet::new();
    for _ in 0..50 {
        let client = client.clone();
        reads.spawn(async move { client.apiserver_version().await.unwrap_err() });
    }
    let mut client = listener.accept().await.unwrap().0;
    // All reads have begun once the first waits for the server's TLS.
    let _ = client.read(&mut [0; 1]).await;
    drop(client);
    while reads.join_next().await.is_some() {}
    let again = tokio::time::timeout(Duration::from_millis(100), listener.accept()).await;
    assert!(again.is_err(), "one attempt for all");
}

/// An API server that sheds load: the caller has to see it, and decides about the next request.
#[tokio::test]
async fn rejected_request_is_not_sent_again() {
    install_tls();
    for status in ["429 Too Many Requests", "503 Service Unavailable", "504 Gateway Timeout"] {
        let listener = listen().await;
        let server = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let (requests, served) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 4096]).await;
                requests.send_modify(|count| *count += 1);
                let head = format!(
                    "HTTP/1.1 {status}\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).await.unwrap();
            }
        });
        direct_client(&Config::new(server)).unwrap().apiserver_version().await.unwrap_err();
        assert_eq!(*served.borrow(), 1, "{status}");
    }
}

#[tokio::test]
async fn connection_to_lost_api_server_ends() {
    use socket2::SockRef;
    use tower::Service;

    let listener = listen().await;
    let server = format!("https://{}", listener.local_addr().unwrap()).parse().unwrap();
    let stream = connector().call(server).await.unwrap().into_inner();
    let socket = SockRef::from(&stream);
    assert!(socket.keepalive().unwrap());
    assert!(socket.tcp_nodelay().unwrap());
    assert_eq!(socket.tcp_keepalive_time().unwrap(), PROBE_INTERVAL);
    assert_eq!(socket.tcp_keepalive_interval().unwrap(), PROBE_INTERVAL);
    assert_eq!(socket.tcp_user_timeout().unwrap(), Some(LOST_AFTER));
}
