//! What is left of a request whose connection switched protocols (a websocket, mostly).
//!
//! It counts, and holds its place on the app, until either side has closed it: such a caller keeps the app busy as any
//! other. Of the timeouts only silence holds for it: how long it may last is the matter of who speaks over it. A stop leaves
//! it alone, for a drain has waited for it.

use std::io;
use std::time::Duration;

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;

use crate::relay::{Relay, Silences};
use crate::upstream::Switched;

/// Carries both ways until either end fails, both have finished, or nothing passes for as long as `idle`; then lets go of
/// `request`.
pub async fn carry<G>(caller: OnUpgrade, mut app: Switched, request: G, idle: Option<Duration>) {
    let carried = async {
        let mut caller = TokioIo::new(caller.await.map_err(io::Error::other)?);
        let silences = Silences::only(idle);
        let relay = Relay { silences, counted: Some(()), count: || (), stop: CancellationToken::new() };
        relay.carry(&mut caller, &mut app).await
    };
    if let Err(error) = carried.await {
        tracing::debug!(%error, "upgraded connection ended");
    }
    drop(request);
}
