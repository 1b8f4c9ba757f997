//! Drives a real cluster the way a user and a stopwatch would: apply objects, send requests, watch what happens.
//!
//! The cluster is whatever KUBECONFIG says: the one of `tests/cluster`, or any other that has Rouse and its images. All
//! requests are sent by a client pod inside the cluster, which the tests reach through the API server, so nothing here
//! depends on where the tests run.
//!
//! Where a new test belongs: values in, values out → beside the code in its crate; tasks and connections → in the crate,
//! in memory; anything that needs the HPA, the kubelet or kube-proxy → here.

pub mod installation;
pub mod load;
pub mod metric;
pub mod namespace;
pub mod played_activator;
pub mod target;
pub mod timeline;
pub mod token;
pub mod wait;
pub mod workload;
