//! The table.
//!
//! "Parser" in a row's outcome means that the proxy's HTTP library may answer before our own code sees a request: the
//! status is fixed, a problem document is not asked for.

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
pub mod upgrades;
