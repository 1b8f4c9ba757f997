//! Both ends of a relay, which are reset when it is dropped before its end.

use crate::client_stream::abort::Abort;

pub(super) struct Ends<'a, A: Abort, B: Abort> {
    pub(super) client: &'a mut A,
    pub(super) app: &'a mut B,
    /// Whether the drop resets them.
    pub(super) must_abort: bool,
}

// === impl Ends ===

impl<A: Abort, B: Abort> Drop for Ends<'_, A, B> {
    fn drop(&mut self) {
        if self.must_abort {
            self.client.abort();
            self.app.abort();
        }
    }
}
