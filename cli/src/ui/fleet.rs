//! Fleet: all workloads in the selected namespaces, from a watch of their PodAutoscalers and their
//! [loads](Loads).

use std::sync::Arc;

use autoscaler::Key;
use autoscaler::api::PodAutoscaler;
use futures::{StreamExt, pin_mut};
use jiff::Timestamp;
use kube::core::DeserializeGuard;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::{self, watcher};
use kube::runtime::{WatchStreamExt, reflector};
use kube::{Api, Resource};
use parking_lot::Mutex;
use serde::Serialize;

use crate::check::cluster_version::ClusterVersion;
use crate::check::workload::conditions::problems;
use crate::connection::Session;
use crate::ui::loads::Loads;
use crate::workloads::row::WorkloadRow;

/// All workloads.
pub(super) struct Fleet {
    pub(super) session: Session,
    pub(super) version: ClusterVersion,
    autoscalers: Store<DeserializeGuard<PodAutoscaler>>,
    /// Taken by the task of the watch.
    writer: Mutex<Option<Writer<DeserializeGuard<PodAutoscaler>>>>,
    watch: Mutex<WatchState>,
    loads: Loads,
}

#[derive(Debug, Default)]
struct WatchState {
    listed: bool,
    /// Why the watch fails at present.
    error: Option<String>,
}

/// What the page shows of all workloads.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FleetView {
    /// The namespace of the flag; `None` is all.
    namespace: Option<String>,
    /// Whether the workloads were listed; before, there may be more.
    listed: bool,
    /// Why the workloads may be out of date.
    error: Option<String>,
    /// Why there are no loads.
    load_error: Option<String>,
    workloads: Vec<FleetRow>,
}

/// One workload.
#[derive(Debug, Serialize)]
pub(super) struct FleetRow {
    #[serde(flatten)]
    row: WorkloadRow,
    /// Conditions that report a problem.
    problems: usize,
}

// === impl Fleet ===

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("session", &self.session).finish_non_exhaustive()
    }
}

impl Fleet {
    /// Without workloads, until [`Fleet::watch`] has listed them.
    pub(super) fn new(session: Session, version: ClusterVersion) -> Arc<Self> {
        let (autoscalers, writer) = reflector::store();
        Arc::new(Self {
            session,
            version,
            autoscalers,
            writer: Mutex::new(Some(writer)),
            watch: Mutex::default(),
            loads: Loads::default(),
        })
    }

    /// Follows the PodAutoscalers, for ever.
    pub(super) async fn watch(self: Arc<Self>) {
        let Some(mut writer) = self.writer.lock().take() else { return };
        let api: Api<DeserializeGuard<PodAutoscaler>> = self.session.selected();
        let events = watcher(api, watcher::Config::default()).default_backoff();
        pin_mut!(events);
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    writer.apply_watcher_event(&event);
                    let mut watch = self.watch.lock();
                    watch.error = None;
                    watch.listed |= matches!(event, watcher::Event::InitDone);
                }
                Err(error) => self.watch.lock().error = Some(error.to_string()),
            }
        }
    }

    /// The PodAutoscaler of a workload, as it was watched last.
    pub(super) fn autoscaler(&self, key: &Key) -> Option<Arc<DeserializeGuard<PodAutoscaler>>> {
        let object = reflector::ObjectRef::new(&key.name).within(&key.namespace);
        self.autoscalers.get(&object)
    }

    /// The row of a workload, with its load.
    pub(super) async fn row(&self, key: &Key, object: &DeserializeGuard<PodAutoscaler>) -> WorkloadRow {
        let loads = self.loads.get(&self.session).await;
        let load = loads.as_ref().as_ref().ok().and_then(|loads| loads.get(key));
        row(key, object, load, Timestamp::now())
    }

    /// All workloads, by namespace and name.
    pub(super) async fn list(&self) -> FleetView {
        let loads = self.loads.get(&self.session).await;
        let now = Timestamp::now();
        let mut workloads: Vec<FleetRow> = Vec::new();
        for object in self.autoscalers.state() {
            let meta = object.meta();
            let (Some(namespace), Some(name)) = (&meta.namespace, &meta.name) else { continue };
            let key = Key::new(namespace, name);
            let load = loads.as_ref().as_ref().ok().and_then(|loads| loads.get(&key));
            let problems = object.0.as_ref().map_or(1, |autoscaler| problems(autoscaler, self.version).len());
            workloads.push(FleetRow { row: row(&key, &object, load, now), problems });
        }
        let name = |row: &FleetRow| (row.row.namespace.clone(), row.row.name.clone());
        workloads.sort_by_cached_key(name);
        let watch = self.watch.lock();
        FleetView {
            namespace: self.session.only_namespace.clone(),
            listed: watch.listed,
            error: watch.error.clone(),
            load_error: loads.as_ref().as_ref().err().cloned(),
            workloads,
        }
    }
}

fn row(
    key: &Key,
    object: &DeserializeGuard<PodAutoscaler>,
    load: Option<&autoscaler::history::CurrentSample>,
    now: Timestamp,
) -> WorkloadRow {
    match &object.0 {
        Ok(autoscaler) => WorkloadRow::of_sample(key, autoscaler, load, now),
        Err(undecodable) => WorkloadRow::undecodable(key, undecodable.error.clone()),
    }
}
