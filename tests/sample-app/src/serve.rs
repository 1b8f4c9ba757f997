//! The app: responds to every request with 200, after the time and with as many bytes as the
//! request sets, to [calls of gRPC](crate::grpc), and as a [model server](crate::model). It sends
//! back what it receives on an upgraded connection. With a number of servers, further requests wait
//! for a free server in order of arrival, so that the pod has a known knee.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use proxy::incoming_body::IncomingBody;
use proxy::server::{self, ServerOptions};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use crate::request_cost::RequestCost;
use crate::{grpc, model};

/// Header with the name of the pod.
pub(crate) const POD_HEADER: HeaderName = HeaderName::from_static("sample-app-pod");
/// Header with the start of this process, in Unix milliseconds.
pub(crate) const STARTED_HEADER: HeaderName = HeaderName::from_static("sample-app-started");
/// Header with the number of requests that this process served when this one arrived, itself
/// included.
pub(crate) const CONCURRENT_HEADER: HeaderName = HeaderName::from_static("sample-app-concurrent");
/// Header with the microseconds without any request before this one.
pub(crate) const IDLE_HEADER: HeaderName = HeaderName::from_static("sample-app-idle");
/// Requests of this path are readiness probes, and not counted.
const HEALTH_PATH: &str = "/healthz";
/// Maximum size of a response body.
const LARGEST_BODY: usize = 16 << 20;
/// Bytes of a call that are sent back.
const LARGEST_MESSAGE: usize = 64 << 10;
/// Maximum time of a request.
const LONGEST_WORK: Duration = Duration::from_secs(600);

/// Arguments of the app.
#[derive(clap::Args, Debug)]
pub(crate) struct ServeArgs {
    /// Port to listen on
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Milliseconds for a request that sets no time
    #[arg(long, default_value_t = 0)]
    work_ms: u64,
    /// Milliseconds before the app listens, to simulate a slow start
    #[arg(long, default_value_t = 0)]
    start_delay_ms: u64,
    /// Requests that are served at a time; further ones wait. Without it there is no limit
    #[arg(long)]
    servers: Option<usize>,
    #[command(flatten)]
    cost: RequestCost,
}

/// Serves until a termination signal.
pub(crate) async fn run(args: ServeArgs) -> Result<()> {
    let started = HeaderValue::from(component_base::clock::unix_millis());
    let stop = component_base::shutdown::on_signal()?;
    // A signal during the delay ends the server right after its start.
    let _ = stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(args.start_delay_ms))).await;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, args.port)).await?;
    let pod = std::env::var("HOSTNAME").unwrap_or_default();
    let name = HeaderValue::from_str(&pod)?;
    let result: Bytes = format!("hello from {pod}\n").into();
    let servers = args.servers.unwrap_or(Semaphore::MAX_PERMITS).min(Semaphore::MAX_PERMITS);
    let servers = Arc::new(Semaphore::new(servers));
    let cost = args.cost;
    let default_work = Duration::from_millis(args.work_ms);
    let occupancy = Arc::new(Mutex::new(Occupancy::default()));
    let service = move |mut request: Request<IncomingBody>, _: &_| {
        let (name, started, result) = (name.clone(), started.clone(), result.clone());
        let (servers, occupancy) = (servers.clone(), occupancy.clone());
        async move {
            let running = (request.uri().path() != HEALTH_PATH).then(|| RunningRequest::count_in(occupancy));
            let query = request.uri().query();
            let work = parameter(query, "work").map_or(default_work, Duration::from_millis);
            let work = work.min(LONGEST_WORK);
            let tokens = model::is_request(request.uri())
                .then(|| (parameter(query, "tokens").unwrap_or(model::DEFAULT_TOKENS), work));
            let work = work_on(servers, work, cost);
            let result = parameter(query, "bytes").map_or(result, body_of);
            let mut headers = HeaderMap::from_iter([(POD_HEADER, name), (STARTED_HEADER, started)]);
            if let Some(running) = &running {
                running.add_headers(&mut headers);
            }
            let protocol = request.headers().get(UPGRADE).cloned();
            let body = if let Some(protocol) = &protocol {
                let connection = HeaderValue::from_static("upgrade");
                headers.extend([(CONNECTION, connection), (UPGRADE, protocol.clone())]);
                // haproxy refuses an upgrade to a websocket without it.
                let key =
                    request.headers().get(SEC_WEBSOCKET_KEY).map(|key| derive_accept_key(key.as_bytes()));
                headers.extend(key.and_then(|key| Some((SEC_WEBSOCKET_ACCEPT, key.try_into().ok()?))));
                tokio::spawn(echo(hyper::upgrade::on(&mut request), running));
                Full::default().boxed_unsync()
            } else if grpc::is_call(request.headers()) {
                grpc::add_headers(&mut headers);
                let message = read(request.into_body()).await;
                grpc::response(message, async move {
                    work.await;
                    drop(running);
                })
            } else if let Some((tokens, work)) = tokens {
                model::add_headers(&mut headers);
                read(request.into_body()).await;
                model::response(tokens, work, running)
            } else {
                // The body is read to its end first, as an app would.
                read(request.into_body()).await;
                work.await;
                drop(running);
                Full::new(result).boxed_unsync()
            };
            let mut response = Response::new(body);
            *response.headers_mut() = headers;
            if protocol.is_some() {
                *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
            }
            Ok::<_, Infallible>(response)
        }
    };
    server::serve(listener, service, ServerOptions::default(), stop).await;
    Ok(())
}

