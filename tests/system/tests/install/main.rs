//! Tests on a cluster without Rouse, which they install in the documented ways and remove again:
//! `make test-install`, and `make test-keda` for those beside KEDA.
//!
//! They run one after another, and each begins by checking that nothing of Rouse is on the cluster.

mod beside_keda;
mod deletion_orders;
mod installed;
mod kustomize;
mod other_adapter;
mod readme;
mod release;
mod upgrade;
mod webhook;
