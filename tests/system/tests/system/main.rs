//! System tests on a real cluster with Rouse: `make test-system`, or by hand on the cluster of
//! KUBECONFIG.
//!
//! One binary, so that all tests share one lock of the cluster (`system_tests::cluster::lock`) and
//! can run on several threads: tests in `parallel` share the cluster, those in `serial` have it to
//! themselves. The test harness starts tests in alphabetical order, hence the parallel ones first.

mod observability;
mod parallel;
mod serial;
