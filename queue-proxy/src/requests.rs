//! The path of one HTTP request: from the client through the limit to the app, and back.

pub(crate) mod app_connections;
pub(crate) mod error_response;
mod forwarding;
mod grpc_status;
pub(crate) mod handler;
pub(crate) mod request_body;
mod response_body;
mod timeout_list;
pub(crate) mod timeouts;
