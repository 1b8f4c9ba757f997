//! Access to the Kubernetes API that several binaries share: client, discovery, watches, scale,
//! peers, leases.

mod accepted_settings;
mod api_resources;
mod client;
mod decoded;
pub mod lease;
mod lease_annotations;
mod namespace_watches;
mod object_watch;
mod own_account;
mod peers;
mod scale;
mod unix_time;
mod watch_backoff;
mod write_deadline;

pub use accepted_settings::{ObservedSettings, watch_settings};
pub use api_resources::{ApiResources, KindError};
pub use client::{ClientError, client};
pub use decoded::{Decoded, UndecodableObject};
pub use lease_annotations::watch_lease_annotation;
pub use namespace_watches::{NamespaceEvent, NamespaceWatches};
pub use object_watch::{DecodeErrorLog, DecodeErrors, logged, watch_object, watch_objects};
pub use own_account::{OwnAccountError, ensure_own_account};
pub use peers::{watch_members, watch_peers};
pub use scale::{
    ObjectScale, ObservedReplicas, ScaleFromZeroResult, ScaleSubresource, is_conflict, scale_from_zero,
    write_scale,
};
pub use unix_time::unix_time;
pub use watch_backoff::watch_revision;
