//! Watches: the log from a resource version on, and then each change as it happens.

use std::convert::Infallible;

use bytes::Bytes;
use futures::{Stream, stream};
use http_body::Frame;
use serde_json::json;

use crate::api::FakeApi;
use crate::path::{Path, Query};

/// The next step of a watch.
enum Next {
    Line(Bytes),
    Nothing,
    End,
}

/// One line of JSON for each change. An outage delays them.
pub(crate) fn events(
    api: FakeApi,
    path: Path,
    query: Query,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
    let changes = api.changes.subscribe();
    let begun = api.lock().watch_generation;
    stream::unfold((api, path, query, changes), move |(api, path, mut query, mut changes)| async move {
        loop {
            changes.borrow_and_update();
            match next(&api, &path, &mut query, begun) {
                Next::Line(line) => return Some((Ok(Frame::data(line)), (api, path, query, changes))),
                Next::Nothing => changes.changed().await.ok()?,
                Next::End => return None,
            }
        }
    })
}

fn next(api: &FakeApi, path: &Path, query: &mut Query, begun: usize) -> Next {
    let state = api.lock();
    if state.watch_generation != begun {
        return Next::End;
    }
    if state.outage.is_some() || state.paused_watch.as_ref() == Some(&path.resource) {
        return Next::Nothing;
    }
    if query.since < state.oldest_version {
        query.since = usize::MAX;
        return Next::Line(gone());
    }
    while let Some(change) = state.store.log().get(query.since) {
        query.since += 1;
        if path.holds(&change.id) && query.wants(&change.id, &change.object) {
            let event = json!({"type": change.kind, "object": change.object.as_ref()});
            return Next::Line(Bytes::from(format!("{event}\n")));
        }
    }
    Next::Nothing
}

/// The event of a real API server for a version that is too old for a watch.
fn gone() -> Bytes {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    Bytes::from(format!("{}\n", json!({"type": "ERROR", "object": status})))
}
