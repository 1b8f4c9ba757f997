//! Tests on a cluster without Rouse, which they install in the documented ways and remove again:
//! `make test-install`, and the targets behind it in the Makefile for those that take long.
//!
//! They run one after another, and each begins by checking that nothing of Rouse is on the cluster.

mod beside_keda;
mod deletion_orders;
mod field_owners;
mod firewall;
mod installed;
mod kustomize;
mod other_adapter;
mod platforms;
mod readme;
mod release;
mod restored_etcd;
mod upgrade;
mod webhook;
