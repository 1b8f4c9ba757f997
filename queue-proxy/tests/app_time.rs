//! The ends of requests as the sidecar reports them: time in the app, misses and errors.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests"
)]

mod support;

use std::pin::pin;
use std::time::Duration;

use autoscaler::stats::{AppStat, Stat};
use futures::future::join_all;
use http::{Request, StatusCode, Version};
use http_body_util::Full;
use support::app::TestApp;
use support::{Sidecar, request, send, text, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

const OBJECTIVE: Duration = Duration::from_millis(500);
const READ_INTERVAL: Duration = Duration::from_millis(20);
const VERSIONS: [Version; 2] = [Version::HTTP_11, Version::HTTP_2];

/// Sums of the app parts of a sidecar's periods. Periods are about a second long, so sums of rates
/// are about sums of requests.
struct Totals<'a> {
    sidecar: &'a Sidecar,
    /// The last period.
    timestamp: i64,
    sums: AppStat,
}

// === impl Totals ===

impl<'a> Totals<'a> {
    /// The sums of `requests`, which are sent while the objective is in force.
    async fn of(sidecar: &'a Sidecar, requests: impl Future<Output = ()>) -> AppStat {
        let mut totals = Self::when_objective_is_in_force(sidecar).await;
        let (mut requests, mut ended) = (pin!(requests), None);
        within(async {
            while ended.is_none_or(|ended| totals.timestamp < ended + 2) {
                tokio::select! {
                    () = &mut requests, if ended.is_none() => ended = Some(totals.timestamp),
                    () = sleep(READ_INTERVAL) => {}
                }
                totals.read().await;
            }
        })
        .await;
        totals.sums
    }

    async fn when_objective_is_in_force(sidecar: &'a Sidecar) -> Self {
        let mut totals = Self { sidecar, timestamp: 0, sums: AppStat::default() };
        within(async {
            while totals.sums.objective_micros == 0 {
                sleep(READ_INTERVAL).await;
                totals.read().await;
            }
        })
        .await;
        totals
    }

    async fn read(&mut self) {
        let stat = stat(self.sidecar).await;
        if let Some(app) = stat.app.filter(|_| stat.timestamp != self.timestamp) {
            self.timestamp = stat.timestamp;
            self.sums = AppStat {
                completions: self.sums.completions + app.completions,
                seconds: self.sums.seconds + app.seconds,
                errors: self.sums.errors + app.errors,
                misses: self.sums.misses + app.misses,
                objective_micros: app.objective_micros,
            };
        }
    }
}

/// The stat of the last period; the query sets the objective.
async fn stat(sidecar: &Sidecar) -> Stat {
    let path = format!("/stat?objective-micros={}", OBJECTIVE.as_micros());
    let response = send(sidecar.at.stats, request(&path)).await;
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        return Stat::default();
    }
    serde_json::from_str(&text(response).await).unwrap()
}

fn versioned(path: &str, version: Version) -> Request<Full<bytes::Bytes>> {
    let mut request = request(&format!("http://web.example{path}"));
    *request.version_mut() = version;
    request
}

/// One test for all, because each of them waits for the ends of several periods.
#[tokio::test]
async fn requests_are_reported_by_how_they_end() {
    tokio::join!(
        slow_response_is_one_miss_and_its_successor_in_the_queue_is_none(),
        stream_that_the_client_leaves_has_no_time(),
        client_that_gives_up_is_a_miss_and_no_error(),
        failure_of_the_app_is_an_error(),
        grpc_status_of_a_failure_is_an_error_in_trailers_and_head(),
        incomplete_response_of_the_app_is_an_error(),
        response_cut_at_a_timeout_is_an_error_unless_the_client_stalls(),
        tunnels_and_rejected_requests_are_no_ends(),
    );
}

async fn slow_response_is_one_miss_and_its_successor_in_the_queue_is_none() {
    join_all(VERSIONS.map(async |version| {
        let app = TestApp::start().await;
        let sidecar = Sidecar::start(app.address, &["--container-concurrency=1"]).await;
        let requests = async {
            let slow = tokio::spawn(send(sidecar.at.traffic, versioned("/wait", version)));
            sidecar.holds(1.0, 0.0).await;
            let queued = tokio::spawn(send(sidecar.at.traffic, versioned("/", version)));
            sidecar.holds(2.0, 1.0).await;
            sleep(2 * OBJECTIVE).await;
            app.open(1);
            for (response, expected) in [(slow, "waited"), (queued, "ok")] {
                assert_eq!(text(within(response).await.unwrap()).await, expected);
            }
        };
        let sums = Totals::of(&sidecar, requests).await;
        let (misses, seconds) = (sums.misses / sums.completions, sums.seconds / sums.completions);
        assert!((0.4..0.6).contains(&misses), "one of two: {version:?} {sums:?}");
        // The queued one would double it.
        assert!((0.4..0.8).contains(&seconds), "half of the slow one's: {version:?} {sums:?}");
        assert_eq!(sums.errors, 0.0);
    }))
    .await;
}

async fn stream_that_the_client_leaves_has_no_time() {
    join_all(VERSIONS.map(async |version| {
        let app = TestApp::start().await;
        let sidecar = Sidecar::start(app.address, &[]).await;
        let stream = async {
            let response = within(send(sidecar.at.traffic, versioned("/endless", version))).await;
            sleep(2 * OBJECTIVE).await;
            drop(response);
            sidecar.holds(0.0, 0.0).await;
        };
        let sums = Totals::of(&sidecar, stream).await;
        assert!(sums.completions > 0.4, "{version:?} {sums:?}");
        assert_eq!((sums.seconds, sums.errors, sums.misses), (0.0, 0.0, 0.0), "{version:?}");
    }))
    .await;
}

