//! The cases in which a proxy does not do what h2spec expects, each with the reason.

use crate::report::CaseId;

/// One case.
#[derive(Debug)]
pub(crate) struct Deviation {
    section: &'static str,
    case: &'static str,
    /// For readers of the list.
    _reason: &'static str,
}

impl Deviation {
    pub(crate) fn id(&self) -> CaseId {
        CaseId { section: self.section.to_owned(), case: self.case.to_owned() }
    }
}

/// Both proxies share one HTTP/2 server.
pub(crate) const QUEUE_PROXY: &[Deviation] = &[Deviation {
    section: "http2/3.5",
    case: "Sends invalid connection preface",
    _reason: "One port serves both versions of HTTP. A connection that does not begin with the \
              preface of HTTP/2 is HTTP/1.1, and gets 400 and a close instead of GOAWAY.",
}];
pub(crate) const ACTIVATOR: &[Deviation] = QUEUE_PROXY;
