//! Exchanges on loopback, and strangers who connect to them.

use std::collections::BTreeSet;
use std::time::Duration;

use autoscaler::Key;
use autoscaler::contract::{ACTIVATOR_ACCOUNT, ACTIVATOR_HEADER, SLOTS_PATH};
use autoscaler::slot_lending::Message;
use futures::future::BoxFuture;
use futures::{SinkExt, StreamExt};
use http::header::AUTHORIZATION;
use k8s_openapi::api::authorization::v1::SubjectAccessReviewSpec;
use prometheus::Registry;
use runtime::auth::{Access, ReviewError, Reviewer, User};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{self, Message as Frame};

use super::*;
use crate::metrics::Metrics;

/// More than anything here takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// An exchange at an address of its own.
struct Running {
    address: SocketAddr,
    news: News,
    _task: AbortOnDropHandle<()>,
}

impl Running {
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
        let position = Position { own, listener, guard, token, activators };
        let metrics = Metrics::register(&Registry::new()).unwrap().exchange.clone();
        let (news, run) = exchange(Some(position), metrics);
        Self { address, news, _task: AbortOnDropHandle::new(tokio::spawn(run)) }
    }

    async fn linked_to(&mut self, count: usize) -> Vec<LinkId> {
        let links = self.news.neighbours.wait_for(|neighbours| neighbours.links().len() == count);
        let neighbours = tokio::time::timeout(DEADLINE, links).await.unwrap().unwrap();
        neighbours.links().into_iter().collect()
    }

    async fn heard(&mut self) -> Heard {
        tokio::time::timeout(DEADLINE, self.news.heard.recv()).await.unwrap().unwrap()
    }

    fn say(&self, to: LinkId, message: Message<IpAddr>) {
        self.news.neighbours.borrow().say(to, word(message));
    }

    /// Connects as `name`.
    async fn stranger(&self, name: Option<&str>) -> Result<WebSocketStream<TcpStream>, tungstenite::Error> {
        self.stranger_with(None, name).await
    }

    async fn stranger_with(
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

/// Knows one token, of an activator, and one of somebody else.
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

fn word(message: Message<IpAddr>) -> Word<IpAddr> {
    Word { workload: Key::new("shop", "web"), message }
}

#[tokio::test]
async fn two_that_connect_to_each_other_at_once_keep_one_connection() {
    let activators = watch::Sender::default();
    let mut one = Running::start("127.0.8.1", &activators).await;
    // Neither is behind the Service by its own view, so each connects to whomever it sees.
    let elsewhere = watch::Sender::new(BTreeSet::from([one.address]));
    let mut other = Running::start("127.0.8.2", &elsewhere).await;
    activators.send_replace(BTreeSet::from([other.address]));
    loop {
        let (to_other, to_one) = (one.linked_to(1).await[0], other.linked_to(1).await[0]);
        one.say(to_other, Message::Begin);
        other.say(to_one, Message::Begin);
        // What was said over one that gave way to the other is lost with it.
        let both = async { (one.heard().await, other.heard().await) };
        if let Ok((from_other, from_one)) = tokio::time::timeout(Duration::from_millis(200), both).await
            && (from_other.from, from_one.from) == (to_other, to_one)
        {
            return assert_eq!(from_other.words, [word(Message::Begin)]);
        }
    }
}

#[tokio::test]
async fn who_does_not_say_who_it_is_is_refused() {
    let running = Running::start("127.0.8.3", &watch::Sender::default()).await;
    for name in [None, Some("activator-1"), Some("")] {
        let refused = running.stranger(name).await;
        assert!(
            matches!(&refused, Err(tungstenite::Error::Http(answer)) if answer.status() == 400),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn only_who_shows_an_activators_token_comes_in() {
    let guard = TokenGuard::new(Arc::new(TwoTokens), "rouse-system", "ours");
    let path = std::env::temp_dir().join(format!("slots-token-{}", std::process::id()));
    std::fs::write(&path, "ours").unwrap();
    let activators = watch::Sender::default();
    let token = ProjectedToken::at(&path);
    let mut one = Running::guarded("127.0.8.6", &activators, guard.clone(), token.clone()).await;
    for (token, status) in [(None, 401), (Some("unknown"), 401), (Some("theirs"), 403)] {
        let refused = one.stranger_with(token, Some("127.0.8.9")).await;
        let is_as_expected =
            matches!(&refused, Err(tungstenite::Error::Http(answer)) if answer.status() == status);
        assert!(is_as_expected, "{token:?}: {refused:?}");
    }
    let mut other = Running::guarded("127.0.8.7", &activators, guard, token).await;
    activators.send_replace(BTreeSet::from([one.address, other.address]));
    let (to_other, _) = (one.linked_to(1).await[0], other.linked_to(1).await[0]);
    one.say(to_other, Message::Begin);
    assert_eq!(other.heard().await.words, [word(Message::Begin)]);
    std::fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn whoever_talks_nonsense_is_cut_off() {
    let activators = watch::Sender::default();
    let mut running = Running::start("127.0.8.4", &activators).await;
    for nonsense in
        ["{}", "[1]", r#"[{"workload":{"namespace":"a","name":"b"},"message":{"take":"10.0.0.1"}}]"#]
    {
        let mut stranger = running.stranger(Some("127.0.8.9")).await.unwrap();
        running.linked_to(1).await;
        stranger.send(Frame::text(nonsense)).await.unwrap();
        running.linked_to(0).await;
    }
    let mut stranger = running.stranger(Some("127.0.8.9")).await.unwrap();
    running.linked_to(1).await;
    // It is not read to its end, so that it need not be taken to its end.
    let _ = stranger.send(Frame::text("x".repeat(1 << 20))).await;
    running.linked_to(0).await;
}

#[tokio::test]
async fn what_is_said_has_this_form() {
    let activators = watch::Sender::default();
    let mut running = Running::start("127.0.8.5", &activators).await;
    let mut peer = running.stranger(Some("127.0.8.9")).await.unwrap();
    let link = running.linked_to(1).await[0];
    running.say(link, Message::Want { requests: 2, oldest_millis: 7 });
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
    assert_eq!(running.heard().await.words, [word(Message::Lend([10, 0, 0, 1].into()))]);
}
