//! NamespaceWatches: one watch for each namespace of a set that changes.
//!
//! For objects that are needed from a few namespaces only, such as the pods of workloads without a
//! sidecar: a watch of the whole cluster would send, and hold, every pod.
//!
//! - A namespace that joins the set is listed and watched by [`watch_objects`], with its events and
//!   its backoff. Until its `InitDone`, its objects are unknown, not absent.
//! - A namespace that leaves the set ends its watch. [`NamespaceEvent::Left`] follows, and no
//!   further event of the namespace: the consumer drops its objects.
//! - One that leaves and joins again between two polls keeps its watch.
//!
//! The consumer chooses the set, and bounds it by its workloads. No object is kept here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Debug;

use futures::StreamExt;
use futures::stream::{BoxStream, SelectAll};
use k8s_openapi::NamespaceResourceScope;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::{oneshot, watch};

use super::decoded::Decoded;
use super::object_watch::{DecodeErrors, logged, watch_objects};

/// Watches the objects of one kind in several namespaces.
pub struct NamespaceWatches<K: Resource> {
    client: Client,
    namespaces: watch::Receiver<BTreeSet<String>>,
    config: watcher::Config,
    errors: DecodeErrors,
    events: SelectAll<BoxStream<'static, NamespaceEvent<K>>>,
    /// Ends the watch of a namespace when dropped.
    running: BTreeMap<String, oneshot::Sender<()>>,
    /// Namespaces that left the set and were not reported yet.
    left: VecDeque<String>,
}

#[derive(Debug)]
pub enum NamespaceEvent<K> {
    /// An event of its watch. The first list ends with `InitDone`.
    Objects(String, Event<Decoded<K>>),
    /// It is no longer watched.
    Left(String),
}

// === impl NamespaceWatches ===

impl<K: Resource> Debug for NamespaceWatches<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamespaceWatches").field("running", &self.running.keys()).finish_non_exhaustive()
    }
}

