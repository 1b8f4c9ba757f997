//! A watch: the log from a resource version on, and then each change as it comes.

use std::convert::Infallible;

use bytes::Bytes;
use futures::{Stream, stream};
use http_body::Frame;
use serde_json::json;

use crate::FakeApi;
use crate::path::{Path, Query};

/// One line of JSON a change. In an outage nothing comes; what happened meanwhile comes after it.
pub(crate) fn events(
    api: FakeApi,
    path: Path,
    query: Query,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
    let changes = api.changes.subscribe();
    stream::unfold((api, path, query, changes), |(api, path, mut query, mut changes)| async move {
        loop {
            changes.borrow_and_update();
            if let Some(line) = next(&api, &path, &mut query) {
                return Some((Ok(Frame::data(line)), (api, path, query, changes)));
            }
            changes.changed().await.ok()?;
        }
    })
}

fn next(api: &FakeApi, path: &Path, query: &mut Query) -> Option<Bytes> {
    let state = api.lock();
    if state.outage.is_some() {
        return None;
    }
    let wanted = |name: &str| query.name.as_deref().is_none_or(|wanted| wanted == name);
    while let Some(change) = state.store.log().get(query.since) {
        query.since += 1;
        if change.collection == path.collection && wanted(&change.name) {
            return Some(Bytes::from(format!("{}\n", json!({"type": change.kind, "object": change.object}))));
        }
    }
    None
}
