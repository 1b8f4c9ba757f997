//! AppState: the actions of the test app that are left, and the requests that it received.

use std::collections::BTreeSet;
use std::net::IpAddr;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::case::AppAction;
use crate::http2::case::Http2Action;
use crate::wire::{Body, Head, ReadError, latin1};

/// Headers that proxies add to every request. The text of a request omits them.
const ADDED: [&str; 3] = ["x-forwarded-for", "x-forwarded-proto", "rouse-proxied"];

/// A request that the app received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedRequest {
    /// In the notation of the rows.
    pub text: String,
    /// All headers, including those that the text omits.
    pub fields: Vec<(String, String)>,
}

/// Shared by all connections of the app.
#[derive(Debug)]
pub(crate) struct AppState {
    pub(crate) actions: Mutex<Vec<AppAction>>,
    pub(crate) http2: Mutex<Vec<Http2Action>>,
    pub(crate) observed: watch::Sender<Vec<ObservedRequest>>,
    pub(crate) clients: Mutex<BTreeSet<IpAddr>>,
}

// === impl AppState ===

impl AppState {
    pub(crate) fn record(&self, observed_request: ObservedRequest) {
        self.observed.send_modify(|observed| observed.push(observed_request));
    }

    /// Takes the actions for the first HTTP/1 connection with bytes.
    pub(crate) fn take_actions(&self) -> Vec<AppAction> {
        std::mem::take(&mut *self.actions.lock())
    }

    /// Takes the actions for the first HTTP/2 connection.
    pub(crate) fn http2_actions(&self) -> Vec<Http2Action> {
        std::mem::take(&mut *self.http2.lock())
    }
}

// === impl ObservedRequest ===

impl ObservedRequest {
    pub(crate) fn of(head: &Head, body: Option<&Body>) -> Self {
        let unread = Body { bytes: b"[unread]".to_vec(), ..Body::default() };
        Self::new(&head.start, &head.fields, body.unwrap_or(&unread))
    }

    pub(crate) fn new(start: &str, fields: &[(String, String)], body: &Body) -> Self {
        let mut lines = lines(fields.iter().filter(|(name, _)| !ADDED.contains(&name.as_str())));
        lines.insert(0, start.to_owned());
        let mut text = lines.join("\n");
        let cut = if body.cut { "[cut]" } else { "" };
        if !body.bytes.is_empty() || body.cut {
            text = format!("{text}\n\n{}{cut}", short(&body.bytes));
        }
        if !body.trailers.is_empty() {
            text = format!("{text}\n\n{}", self::lines(body.trailers.iter()).join("\n"));
        }
        Self { text, fields: fields.to_vec() }
    }

    pub(crate) fn read_error(why: &ReadError) -> Self {
        Self { text: format!("[{why}]"), fields: Vec::new() }
    }
}

fn lines<'a>(fields: impl Iterator<Item = &'a (String, String)>) -> Vec<String> {
    let mut fields: Vec<_> = fields.collect();
    // A stable sort by name keeps the order of one name's values, which has a meaning.
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    fields.into_iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

/// Abbreviates a long body of one repeated byte.
fn short(bytes: &[u8]) -> String {
    match bytes {
        [first, rest @ ..] if rest.len() >= 64 && rest.iter().all(|byte| byte == first) => {
            format!("[{} x {}]", bytes.len(), char::from(*first))
        }
        _ => latin1(bytes),
    }
}
