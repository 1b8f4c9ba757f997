//! Tests on a cluster without Rouse, which they install in the documented ways and remove again:
//! `make test-install`.
//!
//! They run one after another, and each begins by checking that nothing of Rouse is on the cluster.

mod installed;
mod kustomize;
mod other_adapter;
mod release;
