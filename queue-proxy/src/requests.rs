//! The path of one HTTP request: from the client through the limit to the app, and back.

pub(crate) mod app_connections;
pub(crate) mod client_connection;
pub(crate) mod error_response;
mod forwarding;
pub(crate) mod handler;
pub(crate) mod uncounted_requests;
mod upgrade;
