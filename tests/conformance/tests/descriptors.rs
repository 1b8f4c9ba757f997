//! Descriptors: the limit of a process is raised as far as it may be, bounds its connections, and
//! leaves one for a new request.
//!
//! The limit is the process's, so this file has one test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use conformance::addresses::AppAddress;
use conformance::app::TestApp;
use conformance::http2::{PREFACE, frame};
use conformance::runner::{ProxySettings, RunningProxy};
use conformance::wire::Wire;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use support::{
    activator, activator_without_sidecar, queue_proxy, tcp_activator_without_sidecar, tcp_queue_proxy,
};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Longer than any step takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);
/// What container runtimes give a process at least, by a quarter.
const SOFT_LIMIT: u64 = 256;
/// Descriptors for two ends of many connections, as clients are in this process too.
const HARD_LIMIT: u64 = 1200;
/// More connections than the soft limit, as each has both ends here.
const BEYOND_SOFT_LIMIT: usize = 200;
/// Fewer than the hard limit for their clients alone, and more for both ends.
const BEYOND_HARD_LIMIT: usize = 680;
/// More than the process has without proxies: pollers, pipes and the test's output.
const OWN_DESCRIPTORS: usize = 64;
const POLL_INTERVAL: Duration = Duration::from_millis(1);
const SETTINGS: u8 = 4;

/// What a client sends before it is idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Idle {
    Http1,
    Http2,
}

#[tokio::test]
async fn idle_connections_leave_a_descriptor_for_a_new_request() {
    let hard = getrlimit(Resource::Nofile).maximum;
    let soft = Rlimit { current: Some(SOFT_LIMIT), maximum: hard };
    for idle in [Idle::Http1, Idle::Http2] {
        check(soft, idle, BEYOND_SOFT_LIMIT, queue_proxy).await;
        check(soft, idle, BEYOND_SOFT_LIMIT, activator).await;
        check(soft, idle, BEYOND_SOFT_LIMIT, activator_without_sidecar).await;
    }
    check(soft, Idle::Http1, BEYOND_SOFT_LIMIT, tcp_queue_proxy).await;
    check(soft, Idle::Http1, BEYOND_SOFT_LIMIT, tcp_activator_without_sidecar).await;
    let few = Rlimit { current: Some(SOFT_LIMIT), maximum: Some(HARD_LIMIT) };
    for idle in [Idle::Http1, Idle::Http2] {
        check(few, idle, BEYOND_HARD_LIMIT, queue_proxy).await;
        check(few, idle, BEYOND_HARD_LIMIT, activator).await;
        check(few, idle, BEYOND_HARD_LIMIT, activator_without_sidecar).await;
    }
}

/// A new request is served beside so many connections that are idle.
async fn check<F: Future<Output = RunningProxy>>(
    limit: Rlimit,
    idle: Idle,
    count: usize,
    start: impl Fn(ProxySettings) -> F,
) {
    timeout(DEADLINE, former_check_ended()).await.expect("the former proxy's connections end");
    setrlimit(Resource::Nofile, limit).unwrap();
    let app = TestApp::start(AppAddress::Loopback, Vec::new(), Vec::new()).await.unwrap();
    let settings = ProxySettings { app: app.address, header_timeout: DEADLINE, idle_timeout: DEADLINE };
    let proxy = start(settings).await;
    let mut connections = Vec::new();
    for _ in 0..count {
        connections.push(connect(&proxy, idle).await);
    }
    let mut client = Wire::new(connected(proxy.address).await);
    client.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    let head = timeout(DEADLINE, client.head()).await.expect("a response in time").unwrap();
    assert_eq!(head.expect("a response").status().unwrap(), 200, "{limit:?} {idle:?}");
}

/// Its proxy's workers close their connections after it was dropped.
async fn former_check_ended() {
    while std::fs::read_dir("/proc/self/fd").unwrap().count() > OWN_DESCRIPTORS {
        sleep(POLL_INTERVAL).await;
    }
}

/// A connection of a client, which shares the limit with the proxy: the proxy may still hold the
/// socket of a connection that it closes.
async fn connected(address: SocketAddr) -> TcpStream {
    let connection = async {
        loop {
            match TcpStream::connect(address).await {
                Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
                    sleep(POLL_INTERVAL).await;
                }
                connection => return connection.unwrap(),
            }
        }
    };
    timeout(DEADLINE, connection).await.expect("a descriptor in time")
}

async fn connect(proxy: &RunningProxy, idle: Idle) -> Wire<TcpStream> {
    let mut client = Wire::new(connected(proxy.address).await);
    if idle == Idle::Http2 {
        client.send(&[PREFACE, &frame(SETTINGS, 0, 0, []).bytes()].concat()).await;
    }
    client
}
