//! Watches that continue beside objects that cannot be decoded.
//!
//! Every watch of more than one object is made here. Each object is decoded by itself
//! ([`Decoded`]), so one that does not fit its type is skipped and the others stay visible. It is
//! logged once for each of its versions, and counted.
//!
//! The reader of a watch decides what stands for such an object:
//!
//! - Metrics-adapter, activator and the watch of peers only read. They keep the last version that
//!   they decoded. Without one the object is absent: its workload has no decision, and an HPA
//!   without a metric keeps its size.
//! - The zero-scaler writes. It writes nothing that would follow from the object, and treats it as
//!   existing, not as deleted.
//! - A deletion is a deletion, whether the deleted object can be decoded or not.
//!
//! No copy of an object is kept here, only names and versions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use futures::{Stream, StreamExt};
use kube::runtime::watcher as watch;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use prometheus::{IntCounter, IntCounterVec, Registry};
use serde::de::DeserializeOwned;

use super::decoded::{Decoded, UndecodableObject};
use super::watch_backoff::retried;
use crate::metrics::Families;

/// Bound of the objects of one watch that are logged. Further ones are only counted.
const MAX_LOGGED: usize = 1000;

/// Counts the objects that could not be decoded, by kind. Clones share the counters.
#[derive(Clone, Debug)]
pub struct DecodeErrors(IntCounterVec);

/// Logs and counts the undecodable objects of one watch.
#[derive(Debug)]
pub struct DecodeErrorLog {
    kind: String,
    counter: IntCounter,
    /// The logged version of each object.
    logged: BTreeMap<ObjectName, String>,
    /// Logged objects in the list that is being received.
    listed: BTreeSet<ObjectName>,
}

/// Namespace and name.
type ObjectName = (String, String);

/// Watches the objects of `api`. Never ends; failed watches are retried.
pub fn watch_objects<K>(
    api: Api<Decoded<K>>,
    config: watcher::Config,
    mut errors: DecodeErrorLog,
) -> impl Stream<Item = Result<Event<Decoded<K>>, watcher::Error>> + Send + use<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    retried(move || watch(api.clone(), config.clone())).inspect(move |event| {
        if let Ok(event) = event {
            errors.observe(event);
        }
    })
}

/// Watches one object; `None` while it does not exist. Never ends; failures are logged and retried.
pub fn watch_object<K>(api: Api<K>, name: &str) -> impl Stream<Item = Option<K>> + Send + use<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let (name, watched) = (name.to_owned(), format!("{} {name}", K::kind(&())));
    logged(retried(move || watcher::watch_object(api.clone(), &name)), watched)
}

/// What a watch of `watched` receives. Its failures are logged.
pub fn logged<T: Send>(
    events: impl Stream<Item = Result<T, watcher::Error>> + Send,
    watched: String,
) -> impl Stream<Item = T> + Send {
    events.filter_map(move |event| {
        let logged = event.inspect_err(|error| tracing::warn!(watched, %error, "watch failed, retrying"));
        std::future::ready(logged.ok())
    })
}

// === impl DecodeErrors ===

impl DecodeErrors {
    /// Registers `rouse_<component>_undecodable_objects_total{kind}`.
    ///
    /// # Errors
    /// When the registry has it already.
    pub fn register(registry: &Registry, component: &str) -> Result<Self, prometheus::Error> {
        let help = "Versions of watched objects that could not be decoded and were skipped, by kind";
        let families = Families { registry, component };
        families.counters("undecodable_objects_total", help, &["kind"]).map(Self)
    }

    /// For a watch of this kind.
    pub fn of(&self, kind: &str) -> DecodeErrorLog {
        DecodeErrorLog {
            kind: kind.to_owned(),
            counter: self.0.with_label_values(&[kind]),
            logged: BTreeMap::new(),
            listed: BTreeSet::new(),
        }
    }
}

// === impl DecodeErrorLog ===

impl DecodeErrorLog {
    fn observe<K: Resource + Clone>(&mut self, event: &Event<Decoded<K>>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                if self.applied(object) {
                    self.listed.insert(name_of(object));
                }
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                self.logged.retain(|name, _| listed.contains(name));
            }
            Event::Apply(object) => {
                self.applied(object);
            }
            Event::Delete(object) => {
                self.logged.remove(&name_of(object));
            }
        }
    }

    /// Returns whether the object is undecodable and its version logged.
    fn applied<K: Resource + Clone>(&mut self, object: &Decoded<K>) -> bool {
        match &object.0 {
            Ok(_) if self.logged.is_empty() => false,
            Ok(_) => {
                self.logged.remove(&name_of(object));
                false
            }
            Err(undecodable) => self.report(name_of(object), undecodable),
        }
    }

    fn report(&mut self, name: ObjectName, undecodable: &UndecodableObject) -> bool {
        let version = undecodable.metadata.resource_version.clone().unwrap_or_default();
        let logged = self.logged.get(&name);
        if logged == Some(&version) {
            return true;
        }
        self.counter.inc();
        if logged.is_none() && self.logged.len() >= MAX_LOGGED {
            return false;
        }
        let (kind, (namespace, object), error) = (&self.kind, &name, &undecodable.error);
        tracing::error!(%kind, %namespace, name = %object, %version, %error, "object could not be decoded, skipped");
        self.logged.insert(name, version);
        true
    }
}

