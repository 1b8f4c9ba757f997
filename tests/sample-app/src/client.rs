//! The client: receives load commands over HTTP, and streams one line of JSON for each request. A
//! disconnect ends the load.

use std::convert::Infallible;
use std::net::Ipv4Addr;

use anyhow::Result;
use bytes::Bytes;
use futures::StreamExt;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Incoming;
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
    let stop = runtime::shutdown::on_signal()?;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, args.port)).await?;
    let service = |request: Request<Incoming>, _: &_| std::future::ready(Ok(respond(&request)));
    server::serve(listener, service, ServerOptions::default(), stop).await;
    Ok(())
}

fn respond(request: &Request<Incoming>) -> Response<BoxBody<Bytes, Infallible>> {
    if request.uri().path() != "/send" {
        return error_response(StatusCode::NOT_FOUND, "the only path is /send");
    }
    let command = LoadCommand::from_query(request.uri().query().unwrap_or_default());
    match command.and_then(send::start) {
        Ok(results) => {
            let lines =
                futures::stream::unfold(results, async |mut results| Some((results.recv().await?, results)));
            let frames = lines.filter_map(async |result| {
                let mut line = serde_json::to_vec(&result).ok()?;
                line.push(b'\n');
                Some(Ok(Frame::data(Bytes::from(line))))
            });
            Response::new(BoxBody::new(StreamBody::new(frames)))
        }
        Err(error) => error_response(StatusCode::BAD_REQUEST, &format!("{error:#}")),
    }
}

fn error_response(status: StatusCode, text: &str) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{text}\n"))).boxed());
    *response.status_mut() = status;
    response
}
