//! Watches an annotation of Leases: what parts publish that cannot reach each other.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use tokio::sync::watch;

use super::decoded::Decoded;
use super::object_watch::{DecodeErrors, logged, watch_objects};
use super::peers::follow_members;

/// The parsed `annotation` of each Lease with these labels that has it, by the Lease's name, and
/// the future that updates them; spawn it.
///
/// `None` until the first list is complete. The future ends when the receiver is dropped.
pub fn watch_lease_annotation<T: Send + Sync + 'static>(
    client: Client,
    namespace: &str,
    labels: &str,
    annotation: &'static str,
    parse: fn(&str) -> T,
    errors: &DecodeErrors,
) -> (watch::Receiver<Option<BTreeMap<String, T>>>, impl Future<Output = ()> + Send + use<T>) {
    let (sender, receiver) = watch::channel(None);
    let api = Api::<Decoded<Lease>>::namespaced(client, namespace);
    let config = watcher::Config::default().labels(labels);
    let events = logged(watch_objects(api, config, errors.of(&Lease::kind(&()))), format!("Leases {labels}"));
    let annotated = move |lease: &Lease| {
        let text = lease.annotations().get(annotation).cloned();
        text.map(|text| (lease.name_any(), text)).into_iter().collect()
    };
    let follow = async move {
        let publish = |texts: BTreeSet<(String, String)>| {
            let parsed = texts.into_iter().map(|(name, text)| (name, parse(&text)));
            sender.send_replace(Some(parsed.collect()));
        };
        follow_members(events, annotated, publish, sender.closed()).await;
    };
    (receiver, follow)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fake_api::FakeApi;
    use prometheus::Registry;
    use serde_json::json;

    use super::*;

    fn path(name: &str) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/system/leases/{name}")
    }

    #[tokio::test(start_paused = true)]
    async fn follows_annotation_of_labelled_leases_from_the_first_list_on() {
        let (api, errors) = (FakeApi::default(), DecodeErrors::register(&Registry::new(), "test").unwrap());
        let put = |name: &str, label: &str, text: &str| {
            let metadata = json!({"labels": {"app": label}, "annotations": {"numbers": text}});
            api.put(&path(name), json!({"metadata": metadata}));
        };
        put("leader", "other", "1");
        put("a", "ours", "7");
        let parse: fn(&str) -> usize = str::len;
        let (mut receiver, follow) =
            watch_lease_annotation(api.client(), "system", "app=ours", "numbers", parse, &errors);
        assert_eq!(*receiver.borrow(), None, "nothing was listed");
        tokio::spawn(follow);
        let mut until = async |expected: &[(&str, usize)]| {
            let expected = expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            let reached = receiver.wait_for(|current| current.as_ref() == Some(&expected));
            tokio::time::timeout(Duration::from_secs(60), reached).await.unwrap().unwrap();
        };
        until(&[("a", 1)]).await;
        put("b", "ours", "123");
        until(&[("a", 1), ("b", 3)]).await;
        put("b", "ours", "12");
        api.remove(&path("a"));
        until(&[("b", 2)]).await;
    }
}
