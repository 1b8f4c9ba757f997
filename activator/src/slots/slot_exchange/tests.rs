//! Exchanges on loopback, and connections of other clients to them.

use std::collections::BTreeSet;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::contract::version_skew::{HELLO_HEADER, SLOTS};
use autoscaler::contract::{ACTIVATOR_ACCOUNT, ACTIVATOR_HEADER, SLOTS_PATH};
use autoscaler::routing::slot_lending::{SlotMessage, WorkloadSlotMessage};
use component_base::auth::{Access, ReviewError, Reviewer, User};
use futures::future::BoxFuture;
use futures::{SinkExt, StreamExt};
use http::header::AUTHORIZATION;
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use prometheus::Registry;
use tokio::net::{TcpSocket, TcpStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message as Frame};

use super::*;
use crate::metrics::Metrics;

/// Longer than any step of these tests takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// An exchange at an address of its own.
struct RunningExchange {
    address: SocketAddr,
    events: SlotExchangeEvents,
    _task: AbortOnDropHandle<()>,
}

impl RunningExchange {
    async fn start(ip: &str, activators: &watch::Sender<BTreeSet<SocketAddr>>) -> Self {
        Self::guarded(ip, activators, TokenGuard::allow_all(), ProjectedToken::default()).await
    }

    async fn guarded(
        ip: &str,
        activators: &watch::Sender<BTreeSet<SocketAddr>>,
        guard: TokenGuard,
        token: ProjectedToken,
    ) -> Self {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (own, activators) = (address.ip(), activators.subscribe());
        let config = SlotExchangeConfig { own, listener, guard, token, activators };
        let metrics = Metrics::register(&Registry::new()).unwrap().slot_exchange.clone();
        let (events, run) = exchange(Some(config), metrics);
        Self { address, events, _task: AbortOnDropHandle::new(tokio::spawn(run)) }
    }

    async fn linked_to(&mut self, count: usize) -> Vec<LinkId> {
        let links = self.events.peers.wait_for(|peers| peers.links().len() == count);
        let peers = tokio::time::timeout(DEADLINE, links).await.unwrap().unwrap();
        peers.links().into_iter().collect()
    }

    async fn received(&mut self) -> ReceivedMessages {
        tokio::time::timeout(DEADLINE, self.events.messages.recv()).await.unwrap().unwrap()
    }

    fn send(&self, to: LinkId, message: SlotMessage<IpAddr>) {
        self.events.peers.borrow().send(to, message_of_web(message));
    }

    /// Connects with `name` as its address.
    async fn connect(&self, name: Option<&str>) -> Result<WebSocketStream<TcpStream>, tungstenite::Error> {
        self.connect_with(None, name).await
    }

    async fn connect_with(
        &self,
        token: Option<&str>,
        name: Option<&str>,
    ) -> Result<WebSocketStream<TcpStream>, tungstenite::Error> {
        let mut request = format!("ws://{}{SLOTS_PATH}", self.address).into_client_request().unwrap();
        if let Some(name) = name {
            request.headers_mut().insert(ACTIVATOR_HEADER, name.parse().unwrap());
        }
        if let Some(token) = token {
            request.headers_mut().insert(AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
        }
        let stream = TcpStream::connect(self.address).await.unwrap();
        tokio_tungstenite::client_async(request, stream).await.map(|(socket, _)| socket)
    }
}

/// Accepts the token of an activator, and one of another service account.
#[derive(Debug)]
struct TwoTokens;

impl Reviewer for TwoTokens {
    fn token<'a>(
        &'a self,
        token: &'a str,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Option<User>, ReviewError>> {
        let account = match token {
            "ours" => Some(ACTIVATOR_ACCOUNT),
            "theirs" => Some("default"),
            _ => None,
        };
        let name = account.map(|account| format!("system:serviceaccount:rouse-system:{account}"));
        Box::pin(async { Ok(name.map(|name| User { name, ..User::default() })) })
    }

