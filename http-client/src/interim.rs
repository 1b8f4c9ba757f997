//! Interim responses (1xx) on their way from a request that is sent to the one that is served.
//!
//! A proxy polls the exchange with the app in the task of the client's stream. So an interim
//! response that is received in a poll of that stream belongs to it, and needs no channel. Only
//! HTTP/2 passes them on; 101 is a response of its own.

use std::cell::RefCell;

use http::Response;

tokio::task_local! {
    static RECEIVED: RefCell<Vec<Response<()>>>;
}

/// Calls `poll`, and returns the interim responses that were received in it.
pub fn collect<T>(poll: impl FnOnce() -> T) -> (T, Vec<Response<()>>) {
    RECEIVED.sync_scope(RefCell::default(), || {
        let polled = poll();
        (polled, RECEIVED.with(RefCell::take))
    })
}

/// Passes on an interim response to the caller of [`collect`]; without one it is dropped.
pub fn receive(response: Response<()>) {
    let _ = RECEIVED.try_with(|received| received.borrow_mut().push(response));
}
