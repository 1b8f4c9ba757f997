//! The rows, by topic.
//!
//! `is_rejected_by_parser` means that the proxy's HTTP library may respond before the proxy's own
//! code runs. The status is then fixed, but a problem document is not required.

pub mod addresses;
pub mod bodies;
pub mod connections;
pub mod forwarding;
pub mod framing;
pub mod headers;
pub mod hop_by_hop;
pub mod http2;
pub mod request_line;
pub mod responses;
pub mod slow;
pub mod tcp;
pub mod uncounted;
pub mod upgrades;
