//! The path of one connection to an app that does not use HTTP.

mod probe_filter;
pub(crate) mod tcp_proxy;