impl<K> NamespaceWatches<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Send
        + Sync
        + 'static,
{
    /// Watches for the objects that `config` selects, in the newest set of `namespaces`.
    pub fn new(
        client: Client,
        mut namespaces: watch::Receiver<BTreeSet<String>>,
        config: watcher::Config,
        errors: DecodeErrors,
    ) -> Self {
        // The first set counts as a change.
        namespaces.mark_changed();
        Self {
            client,
            namespaces,
            config,
            errors,
            events: SelectAll::new(),
            running: BTreeMap::new(),
            left: VecDeque::new(),
        }
    }

    /// The next event; `None` once the sender of the namespaces is dropped. Can be cancelled
    /// without losing an event.
    pub async fn next(&mut self) -> Option<NamespaceEvent<K>> {
        loop {
            if let Some(namespace) = self.left.pop_front() {
                return Some(NamespaceEvent::Left(namespace));
            }
            tokio::select! {
                // A change first: events of a namespace that left are not delivered.
                biased;
                changed = self.namespaces.changed() => {
                    changed.ok()?;
                    self.update();
                }
                Some(event) = self.events.next() => return Some(event),
            }
        }
    }

    /// Begins and ends watches as the set requires.
    fn update(&mut self) {
        let namespaces = self.namespaces.borrow_and_update().clone();
        let ended = self.running.extract_if(.., |namespace, _| !namespaces.contains(namespace));
        self.left.extend(ended.map(|(namespace, _)| namespace));
        for namespace in namespaces {
            if !self.running.contains_key(&namespace) {
                let (running, end) = oneshot::channel();
                self.events.push(self.watch(&namespace).take_until(end).boxed());
                self.running.insert(namespace, running);
            }
        }
    }

    fn watch(&self, namespace: &str) -> BoxStream<'static, NamespaceEvent<K>> {
        let api = Api::<Decoded<K>>::namespaced(self.client.clone(), namespace);
        let kind = K::kind(&());
        let events = watch_objects(api, self.config.clone(), self.errors.of(&kind));
        let namespace = namespace.to_owned();
        let watched = format!("{kind} in {namespace}");
        logged(events, watched).map(move |event| NamespaceEvent::Objects(namespace.clone(), event)).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fake_api::FakeApi;
    use k8s_openapi::api::core::v1::Pod;
    use kube::ResourceExt;
    use prometheus::Registry;
    use serde_json::json;

    use super::*;

    /// The watches of a test, and the set that they follow.
    struct Fixture {
        api: FakeApi,
        namespaces: watch::Sender<BTreeSet<String>>,
        watches: NamespaceWatches<Pod>,
    }

    impl Fixture {
        fn new(namespaces: &[&str]) -> Self {
            let api = FakeApi::default();
            let (namespaces, receiver) = watch::channel(set(namespaces));
            let errors = DecodeErrors::register(&Registry::new(), "test").unwrap();
            let config = watcher::Config::default().labels("autoscaling.rouse.dev/inject!=true");
            let watches = NamespaceWatches::new(api.client(), receiver, config, errors);
            Self { api, namespaces, watches }
        }

        fn put(&self, namespace: &str, name: &str) {
            let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
            self.api.put(&path, json!({"metadata": {"name": name, "namespace": namespace}}));
        }

        async fn next(&mut self) -> String {
            match tokio::time::timeout(Duration::from_secs(600), self.watches.next()).await.unwrap().unwrap()
            {
                NamespaceEvent::Objects(namespace, event) => describe(&namespace, event),
                NamespaceEvent::Left(namespace) => format!("{namespace}: left"),
            }
        }

        async fn expect(&mut self, events: &[&str]) {
            for expected in events {
                assert_eq!(self.next().await, *expected);
            }
        }
    }

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn describe(namespace: &str, event: Event<Decoded<Pod>>) -> String {
        let event = match event {
            Event::Init => "init".to_owned(),
            Event::InitApply(pod) => format!("listed {}", pod.name_any()),
            Event::InitDone => "done".to_owned(),
            Event::Apply(pod) => format!("applied {}", pod.name_any()),
            Event::Delete(pod) => format!("deleted {}", pod.name_any()),
        };
        format!("{namespace}: {event}")
    }

    #[tokio::test(start_paused = true)]
    async fn sees_the_objects_of_its_namespaces_only() {
        let mut fixture = Fixture::new(&["shop"]);
        fixture.put("shop", "web");
        fixture.put("other", "api");
        fixture.expect(&["shop: init", "shop: listed web", "shop: done"]).await;
        fixture.put("other", "db");
        fixture.put("shop", "cart");
        fixture.expect(&["shop: applied cart"]).await;
        fixture.namespaces.send_replace(set(&["other", "shop"]));
        fixture.expect(&["other: init", "other: listed api", "other: listed db", "other: done"]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn left_namespace_is_reported_and_sends_no_more_events() {
        let mut fixture = Fixture::new(&["shop"]);
        fixture.expect(&["shop: init", "shop: done"]).await;
        // The change of the set comes before an event that is ready.
        fixture.put("shop", "web");
        fixture.namespaces.send_replace(set(&[]));
        fixture.expect(&["shop: left"]).await;
        fixture.put("shop", "late");
        let silent = tokio::time::timeout(Duration::from_secs(60), fixture.watches.next()).await;
        assert!(silent.is_err(), "{silent:?}");
        fixture.namespaces.send_replace(set(&["shop"]));
        fixture.expect(&["shop: init", "shop: listed late", "shop: listed web", "shop: done"]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn namespaces_are_listed_again_each_by_itself_after_a_failure() {
        let mut fixture = Fixture::new(&["shop"]);
        fixture.expect(&["shop: init", "shop: done"]).await;
        fixture.put("shop", "web");
        fixture.api.break_watches(true);
        fixture.expect(&["shop: init", "shop: listed web", "shop: done"]).await;
    }

    #[tokio::test(start_paused = true)]
    async fn ends_with_the_sender_of_the_namespaces() {
        let Fixture { namespaces, mut watches, api: _api } = Fixture::new(&[]);
        drop(namespaces);
        assert!(watches.next().await.is_none());
    }
}
