//! Takes orders over HTTP and answers with one JSON line a request, as they end. A caller that goes away ends its order.

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

use crate::order::Order;
use crate::send;

/// Where to listen.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Port for orders.
    #[arg(long, default_value_t = 8081)]
    port: u16,
}

/// Takes orders until a signal comes.
pub(crate) async fn run(args: Args) -> Result<()> {
    let stop = runtime::shutdown::on_signal()?;
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, args.port)).await?;
    let service = |request: Request<Incoming>, _: &_| std::future::ready(Ok(take(&request)));
    server::serve(listener, service, ServerOptions::default(), stop).await;
    Ok(())
}

fn take(request: &Request<Incoming>) -> Response<BoxBody<Bytes, Infallible>> {
    if request.uri().path() != "/send" {
        return refuse(StatusCode::NOT_FOUND, "there is /send");
    }
    let order = Order::from_query(request.uri().query().unwrap_or_default());
    match order.and_then(send::start) {
        Ok(answers) => {
            let lines =
                futures::stream::unfold(answers, async |mut answers| Some((answers.recv().await?, answers)));
            let frames = lines.filter_map(async |answer| {
                let mut line = serde_json::to_vec(&answer).ok()?;
                line.push(b'\n');
                Some(Ok(Frame::data(Bytes::from(line))))
            });
            Response::new(BoxBody::new(StreamBody::new(frames)))
        }
        Err(error) => refuse(StatusCode::BAD_REQUEST, &format!("{error:#}")),
    }
}

fn refuse(status: StatusCode, text: &str) -> Response<BoxBody<Bytes, Infallible>> {
    let mut response = Response::new(Full::new(Bytes::from(format!("{text}\n"))).boxed());
    *response.status_mut() = status;
    response
}