fn name_of<K: Resource + Clone>(object: &Decoded<K>) -> ObjectName {
    let meta = object.meta();
    (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fake_api::{FakeApi, Outage};
    use futures::pin_mut;
    use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
    use serde_json::json;

    use super::*;

    const KIND: &str = "HorizontalPodAutoscaler";

    /// Stores an HPA with this upper bound.
    fn put(api: &FakeApi, name: &str, max_replicas: u32) {
        let path = format!("/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/{name}");
        let target = json!({"kind": "Deployment", "name": name});
        api.put(&path, json!({"spec": {"scaleTargetRef": target, "maxReplicas": max_replicas}}));
    }

    fn describe(event: Event<Decoded<HorizontalPodAutoscaler>>) -> String {
        let object = |object: Decoded<HorizontalPodAutoscaler>| {
            let name = object.meta().name.clone().unwrap_or_default();
            format!("{name} {}", object.0.map_or(-1, |object| object.spec.max_replicas))
        };
        match event {
            Event::Init => "init".to_owned(),
            Event::InitApply(listed) => format!("listed {}", object(listed)),
            Event::InitDone => "done".to_owned(),
            Event::Apply(applied) => format!("applied {}", object(applied)),
            Event::Delete(deleted) => format!("deleted {}", object(deleted)),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn undecodable_object_is_counted_once_and_the_others_are_seen() {
        let (api, errors) = (FakeApi::default(), DecodeErrors::register(&Registry::new(), "test").unwrap());
        put(&api, "a", 5);
        put(&api, "bad", 3_000_000_000);
        put(&api, "c", 7);
        let hpas = Api::<Decoded<HorizontalPodAutoscaler>>::all(api.client());
        let events = watch_objects(hpas, watcher::Config::default(), errors.of(KIND));
        pin_mut!(events);
        let mut next = async || {
            let next = tokio::time::timeout(Duration::from_secs(600), async {
                loop {
                    if let Some(Ok(event)) = events.next().await {
                        return describe(event);
                    }
                }
            });
            next.await.unwrap()
        };
        for max_replicas in 7..10 {
            let listed = ["init", "listed a 5", "listed bad -1", &format!("listed c {max_replicas}"), "done"];
            for expected in listed {
                assert_eq!(next().await, expected);
            }
            assert_eq!(errors.of(KIND).counter.get(), 1, "once for a version, whatever is listed again");
            if max_replicas < 9 {
                // The version of the list is then too old for a watch.
                put(&api, "c", max_replicas + 1);
                api.break_watches(true);
            }
        }
        put(&api, "bad", 4_000_000_000);
        put(&api, "a", 6);
        assert_eq!(next().await, "applied bad -1");
        assert_eq!(next().await, "applied a 6", "the watch goes on behind it");
        assert_eq!(errors.of(KIND).counter.get(), 2);
        put(&api, "bad", 9);
        assert_eq!(next().await, "applied bad 9");
    }

    /// Of each watch of each part: all are made here.
    #[tokio::test(start_paused = true)]
    async fn first_list_is_within_5_seconds_after_api_server_shed_load() {
        for status in [429, 503, 504] {
            let (api, errors) =
                (FakeApi::default(), DecodeErrors::register(&Registry::new(), "test").unwrap());
            let hpas = Api::<Decoded<HorizontalPodAutoscaler>>::all(api.client());
            let events = watch_objects(hpas, watcher::Config::default(), errors.of(KIND));
            pin_mut!(events);
            while !matches!(events.next().await, Some(Ok(Event::InitDone))) {}
            api.set_outage(Some(Outage::Shedding(status)));
            put(&api, "new", 5);
            api.break_watches(true);
            let shedding = async {
                loop {
                    let event = events.next().await.unwrap();
                    assert!(event.is_err(), "{status}");
                }
            };
            tokio::time::timeout(Duration::from_secs(90), shedding).await.unwrap_err();
            api.set_outage(None);
            let listed = async { while !matches!(events.next().await, Some(Ok(Event::InitDone))) {} };
            tokio::time::timeout(Duration::from_secs(5), listed).await.expect("a list");
        }
    }

    #[test]
    fn logged_objects_are_bounded_and_removed_with_their_objects() {
        let errors = DecodeErrors::register(&Registry::new(), "test").unwrap();
        let mut log = errors.of(KIND);
        let bad = |name: usize| -> Decoded<HorizontalPodAutoscaler> {
            serde_json::from_value(json!({"metadata": {"name": name.to_string()}, "spec": 5})).unwrap()
        };
        for name in 0..MAX_LOGGED + 5 {
            log.observe(&Event::Apply(bad(name)));
        }
        assert_eq!((log.logged.len(), errors.of(KIND).counter.get()), (MAX_LOGGED, MAX_LOGGED as u64 + 5));
        log.observe(&Event::Delete(bad(0)));
        assert_eq!(log.logged.len(), MAX_LOGGED - 1);
        log.observe::<HorizontalPodAutoscaler>(&Event::Init);
        log.observe(&Event::InitApply(bad(1)));
        log.observe::<HorizontalPodAutoscaler>(&Event::InitDone);
        assert_eq!(log.logged.len(), 1, "the others were deleted meanwhile");
    }
}
