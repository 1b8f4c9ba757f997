//! Http2Case: one row of the HTTP/2 table.

use super::frame::{Frame, code};
use crate::addresses::Addresses;
use crate::case::{ConnectionAfter, ExpectedRequest, ExpectedResponse, Times, observed};

/// A row of HTTP/2.
#[derive(Clone, Debug)]
pub struct Http2Case {
    /// A sentence that describes both proxies.
    pub name: &'static str,
    /// Source of the rule.
    pub source: &'static str,
    /// Steps of the client after the preface and its settings.
    pub client: Vec<Http2Step>,
    /// Actions of the app on the first connection with bytes.
    pub app: Vec<Http2Action>,
    /// Requests that the app receives, in order.
    pub receives: Vec<ExpectedRequest>,
    /// A request that the app may receive, depending on how early the proxy aborts it.
    pub may_receive: Option<String>,
    /// State of the client's connection afterwards.
    pub after: ConnectionAfter,
    /// Which requests the app receives is not checked.
    pub any_requests: bool,
    /// The timeouts of the proxy.
    pub times: Times,
    /// Where the app and the client are.
    pub addresses: Addresses,
}

/// A step of the client: an action or an expectation.
#[derive(Clone, Debug)]
pub enum Http2Step {
    /// Sends frames.
    Sends(Vec<Frame>),
    /// Sends a stream's body and its end within the flow-control window.
    Uploads(u32, Vec<u8>),
    /// Expects a response on a stream.
    Gets(u32, ExpectedResponse),
    /// Expects an interim response on a stream, with exactly these fields.
    GetsInterim(u32, Vec<(&'static str, &'static str)>),
    /// Expects the reset of a stream with this code, before its end or behind it.
    IsReset(u32, u32),
    /// Waits until a stream has ended, by itself or by a reset.
    AwaitsEnd(u32),
    /// Expects a reset of a stream, with any code, before its response has ended.
    IsCut(u32),
    /// Expects a reset of a stream or GOAWAY with this code (RFC 9113, 5.4.1 allows both).
    IsRejected(u32, u32),
    /// Expects GOAWAY with one of these codes.
    GetsGoaway(Vec<u32>),
    /// Does not reply to PING from now on.
    StopsPingReplies,
    /// Pauses for longer than the short header timeout.
    Pauses,
    /// Waits until the proxy has processed all events of its connections.
    AwaitsProxy,
    /// Waits until the app has received so many requests.
    AwaitsApp(usize),
}

/// An action of the app on a connection.
#[derive(Clone, Debug)]
pub enum Http2Action {
    /// Reads a request with its body.
    Reads,
    /// Reads the head of a request.
    ReadsHead,
    /// Sends frames; stream 1 is replaced by the stream of the last request.
    Sends(Vec<Frame>),
    /// Expects the reset of the last request, whose head was read.
    ExpectsReset,
    /// Reads nothing more, so the windows stay closed.
    Stalls,
    /// Closes the connection.
    Closes,
}

/// A row without steps.
pub fn case(name: &'static str, source: &'static str) -> Http2Case {
    let (client, app, receives) = (Vec::new(), Vec::new(), Vec::new());
    Http2Case {
        name,
        source,
        client,
        app,
        receives,
        may_receive: None,
        after: ConnectionAfter::StaysOpen,
        any_requests: false,
        times: Times::Default,
        addresses: Addresses::default(),
    }
}

// === impl Http2Case ===

impl Http2Case {
    /// The client sends frames.
    pub fn sends(self, frames: impl IntoIterator<Item = Frame>) -> Self {
        self.step(Http2Step::Sends(frames.into_iter().collect()))
    }

    /// The client sends the rest of a stream within the flow-control window.
    pub fn uploads(self, stream: u32, body: impl Into<Vec<u8>>) -> Self {
        self.step(Http2Step::Uploads(stream, body.into()))
    }

    /// The client expects a response.
    pub fn gets(self, stream: u32, response: ExpectedResponse) -> Self {
        self.step(Http2Step::Gets(stream, response))
    }

    /// The client expects an interim response.
    pub fn gets_interim(self, stream: u32, fields: &[(&'static str, &'static str)]) -> Self {
        self.step(Http2Step::GetsInterim(stream, fields.to_vec()))
    }

    /// The client expects `count` equal interim responses.
    pub fn gets_interims(self, stream: u32, count: usize, fields: &[(&'static str, &'static str)]) -> Self {
        (0..count).fold(self, |row, _| row.gets_interim(stream, fields))
    }

    /// A stream is reset, and the connection stays open.
    pub fn is_reset(self, stream: u32, code: u32) -> Self {
        self.step(Http2Step::IsReset(stream, code))
    }

    /// A stream is rejected as malformed; the connection may stay open.
    pub fn is_malformed(self, stream: u32) -> Self {
        self.is_rejected(stream, code::PROTOCOL_ERROR)
    }

    /// A stream is rejected; the connection may stay open.
    pub fn is_rejected(self, stream: u32, code: u32) -> Self {
        Self { after: ConnectionAfter::Over, ..self.step(Http2Step::IsRejected(stream, code)) }
    }

    /// The connection gets GOAWAY and is closed.
    pub fn gets_goaway(self, code: u32) -> Self {
        // The code is informational, so a general protocol error is accepted as well.
        let codes = vec![code, code::PROTOCOL_ERROR];
        Self { after: ConnectionAfter::Closes, ..self.step(Http2Step::GetsGoaway(codes)) }
    }

    /// Adds a step of the client.
    pub fn step(mut self, step: Http2Step) -> Self {
        self.client.push(step);
        self
    }

    /// Adds actions of the app.
    pub fn app(mut self, actions: impl IntoIterator<Item = Http2Action>) -> Self {
        self.app.extend(actions);
        self
    }

    /// The app reads a request and sends frames; stream 1 is replaced by the request's.
    pub fn app_responds(self, frames: impl IntoIterator<Item = Frame>) -> Self {
        self.app([Http2Action::Reads, Http2Action::Sends(frames.into_iter().collect())])
    }

    /// The app receives this request.
    pub fn app_receives(mut self, text: impl Into<String>) -> Self {
        self.receives.push(observed(text));
        self
    }

    /// The app may receive this part of a request, or nothing.
    pub fn app_may_receive(self, text: impl Into<String>) -> Self {
        Self { may_receive: Some(text.into()), ..self }
    }

    /// The app receives this request.
    pub fn app_receives_request(mut self, observed: ExpectedRequest) -> Self {
        self.receives.push(observed);
        self
    }

    /// The connection is closed afterwards.
    pub fn then_closes(self) -> Self {
        Self { after: ConnectionAfter::Closes, ..self }
    }

    /// The app may receive any valid requests.
    pub fn app_receives_any(self) -> Self {
        Self { any_requests: true, ..self }
    }

    /// The connection does not carry HTTP afterwards.
    pub fn then_not_http(self) -> Self {
        Self { after: ConnectionAfter::Over, ..self }
    }

    /// Runs the row with an app and a client elsewhere.
    pub fn at(self, addresses: Addresses) -> Self {
        Self { addresses, ..self }
    }

    /// Runs the row with a short header timeout, and the same idle timeout.
    pub fn with_short_header_timeout(self) -> Self {
        Self { times: Times::ShortHeadAndIdle, ..self }
    }

    /// Runs the row with a short header timeout, and the idle timeout of all rows.
    pub fn with_short_head(self) -> Self {
        Self { times: Times::ShortHead, ..self }
    }
}
