//! Case: one row of the HTTP/1 table. What the caller sends and gets back, what the app does and sees.
//!
//! A row reads from top to bottom in the order of events. What it does not say is as usual: the app answers each request
//! with 200 and `ok`, and the connection can be used again afterwards, which the runner tries.

/// A row.
#[derive(Clone, Debug)]
pub struct Case {
    /// A sentence that is true of both proxies.
    pub name: &'static str,
    /// Where it is written: an RFC's section, or what users suffered.
    pub source: &'static str,
    /// What the caller does.
    pub caller: Vec<Step>,
    /// What the app does on the first connection that brings it anything.
    pub app: Vec<Act>,
    /// The requests that the app sees, in order.
    pub sees: Vec<Seen>,
    /// A request that it sees or does not, depending on how early the proxy gives it up.
    pub may_see: Option<String>,
    /// What becomes of the caller's connection.
    pub after: After,
    /// The proxy gives callers next to no time for their heads.
    pub hurry: bool,
}

/// Something the caller does or awaits.
#[derive(Clone, Debug)]
pub enum Step {
    /// Sends bytes.
    Sends(Vec<u8>),
    /// Gets a response.
    Gets(Answer),
    /// Gets these bytes and no HTTP.
    GetsBytes(Vec<u8>),
    /// Waits until the app has seen so many requests.
    AwaitsApp(usize),
    /// Waits until the proxy has taken notice of all that happened on its connections.
    AwaitsProxy,
    /// Closes its direction.
    Finishes,
    /// Goes away.
    HangsUp,
    /// Does nothing for longer than a head may take with a proxy in a hurry.
    Rests,
}

/// Something the app does on a connection.
#[derive(Clone, Debug)]
pub enum Act {
    /// Reads a request with its body.
    Reads,
    /// Reads the head of a request and leaves the body for later.
    ReadsHead,
    /// Sends bytes.
    Sends(Vec<u8>),
    /// Reads these bytes and no HTTP.
    ReadsBytes(Vec<u8>),
    /// Expects the end of the connection.
    EndsHere,
    /// Closes its direction and reads on to the end.
    Finishes,
    /// Does nothing for longer than a head may take with a proxy in a hurry.
    Rests,
    /// Closes the connection.
    Closes,
    /// Resets the connection.
    Resets,
}

/// A response as it must be.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub(crate) status: u16,
    pub(crate) start: Option<&'static str>,
    pub(crate) with: Vec<&'static str>,
    pub(crate) without: Vec<&'static str>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) trailers: Vec<&'static str>,
    pub(crate) cut: bool,
    pub(crate) to_head: bool,
    pub(crate) kind: Kind,
}

/// Whose answer it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    #[default]
    App,
    /// The proxy's, with a problem document.
    Problem,
    /// The proxy's, which may be too early for a document.
    Refusal,
}

/// A request as the app must see it.
///
/// Its text is the start line, the headers in order of name, an empty line and the body, then an empty line and trailers.
/// What every proxy adds is left out of it, and can be asked for by `with`. `{proxy}` stands for the proxy's address.
#[derive(Clone, Debug)]
pub struct Seen {
    pub(crate) text: String,
    pub(crate) with: Vec<&'static str>,
    pub(crate) without: Vec<&'static str>,
}

/// What becomes of the caller's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// Another request on it is answered, and reaches the app as it was sent.
    StaysOpen,
    /// It is closed, and nothing more comes on it.
    Closes,
    /// Neither can be asked: the caller hung up, or it is no HTTP connection any more.
    Over,
}

/// A row, yet without content.
pub fn case(name: &'static str, source: &'static str) -> Case {
    let (caller, app, sees) = (Vec::new(), Vec::new(), Vec::new());
    Case { name, source, caller, app, sees, may_see: None, after: After::StaysOpen, hurry: false }
}

/// The app's response.
pub fn answer(status: u16) -> Answer {
    Answer { status, ..Answer::default() }
}

/// What the app answers unless told otherwise.
pub fn ok() -> Answer {
    answer(200).body("ok")
}

/// An answer of the proxy's own.
pub fn problem(status: u16) -> Answer {
    Answer { status, kind: Kind::Problem, ..Answer::default() }
}

/// A request at the app.
pub fn seen(text: impl Into<String>) -> Seen {
    Seen { text: text.into(), with: Vec::new(), without: Vec::new() }
}

// === impl Case ===

impl Case {
    /// The caller sends.
    pub fn sends(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(Step::Sends(bytes.as_ref().to_vec()))
    }

    /// The caller gets a response.
    pub fn gets(self, answer: Answer) -> Self {
        self.step(Step::Gets(answer))
    }

    /// The caller gets bytes.
    pub fn gets_bytes(self, bytes: impl AsRef<[u8]>) -> Self {
        self.step(Step::GetsBytes(bytes.as_ref().to_vec()))
    }

    /// The caller does something else.
    pub fn step(mut self, step: Step) -> Self {
        self.caller.push(step);
        self
    }

    /// The app does.
    pub fn app(mut self, acts: impl IntoIterator<Item = Act>) -> Self {
        self.app.extend(acts);
        self
    }

    /// The app reads a request and sends this.
    pub fn app_answers(self, bytes: impl AsRef<[u8]>) -> Self {
        self.app([Act::Reads, Act::Sends(bytes.as_ref().to_vec())])
    }

    /// The app sees this request.
    pub fn app_sees(mut self, text: impl Into<String>) -> Self {
        self.sees.push(seen(text));
        self
    }

    /// The app sees this request.
    pub fn app_sees_just(mut self, seen: Seen) -> Self {
        self.sees.push(seen);
        self
    }

    /// The app may see this much of a request, or nothing at all.
    pub fn app_may_see(self, text: impl Into<String>) -> Self {
        Self { may_see: Some(text.into()), ..self }
    }

    /// The app sees this request, and the caller gets its answer.
    pub fn passes(self, text: impl Into<String>) -> Self {
        self.app_sees(text).gets(ok())
    }

    /// The proxy explains why not, and closes.
    pub fn is_refused(self, status: u16) -> Self {
        self.gets(problem(status)).then_closes()
    }

    /// The proxy answers before it knows what it would refuse, and closes.
    pub fn is_refused_by_the_parser(self, status: u16) -> Self {
        self.gets(Answer { status, kind: Kind::Refusal, ..Answer::default() }).then_closes()
    }

    /// The connection is closed afterwards.
    pub fn then_closes(self) -> Self {
        Self { after: After::Closes, ..self }
    }

    /// The connection is none of HTTP afterwards.
    pub fn then_is_over(self) -> Self {
        Self { after: After::Over, ..self }
    }

    /// With a proxy that gives callers next to no time for their heads.
    pub fn in_a_hurry(self) -> Self {
        Self { hurry: true, ..self }
    }
}

// === impl Answer ===

impl Answer {
    /// Its status line.
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

    /// Its body.
    pub fn body(mut self, body: impl AsRef<[u8]>) -> Self {
        self.body = Some(body.as_ref().to_vec());
        self
    }

    /// It ends with this trailer: `name: value`.
    pub fn trailer(mut self, field: &'static str) -> Self {
        self.trailers.push(field);
        self
    }

    /// It is cut, so that the caller can tell.
    pub fn cut(self) -> Self {
        Self { cut: true, ..self }
    }

    /// It answers HEAD, and has no body whatever it says.
    pub fn to_head(self) -> Self {
        Self { to_head: true, ..self }
    }
}

// === impl Seen ===

impl Seen {
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
