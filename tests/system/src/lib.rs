//! The harness of the system tests, the demo and the soak run: applies objects to a real cluster,
//! sends requests, and records what happens.
//!
//! The cluster is the one of KUBECONFIG: started by `tests/cluster`, or any other that has Rouse
//! and its images. A client pod inside the cluster sends all requests, and the tests reach it
//! through the API server. Nothing here depends on the machine on which the tests run.
//!
//! Where a new test belongs: pure computation is tested beside the code in its crate; tasks and
//! connections in the crate, in memory; everything that needs the HPA, the kubelet or kube-proxy in
//! `tests/system/tests`.

pub mod cluster;
pub mod document_shell;
pub mod monitoring;
pub mod timeline;
pub mod traffic;
pub mod wait;
pub mod workloads;
