//! Case: one row of the HTTP/1 table: what the client sends and receives, and what the app does and
//! receives.
//!
//! A row lists events in their order. By default the app responds to each request with 200 and
//! `ok`, and the connection stays usable, which the runner checks.

use crate::addresses::Addresses;

/// A row of HTTP/1.
#[derive(Clone, Debug)]
pub struct Case {
    /// A sentence that describes both proxies.
    pub name: &'static str,
    /// Source of the rule: the section of an RFC, or a problem of users.
    pub source: &'static str,
    /// Steps of the client.
    pub client: Vec<ClientStep>,
    /// Actions of the app on the first connection with bytes.
    pub app: Vec<AppAction>,
    /// Requests that the app receives, in order.
    pub receives: Vec<ExpectedRequest>,
    /// A request that the app may receive, depending on how early the proxy aborts it.
    pub may_receive: Option<String>,
    /// State of the client's connection afterwards.
    pub after: ConnectionAfter,
    /// The timeouts of the proxy.
    pub times: Times,
    /// Where the app and the client are.
    pub addresses: Addresses,
}

/// A step of the client: an action or an expectation.
#[derive(Clone, Debug)]
pub enum ClientStep {
    /// Sends bytes.
    Sends(Vec<u8>),
    /// Expects a response.
    Gets(ExpectedResponse),
    /// Expects these bytes, which are not HTTP.
    GetsBytes(Vec<u8>),
    /// Waits until the app has received so many requests.
    AwaitsApp(usize),
    /// Waits until the proxy has processed all events of its connections.
    AwaitsProxy,
    /// Closes its sending direction.
    ClosesWrite,
    /// Expects the end of what the proxy sends, and may go on to send.
    AwaitsEnd,
    /// Closes the connection.
    Disconnects,
    /// Resets the connection.
    Resets,
    /// Expects the reset of the connection.
    IsReset,
    /// Pauses for longer than the short header timeout.
    Pauses,
}

/// An action of the app on a connection.
#[derive(Clone, Debug)]
pub enum AppAction {
    /// Reads a request with its body.
    Reads,
    /// Reads the head of a request, but not its body.
    ReadsHead,
    /// Sends bytes.
    Sends(Vec<u8>),
    /// Expects these bytes, which are not HTTP.
    ReadsBytes(Vec<u8>),
    /// Expects the end of the connection.
    ExpectsEnd,
    /// Expects the reset of the connection.
    ExpectsReset,
    /// Closes its sending direction and continues to read.
    ClosesWrite,
    /// Pauses for longer than the short header timeout.
    Pauses,
    /// Reads and sends nothing more.
    Stalls,
    /// Closes the connection.
    Closes,
    /// Resets the connection.
    Resets,
}

/// A response that the client expects.
#[derive(Clone, Debug, Default)]
pub struct ExpectedResponse {
    pub(crate) status: u16,
    pub(crate) start: Option<&'static str>,
    pub(crate) with: Vec<&'static str>,
    pub(crate) without: Vec<&'static str>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) trailers: Vec<&'static str>,
    pub(crate) cut: bool,
    pub(crate) to_head: bool,
    pub(crate) kind: ResponseOrigin,
}

/// Origin of a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ResponseOrigin {
    #[default]
    App,
    /// The proxy, with a problem document.
    ProxyProblem,
    /// The proxy; its HTTP library may respond without a document.
    ProxyWithoutBody,
}

/// A request that the app must receive.
///
/// Its text is the start line, the headers in order of name, an empty line and the body, then an
/// empty line and the trailers. Headers that every proxy adds are omitted; `with` checks them.
/// `{proxy}` is replaced by the proxy's address.
#[derive(Clone, Debug)]
pub struct ExpectedRequest {
    pub(crate) text: String,
    pub(crate) with: Vec<&'static str>,
    pub(crate) without: Vec<&'static str>,
}

/// State of the client's connection after a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionAfter {
    /// The next request on it is served.
    StaysOpen,
    /// It is closed without further bytes.
    Closes,
    /// It is not checked: the client disconnected, or the connection does not carry HTTP any more.
    Over,
}

/// Timeouts of the proxy of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// As in a cluster.
    Default,
    /// A short header timeout.
    ShortHead,
    /// A short header timeout, and the same idle timeout.
    ShortHeadAndIdle,
}

/// A row without steps.
pub fn case(name: &'static str, source: &'static str) -> Case {
    let (client, app, receives) = (Vec::new(), Vec::new(), Vec::new());
    Case {
        name,
        source,
        client,
        app,
        receives,
        may_receive: None,
        after: ConnectionAfter::StaysOpen,
        times: Times::Default,
        addresses: Addresses::default(),
    }
}

