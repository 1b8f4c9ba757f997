//! Types that threads of the proxies share, in every order of the threads' steps.
//!
//! The files of `proxy` are compiled as they are, with the atomics, locks and clock of `sync`,
//! which are loom's. A model runs a few threads in each order that the memory model permits, stale
//! loads of relaxed atomics included. It fails if one order violates its assertion or blocks for
//! ever.
//!
//! Not explored: reference counts (`Arc` is std's), and the tasks that use these types.

mod sync;

#[path = "../../../../proxy/src/memory"]
pub mod memory {
    pub mod budget;
    pub mod open_connections;
}

#[path = "../../../../proxy/src/server/http2"]
pub mod http2 {
    mod ready_list;
    // The list is visible to its siblings alone.
    #[path = "../../../../tests/simulator/threads/src/woken_streams.rs"]
    pub mod woken_streams;
}

pub use sync::{Instant, set_time};
