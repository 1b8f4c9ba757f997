//! The client: receives commands over HTTP. `/send` sends a load and streams one line of JSON for
//! each request; `/attack` attacks a port and returns one line at the end. A disconnect ends both.

use std::convert::Infallible;
use std::net::Ipv4Addr;

use anyhow::Result;
use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use hostile::AttackCommand;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use proxy::incoming_body::IncomingBody;
use proxy::server::{self, ServerOptions};
use tokio::net::TcpListener;

use crate::load_command::LoadCommand;
use crate::send;

/// Arguments of the client.
#[derive(clap::Args, Debug)]
pub(crate) struct ClientArgs {
    /// Port for commands
    #[arg(long, default_value_t = 8081)]
    port: u16,
}

/// Serves until a termination signal.
pub(crate) async fn run(args: ClientArgs) -> Result<()> {
    let stop = component_base::shutdown::on_signal()?;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, args.port)).await?;
    let service = |request: Request<IncomingBody>, _: &_| std::future::ready(Ok(respond(&request)));
    server::serve(listener, service, ServerOptions::default(), stop).await;
    Ok(())
}

fn respond(request: &Request<IncomingBody>) -> Response<BoxBody<Bytes, Infallible>> {
    let query = request.uri().query().unwrap_or_default();
    let response = match request.uri().path() {
        "/send" => send(query),
        "/attack" => attack(query),
        _ => return error_response(StatusCode::NOT_FOUND, "the only paths are /send and /attack"),
    };
    response.unwrap_or_else(|error| error_response(StatusCode::BAD_REQUEST, &format!("{error:#}")))
}

fn send(query: &str) -> Result<Response<BoxBody<Bytes, Infallible>>> {
    let results = send::start(LoadCommand::from_query(query)?)?;
    let results = stream::unfold(results, async |mut results| Some((results.recv().await?, results)));
    Ok(lines(results.filter_map(async |result| serde_json::to_string(&result).ok())))
}

fn attack(query: &str) -> Result<Response<BoxBody<Bytes, Infallible>>> {
    let command = AttackCommand::from_query(query)?;
    let report = stream::once(async move {
        match hostile::run(command).await {
            Ok(report) => serde_json::to_string(&report).unwrap_or_default(),
            Err(error) => format!("{error:#}"),
        }
    });
    // An empty line at once, so that the caller gets the head before the end.
    Ok(lines(stream::iter([String::new()]).chain(report)))
}

fn lines(lines: impl Stream<Item = String> + Send + Sync + 'static) -> Response<BoxBody<Bytes, Infallible>> {
    let frames = lines.map(|line| Ok(Frame::data(Bytes::from(line + "\n"))));
    Response::new(BoxBody::new(StreamBody::new(frames)))
}

fn error_response(status: StatusCode, text: &str) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{text}\n"))).boxed());
    *response.status_mut() = status;
    response
}