async fn client_that_gives_up_is_a_miss_and_no_error() {
    join_all(VERSIONS.map(async |version| {
        let app = TestApp::start().await;
        let sidecar = Sidecar::start(app.address, &[]).await;
        let no_response = async {
            let waiting = tokio::spawn(send(sidecar.at.traffic, versioned("/wait", version)));
            sidecar.holds(1.0, 0.0).await;
            sleep(2 * OBJECTIVE).await;
            waiting.abort();
            sidecar.holds(0.0, 0.0).await;
        };
        let sums = Totals::of(&sidecar, no_response).await;
        let (misses, seconds) = (sums.misses / sums.completions, sums.seconds / sums.completions);
        assert!(misses == 1.0 && seconds >= 0.9, "no response in this time: {version:?} {sums:?}");
        assert_eq!(sums.errors, 0.0);
    }))
    .await;
}

async fn failure_of_the_app_is_an_error() {
    join_all(VERSIONS.map(async |version| {
        let app = TestApp::start().await;
        app.fail(true);
        let sidecar = Sidecar::start(app.address, &[]).await;
        let failed = async {
            let response = within(send(sidecar.at.traffic, versioned("/healthz", version))).await;
            assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
        };
        let sums = Totals::of(&sidecar, failed).await;
        assert!(sums.errors > 0.4 && sums.errors == sums.completions, "{version:?} {sums:?}");
        assert_eq!(sums.misses, 0.0);
    }))
    .await;
}

async fn grpc_status_of_a_failure_is_an_error_in_trailers_and_head() {
    join_all([("/grpc/0", 0.0), ("/grpc/5", 0.0), ("/grpc/14", 1.0), ("/grpc-head/14", 1.0)].map(
        async |(path, share)| {
            let app = TestApp::start().await;
            let sidecar = Sidecar::start(app.address, &[]).await;
            let call = async {
                let response = within(send(sidecar.at.traffic, versioned(path, Version::HTTP_2))).await;
                assert_eq!(response.status(), StatusCode::OK);
                let has_status = |headers: &http::HeaderMap| headers.contains_key("grpc-status");
                let in_head = has_status(response.headers());
                let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap();
                assert_ne!(body.trailers().is_some_and(has_status), in_head, "{path}");
                assert_eq!(in_head, path.starts_with("/grpc-head"), "{path}");
            };
            let sums = Totals::of(&sidecar, call).await;
            assert!(sums.completions > 0.4, "{path} {sums:?}");
            assert_eq!((sums.errors, sums.misses), (share * sums.completions, 0.0), "{path}");
        },
    ))
    .await;
}

async fn incomplete_response_of_the_app_is_an_error() {
    let app = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let sidecar = Sidecar::start(app.local_addr().unwrap(), &[]).await;
    let serve = async {
        // Connections without bytes are readiness probes of the sidecar.
        loop {
            let (mut connection, _) = app.accept().await.unwrap();
            if connection.read(&mut [0; 1024]).await.unwrap() > 0 {
                connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nx").await.unwrap();
            }
        }
    };
    let cut = async {
        let response = within(sidecar.get("/")).await;
        assert_eq!(response.status(), StatusCode::OK);
        http_body_util::BodyExt::collect(response.into_body()).await.unwrap_err();
    };
    let sums = tokio::select! {
        () = serve => unreachable!(),
        sums = Totals::of(&sidecar, cut) => sums,
    };
    assert!(sums.errors > 0.4 && sums.errors == sums.completions, "{sums:?}");
}

async fn response_cut_at_a_timeout_is_an_error_unless_the_client_stalls() {
    join_all([("/slow-body", true), ("/endless", false)].map(async |(path, is_read)| {
        let app = TestApp::start().await;
        let sidecar = Sidecar::start(app.address, &["--timeout=1s"]).await;
        let cut = async {
            let mut client = TcpStream::connect(sidecar.at.traffic).await.unwrap();
            let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n");
            client.write_all(head.as_bytes()).await.unwrap();
            sidecar.holds(1.0, 0.0).await;
            if is_read {
                let _ = within(client.read_to_end(&mut Vec::new())).await;
            }
            sidecar.holds(0.0, 0.0).await;
        };
        let sums = Totals::of(&sidecar, cut).await;
        let expected = if is_read { sums.completions } else { 0.0 };
        assert!(sums.completions > 0.4 && sums.errors == expected, "{path} {sums:?}");
        assert_eq!((sums.misses, sums.seconds > 0.0), (0.0, is_read), "{path}");
    }))
    .await;
}

async fn tunnels_and_rejected_requests_are_no_ends() {
    let app = TestApp::start().await;
    let sidecar = Sidecar::start(app.address, &["--container-concurrency=1", "--queue-depth=0"]).await;
    let requests = async {
        let mut upgrade = request("/upgrade");
        upgrade.headers_mut().insert("connection", "Upgrade".parse().unwrap());
        upgrade.headers_mut().insert("upgrade", "echo".parse().unwrap());
        let mut response = within(send(sidecar.at.traffic, upgrade)).await;
        let tunnel = within(hyper::upgrade::on(&mut response)).await.unwrap();
        let rejected = within(sidecar.get("/")).await;
        assert_eq!(rejected.status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(tunnel);
        sidecar.holds(0.0, 0.0).await;
    };
    let sums = Totals::of(&sidecar, requests).await;
    assert_eq!((sums.completions, sums.seconds, sums.errors), (0.0, 0.0, 0.0));
}
