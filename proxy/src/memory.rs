//! Memory: one budget in bytes for the process, which its tenants share fairly.
//!
//! | module | decides |
//! |---|---|
//! | [`budget`] | which account may take how many bytes |
//! | [`descriptors`] | how large the budget may be, with the process's limit of open files |
//! | [`estimates`] | how many bytes a connection and a request take |
//! | [`limit`] | how large the budget is, from the container's memory limit |
//! | [`open_connections`] | which idle connection is closed when the budget is full |
//! | `upload_memory` | how many bytes the uploads of an HTTP/2 connection keep |

pub mod budget;
pub mod descriptors;
pub mod estimates;
pub mod limit;
pub mod open_connections;
pub(crate) mod upload_memory;
