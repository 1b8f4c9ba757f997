//! All settings, each declared beside the group of [`Settings`](crate::settings::Settings) that has
//! its field.
//!
//! A group is a file with the declarations, a struct with a field for each, and its `read`, which
//! both the ConfigMap and the annotations of a workload go through. A new setting changes one of
//! these files, and `deploy/config-autoscaler.yaml` if it has a key.

pub(super) mod learning;
pub(super) mod pods;
pub(super) mod scale;
pub(super) mod target;
pub(super) mod timeouts;
pub(super) mod wake;
pub(super) mod window;
pub(super) mod zero;