    fn access(&self, _: SubjectAccessReviewSpec) -> BoxFuture<'_, Result<Access, ReviewError>> {
        Box::pin(async { Err(ReviewError::Empty) })
    }
}

fn message_of_web(message: SlotMessage<IpAddr>) -> WorkloadSlotMessage<IpAddr> {
    WorkloadSlotMessage { workload: Key::new("shop", "web"), message }
}

#[tokio::test]
async fn keeps_one_connection_when_both_sides_connect_at_once() {
    let activators = watch::Sender::default();
    let mut one = RunningExchange::start("127.0.8.1", &activators).await;
    // Neither sees itself behind the Service, so each connects to the other one.
    let elsewhere = watch::Sender::new(BTreeSet::from([one.address]));
    let mut other = RunningExchange::start("127.0.8.2", &elsewhere).await;
    activators.send_replace(BTreeSet::from([other.address]));
    loop {
        let (to_other, to_one) = (one.linked_to(1).await[0], other.linked_to(1).await[0]);
        one.send(to_other, SlotMessage::Begin);
        other.send(to_one, SlotMessage::Begin);
        // Messages over the duplicate connection are lost with it.
        let both = async { (one.received().await, other.received().await) };
        if let Ok((from_other, from_one)) = tokio::time::timeout(Duration::from_millis(200), both).await
            && (from_other.from, from_one.from) == (to_other, to_one)
        {
            return assert_eq!(from_other.messages, [message_of_web(SlotMessage::Begin)]);
        }
    }
}

#[tokio::test]
async fn rejects_connection_without_valid_address_header() {
    let running = RunningExchange::start("127.0.8.3", &watch::Sender::default()).await;
    for name in [None, Some("activator-1"), Some("")] {
        let rejected = running.connect(name).await;
        assert!(
            matches!(&rejected, Err(tungstenite::Error::Http(response)) if response.status() == 400),
            "{rejected:?}"
        );
    }
}

#[tokio::test]
async fn idle_connections_of_another_pod_leave_room_for_handshakes() {
    let mut running = RunningExchange::start("127.0.8.10", &watch::Sender::default()).await;
    let mut idle = Vec::new();
    for _ in 0..150 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(([127, 0, 9, 9], 0).into()).unwrap();
        idle.push(socket.connect(running.address).await.unwrap());
    }
    // Less than two timeouts of a handshake.
    let connected = tokio::time::timeout(Duration::from_secs(5), running.connect(Some("127.0.8.9"))).await;
    let _socket = connected.expect("the idle connections have all places").unwrap();
    running.linked_to(1).await;
}

