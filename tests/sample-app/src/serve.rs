//! The app: answers every request 200, after as long as it is asked to take.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::Result;
use bytes::Bytes;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use proxy::server::{self, ServerOptions};
use tokio::net::TcpListener;

/// Names the pod that answered.
pub(crate) const POD_HEADER: &str = "sample-app-pod";
/// Tells when this process began, in Unix milliseconds.
pub(crate) const STARTED_HEADER: &str = "sample-app-started";
/// Longest work that a request may ask for.
const LONGEST_WORK: Duration = Duration::from_secs(600);

/// How to serve.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Port to listen on.
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Milliseconds that a request takes which does not say.
    #[arg(long, default_value_t = 0)]
    work_ms: u64,
    /// Milliseconds before the app listens, as a slow start would take.
    #[arg(long, default_value_t = 0)]
    start_delay_ms: u64,
}

/// Serves until a signal comes.
pub(crate) async fn run(args: Args) -> Result<()> {
    let started = HeaderValue::from(runtime::clock::unix_millis());
    let stop = runtime::shutdown::on_signal()?;
    // Stopped in mid-start, it leaves through the same door: the listener ends at once.
    let _ = stop.run_until_cancelled(tokio::time::sleep(Duration::from_millis(args.start_delay_ms))).await;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, args.port)).await?;
    let pod = std::env::var("HOSTNAME").unwrap_or_default();
    let name = HeaderValue::from_str(&pod)?;
    let answer: Bytes = format!("hello from {pod}\n").into();
    let usual = Duration::from_millis(args.work_ms);
    let service = move |request: Request<Incoming>, _: &_| {
        let (name, started, answer) = (name.clone(), started.clone(), answer.clone());
        async move {
            let work = asked(request.uri().query()).unwrap_or(usual);
            // The body is read to its end first, as an app would.
            let mut body = request.into_body();
            while let Some(Ok(_)) = body.frame().await {}
            tokio::time::sleep(work.min(LONGEST_WORK)).await;
            let mut response = Response::new(Full::new(answer));
            response.headers_mut().insert(POD_HEADER, name);
            response.headers_mut().insert(STARTED_HEADER, started);
            Ok::<_, Infallible>(response)
        }
    };
    server::serve(listener, service, ServerOptions::default(), stop).await;
    Ok(())
}

fn asked(query: Option<&str>) -> Option<Duration> {
    let milliseconds = query?.split('&').find_map(|pair| pair.strip_prefix("work="))?;
    Some(Duration::from_millis(milliseconds.parse().ok()?))
}
