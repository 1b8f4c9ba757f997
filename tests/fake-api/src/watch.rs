//! A watch: the log from a resource version on, and then each change as it comes.

use std::convert::Infallible;

use bytes::Bytes;
use futures::{Stream, stream};
use http_body::Frame;
use serde_json::json;

use crate::FakeApi;
use crate::path::{Path, Query};

/// What a watch has to say next.
enum Next {
    Line(Bytes),
    Nothing,
    End,
}

/// One line of JSON a change. In an outage nothing comes; what happened meanwhile comes after it.
pub(crate) fn events(
    api: FakeApi,
    path: Path,
    query: Query,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send {
    let changes = api.changes.subscribe();
    let begun = api.lock().watches_broken;
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
    if state.watches_broken != begun {
        return Next::End;
    }
    if state.outage.is_some() || state.silenced.as_ref() == Some(&path.resource) {
        return Next::Nothing;
    }
    if query.since < state.forgotten {
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

/// What a real API server says when it has forgotten the version that a watch is to begin at.
fn gone() -> Bytes {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    });
    Bytes::from(format!("{}\n", json!({"type": "ERROR", "object": status})))
}
