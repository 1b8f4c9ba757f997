//! Tests that need nodes in several zones: `make test-nodes`.

mod drain;
mod near_pods;
mod node_loss;
mod silent_kubelet;
mod topology;