/// A response of the app with this status.
pub fn response(status: u16) -> ExpectedResponse {
    ExpectedResponse { status, ..ExpectedResponse::default() }
}

/// The app's default response.
pub fn ok() -> ExpectedResponse {
    response(200).body("ok")
}

/// A problem document of the proxy.
pub fn problem(status: u16) -> ExpectedResponse {
    ExpectedResponse { status, kind: ResponseOrigin::ProxyProblem, ..ExpectedResponse::default() }
}

/// A request that the app receives.
pub fn observed(text: impl Into<String>) -> ExpectedRequest {
    ExpectedRequest { text: text.into(), with: Vec::new(), without: Vec::new() }
}

// === impl Case ===

impl Case {
    /// The client sends bytes.
    pub fn sends(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(ClientStep::Sends(bytes.as_ref().to_vec()))
    }

    /// The client expects a response.
    pub fn gets(self, response: ExpectedResponse) -> Self {
        self.step(ClientStep::Gets(response))
    }

    /// The client expects bytes.
    pub fn gets_bytes(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(ClientStep::GetsBytes(bytes.as_ref().to_vec()))
    }

    /// Adds a step of the client.
    pub fn step(mut self, step: ClientStep) -> Self {
        self.client.push(step);
        self
    }

    /// Adds actions of the app.
    pub fn app(mut self, actions: impl IntoIterator<Item = AppAction>) -> Self {
        self.app.extend(actions);
        self
    }

    /// The app reads a request and sends this.
    pub fn app_responds(self, bytes: impl AsRef<[u8]>) -> Self {
        self.app([AppAction::Reads, AppAction::Sends(bytes.as_ref().to_vec())])
    }

    /// The app receives this request.
    pub fn app_receives(mut self, text: impl Into<String>) -> Self {
        self.receives.push(observed(text));
        self
    }

    /// The app receives this request.
    pub fn app_receives_request(mut self, observed: ExpectedRequest) -> Self {
        self.receives.push(observed);
        self
    }

    /// The app may receive this part of a request, or nothing.
    pub fn app_may_receive(self, text: impl Into<String>) -> Self {
        Self { may_receive: Some(text.into()), ..self }
    }

    /// The app receives this request, and the client gets the default response.
    pub fn passes(self, text: impl Into<String>) -> Self {
        self.app_receives(text).gets(ok())
    }

    /// The proxy rejects the request with a problem document, and closes.
    pub fn is_rejected(self, status: u16) -> Self {
        self.gets(problem(status)).then_closes()
    }

    /// The proxy's HTTP library rejects the request, and closes.
    pub fn is_rejected_by_parser(self, status: u16) -> Self {
        self.gets_parser_rejection(status).then_closes()
    }

    /// The client expects a rejection by the proxy's HTTP library.
    pub fn gets_parser_rejection(self, status: u16) -> Self {
        self.gets(ExpectedResponse {
            status,
            kind: ResponseOrigin::ProxyWithoutBody,
            ..ExpectedResponse::default()
        })
    }

    /// The connection is closed afterwards.
    pub fn then_closes(self) -> Self {
        Self { after: ConnectionAfter::Closes, ..self }
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

// === impl ExpectedResponse ===

impl ExpectedResponse {
    /// Expects this status line.
    pub fn start(self, line: &'static str) -> Self {
        Self { start: Some(line), ..self }
    }

    /// It has this header: `name: value`.
    pub fn with(mut self, field: &'static str) -> Self {
        self.with.push(field);
        self
    }

    /// It has no header that begins like this: `name: ` or `name: value`.
    pub fn without(mut self, field: &'static str) -> Self {
        self.without.push(field);
        self
    }

    /// Expects this body.
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = Some(body.as_ref().to_vec());
        self
    }

    /// It ends with this trailer: `name: value`.
    pub fn trailer(mut self, field: &'static str) -> Self {
        self.trailers.push(field);
        self
    }

    /// It is cut, and visibly incomplete.
    pub fn cut(self) -> Self {
        Self { cut: true, ..self }
    }

    /// It responds to HEAD, and has no body whatever its length is.
    pub fn to_head(self) -> Self {
        Self { to_head: true, ..self }
    }
}

// === impl ExpectedRequest ===

impl ExpectedRequest {
    /// It has this header, of those that proxies add: `name: value`.
    pub fn with(mut self, field: &'static str) -> Self {
        self.with.push(field);
        self
    }

    /// It has no header that begins like this: `name: ` or `name: value`.
    pub fn without(mut self, field: &'static str) -> Self {
        self.without.push(field);
        self
    }
}