#[tokio::test]
async fn accepts_only_tokens_of_the_activators_service_account() {
    let guard = TokenGuard::new(Arc::new(TwoTokens), "rouse-system", "ours");
    let path = std::env::temp_dir().join(format!("slots-token-{}", std::process::id()));
    std::fs::write(&path, "ours").unwrap();
    let activators = watch::Sender::default();
    let token = ProjectedToken::at(&path);
    let mut one = RunningExchange::guarded("127.0.8.6", &activators, guard.clone(), token.clone()).await;
    for (token, status) in [(None, 401), (Some("unknown"), 401), (Some("theirs"), 403)] {
        let rejected = one.connect_with(token, Some("127.0.8.9")).await;
        let is_as_expected =
            matches!(&rejected, Err(tungstenite::Error::Http(response)) if response.status() == status);
        assert!(is_as_expected, "{token:?}: {rejected:?}");
    }
    let mut other = RunningExchange::guarded("127.0.8.7", &activators, guard, token).await;
    activators.send_replace(BTreeSet::from([one.address, other.address]));
    let (to_other, _) = (one.linked_to(1).await[0], other.linked_to(1).await[0]);
    one.send(to_other, SlotMessage::Begin);
    assert_eq!(other.received().await.messages, [message_of_web(SlotMessage::Begin)]);
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn closes_connection_after_invalid_message() {
    let activators = watch::Sender::default();
    let mut running = RunningExchange::start("127.0.8.4", &activators).await;
    for invalid in ["{}", "[1]", r#"[{"workload":{"namespace":"a","name":"b"},"message":{"lend":"pod-1"}}]"#]
    {
        let mut client = running.connect(Some("127.0.8.9")).await.unwrap();
        running.linked_to(1).await;
        client.send(Frame::text(invalid)).await.unwrap();
        running.linked_to(0).await;
    }
    let mut client = running.connect(Some("127.0.8.9")).await.unwrap();
    running.linked_to(1).await;
    // The peer stops reading, so that the send may fail.
    let _ = client.send(Frame::text("x".repeat(1 << 20))).await;
    running.linked_to(0).await;
}

#[tokio::test]
async fn skips_unknown_kind_of_message_and_takes_the_others_of_its_frame() {
    let mut running = RunningExchange::start("127.0.8.11", &watch::Sender::default()).await;
    let mut peer = running.connect(Some("127.0.8.9")).await.unwrap();
    running.linked_to(1).await;
    let of =
        |message: &str| format!(r#"{{"workload":{{"namespace":"shop","name":"web"}},"message":{message}}}"#);
    let frame = [of(r#"{"take":{"newer":1}}"#), of(r#"{"lend":"10.0.0.1"}"#), of(r#""end""#)].join(",");
    peer.send(Frame::text(format!("[{frame}]"))).await.unwrap();
    assert_eq!(running.received().await.messages, [message_of_web(SlotMessage::Lend([10, 0, 0, 1].into()))]);
    running.linked_to(1).await;
}

#[tokio::test]
async fn refuses_activator_with_newer_messages_by_name_and_states_own_version() {
    let running = RunningExchange::start("127.0.8.12", &watch::Sender::default()).await;
    let connect = async |version: u32| {
        let mut request = format!("ws://{}{SLOTS_PATH}", running.address).into_client_request().unwrap();
        request.headers_mut().insert(ACTIVATOR_HEADER, "127.0.8.9".parse().unwrap());
        let hello = format!("{version} 127.0.8.9").parse().unwrap();
        request.headers_mut().insert(HELLO_HEADER, hello);
        let stream = TcpStream::connect(running.address).await.unwrap();
        tokio_tungstenite::client_async(request, stream).await
    };
    let (_, response) = connect(SLOTS.version).await.unwrap();
    assert_eq!(response.headers()[HELLO_HEADER], SLOTS.hello("127.0.8.12").as_str());
    let Err(tungstenite::Error::Http(refused)) = connect(SLOTS.version + 1).await else { panic!("accepted") };
    assert_eq!(refused.status(), 426);
    let body = String::from_utf8_lossy(refused.body().as_ref().unwrap()).into_owned();
    assert!(body.contains("127.0.8.9 sends slot messages of version 2"), "{body}");
}

#[tokio::test]
async fn messages_have_documented_json_form() {
    let activators = watch::Sender::default();
    let mut running = RunningExchange::start("127.0.8.5", &activators).await;
    let mut peer = running.connect(Some("127.0.8.9")).await.unwrap();
    let link = running.linked_to(1).await[0];
    running.send(link, SlotMessage::Want { requests: 2, oldest_millis: 7 });
    let frame = loop {
        match peer.next().await.unwrap().unwrap() {
            Frame::Text(text) => break text,
            _ping => {}
        }
    };
    let expected = r#"[{"workload":{"namespace":"shop","name":"web"},"message":{"want":{"requests":2,"oldestMillis":7}}}]"#;
    assert_eq!(frame.as_str(), expected);
    let lend = r#"[{"workload":{"namespace":"shop","name":"web"},"message":{"lend":"10.0.0.1"}}]"#;
    peer.send(Frame::text(lend)).await.unwrap();
    assert_eq!(running.received().await.messages, [message_of_web(SlotMessage::Lend([10, 0, 0, 1].into()))]);
}
