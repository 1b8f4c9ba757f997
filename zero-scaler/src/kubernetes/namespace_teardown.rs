//! Our own end: the namespace of the installation is deleted, and soon nobody will hold requests.
//!
//! Kubernetes marks a namespace before it takes anything from it, and pods have their grace period; the account's token is
//! believed for some seconds longer. That is enough to wake who sleeps: from the mark on there counts as no activator,
//! nobody is put to zero, and Services lead to pods as soon as there are any. Whoever is taken away without a namespace's
//! deletion gets no such warning: docs/howto/uninstall.md has the order.

use futures::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::watch_object;
use kube::{Api, Client};

/// Calls `leave` once, when the namespace is marked as deleted. Never ends.
pub(crate) async fn follow(client: Client, namespace: String, leave: impl Fn() + Send) {
    let objects = watch_object(Api::<Namespace>::all(client), &namespace).default_backoff();
    pin_mut!(objects);
    let mut left = false;
    while let Some(object) = objects.next().await {
        match object {
            Ok(Some(object)) if object.metadata.deletion_timestamp.is_some() && !left => {
                tracing::warn!(%namespace, "our namespace is deleted: all that sleeps is woken");
                left = true;
                leave();
            }
            Ok(_) => {}
            Err(error) => tracing::debug!(%error, "watch of our namespace failed; it is tried again"),
        }
    }
}
