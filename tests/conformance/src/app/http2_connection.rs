//! The app's side of an HTTP/2 connection: runs the row's actions, then responds to every request.

use tokio::net::TcpStream;

use crate::app_state::{AppState, ObservedRequest};
use crate::http2::case::Http2Action;
use crate::http2::frame::*;
use crate::http2::peer::{Http2Peer, StreamMessage};
use crate::wire::Wire;

/// The app's side of a connection.
pub(crate) async fn serve(mut wire: Wire<TcpStream>, shared: &AppState) {
    let _ = wire.take(PREFACE.len()).await;
    let mut peer = Http2Peer::of(wire);
    peer.send(&frame(SETTINGS, 0, 0, [])).await;
    if let Err(error) = run_actions(&mut peer, shared).await {
        let read_error = ObservedRequest { text: format!("[{error:#}]"), fields: Vec::new() };
        shared.record(read_error);
    }
}

async fn run_actions(peer: &mut Http2Peer, shared: &AppState) -> anyhow::Result<()> {
    let mut current = 0;
    for run_actions in shared.http2_actions() {
        match run_actions {
            Http2Action::Reads | Http2Action::ReadsHead => {
                let whole = matches!(run_actions, Http2Action::Reads);
                let Some(stream) = peer.request(shared, whole).await? else { return Ok(()) };
                current = stream;
            }
            Http2Action::Sends(frames) => {
                let frames: Vec<_> = frames.into_iter().map(|frame| frame.on(current)).collect();
                peer.send_all(&frames).await;
            }
            Http2Action::ExpectsReset => peer.expect_reset(current).await?,
            Http2Action::Stalls => std::future::pending().await,
            Http2Action::Closes => {
                peer.close().await;
                return Ok(());
            }
        }
    }
    while let Some(stream) = peer.request(shared, true).await? {
        let frames = [headers(stream, &[(":status", "200")]), data(stream, "ok").ending()];
        peer.send_all(&frames).await;
    }
    Ok(())
}

impl Http2Peer {
    /// Reads until the rest of a request is reset.
    async fn expect_reset(&mut self, stream: u32) -> anyhow::Result<()> {
        loop {
            let rest = self.streams.get(&stream);
            if rest.is_some_and(|rest| rest.reset.is_some()) {
                self.streams.remove(&stream);
                return Ok(());
            }
            anyhow::ensure!(!rest.is_some_and(|rest| rest.ended), "the request ended instead of its reset");
            anyhow::ensure!(self.read_frame().await?, "the connection ended instead of a reset");
        }
    }

    /// The next complete request, or the next head.
    async fn request(&mut self, shared: &AppState, whole: bool) -> anyhow::Result<Option<u32>> {
        loop {
            let come = |message: &StreamMessage| !message.fields.is_empty() && (message.ended || !whole);
            let over = |message: &StreamMessage| come(message) || message.reset.is_some();
            let next =
                self.streams.iter().filter(|(_, message)| over(message)).map(|(stream, _)| *stream).min();
            if let Some(stream) = next
                && let Some(message) = self.streams.remove(&stream)
            {
                if message.fields.is_empty() {
                    // Only the reset of a request whose response came before its end.
                    continue;
                }
                shared.record(observed_request(&message));
                if message.reset.is_none() {
                    return Ok(Some(stream));
                }
                continue;
            }
            if !self.read_frame().await? {
                return Ok(None);
            }
        }
    }
}

/// A request in the notation of the rows: like HTTP/1, with the authority as a header.
fn observed_request(message: &StreamMessage) -> ObservedRequest {
    let pseudo = |name: &str| {
        let field = message.fields.iter().find(|(field, _)| field == name);
        field.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let start = format!("{} {} HTTP/2", pseudo(":method"), pseudo(":path"));
    // Some client libraries send this for a request without a body.
    let no_body = |(name, value): &&(String, String)| name != "content-length" || value != "0";
    let fields: Vec<_> = message
        .fields
        .iter()
        .filter(no_body)
        .filter(|(name, _)| !matches!(name.as_str(), ":method" | ":path" | ":scheme"))
        .cloned()
        .collect();
    let mut body = message.body.clone();
    body.cut = message.reset.is_some();
    ObservedRequest::new(&start, &fields, &body)
}
