//! HTTP/2 as frames: the rows of the table, and peers that send whatever a row has.

pub mod case;
pub mod frame;
pub(crate) mod peer;

pub use self::case::{Http2Action, Http2Case, Http2Step, case};
pub use self::frame::*;