/// Reads a body to its end, and keeps its first bytes.
async fn read(mut body: IncomingBody) -> Bytes {
    let mut kept = BytesMut::new();
    while let Some(Ok(frame)) = body.frame().await {
        let data = frame.into_data().unwrap_or_default();
        kept.extend_from_slice(data.get(..LARGEST_MESSAGE.saturating_sub(kept.len())).unwrap_or(&data));
    }
    kept.freeze()
}

/// Sends back what is received, until the client closes.
async fn echo(connection: OnUpgrade, _running: Option<RunningRequest>) {
    // Fails when the client has left.
    let Ok(connection) = connection.await else { return };
    let (mut received, mut sent) = tokio::io::split(TokioIo::new(connection));
    let _ = tokio::io::copy(&mut received, &mut sent).await;
}

/// Takes one of the servers for this time, when one is free.
async fn work_on(servers: Arc<Semaphore>, work: Duration, cost: RequestCost) {
    // The semaphore is never closed.
    let _server = servers.acquire().await;
    let _memory = cost.allocate();
    tokio::time::sleep(work).await;
    cost.use_cpu();
}

/// The requests that run, and when the last one ended.
#[derive(Default)]
struct Occupancy {
    running: usize,
    last_end: Option<Instant>,
}

/// Counts a request until it is dropped, also when the client disconnects.
struct RunningRequest {
    occupancy: Arc<Mutex<Occupancy>>,
    /// Number of running requests at its arrival, itself included.
    concurrent: usize,
    /// Time without a request before it. `None` if another one ran, or none was before it.
    idle: Option<Duration>,
}

impl RunningRequest {
    fn count_in(occupancy: Arc<Mutex<Occupancy>>) -> Self {
        let (concurrent, idle) = {
            let mut occupancy = occupancy.lock();
            occupancy.running += 1;
            let last_end = occupancy.last_end.filter(|_| occupancy.running == 1);
            (occupancy.running, last_end.map(|at| at.elapsed()))
        };
        Self { occupancy, concurrent, idle }
    }

    fn add_headers(&self, headers: &mut HeaderMap) {
        headers.insert(CONCURRENT_HEADER, self.concurrent.into());
        if let Some(idle) = self.idle {
            let micros = u64::try_from(idle.as_micros()).unwrap_or(u64::MAX);
            headers.insert(IDLE_HEADER, micros.into());
        }
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let mut occupancy = self.occupancy.lock();
        occupancy.running -= 1;
        occupancy.last_end = Some(Instant::now());
    }
}

/// The value of `name=value` in a query string.
fn parameter<T: FromStr>(query: Option<&str>, name: &str) -> Option<T> {
    let mut pairs = query?.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name)?.1.parse().ok()
}

fn body_of(bytes: usize) -> Bytes {
    vec![b'x'; bytes.min(LARGEST_BODY)].into()
}
