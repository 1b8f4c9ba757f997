//! A Kubernetes API server in memory: objects, resource versions, conflicts, server-side apply, the
//! subresources `status` and `scale`, watches and outages.
//!
//! For tests of code that uses a [`kube::Client`], also on a paused clock: there is no socket
//! unless another process needs one ([`FakeApi::serve`]). Objects have no schema. A test can
//! compute the response to the creation of an object, as for reviews. What a real API server does
//! besides (validation, admission, garbage collection) needs a test on a cluster.

mod api;
mod merge;
mod path;
mod serve;
mod service;
mod store;
mod watch;

pub use api::{FakeApi, Outage};
pub use serve::{Protocols, kubeconfig};
