//! The namespaces that have a workload without sidecar: their pods without the inject label are
//! watched.

use std::collections::BTreeSet;

use tokio::sync::watch;

use crate::watches::workloads::{WorkloadTable, WorkloadsReceiver};

/// The namespaces, and the future that follows the table; spawn it. It ends with the table's
/// sender.
pub fn namespaces_without_sidecar(
    mut workloads: WorkloadsReceiver,
) -> (watch::Receiver<BTreeSet<String>>, impl Future<Output = ()> + Send + use<>) {
    let (sender, receiver) = watch::channel(namespaces(&workloads.borrow()));
    let follow = async move {
        while workloads.changed().await.is_ok() {
            let newest = namespaces(&workloads.borrow_and_update());
            sender.send_if_modified(|current| {
                let changed = *current != newest;
                *current = newest;
                changed
            });
        }
    };
    (receiver, follow)
}

fn namespaces(table: &WorkloadTable) -> BTreeSet<String> {
    let plain = table.iter().filter(|workload| !workload.sidecar.is_required());
    plain.map(|workload| workload.key.namespace.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use autoscaler::settings::SidecarMode;

    use super::*;
    use crate::watches::workloads::Workload;

    #[tokio::test]
    async fn follows_the_workloads_without_sidecar() {
        let table = |sidecar| {
            let workload = Workload { sidecar, ..Workload::sample("web") };
            Arc::new([workload].into_iter().collect::<WorkloadTable>())
        };
        let (sender, workloads) = watch::channel(table(SidecarMode::Required));
        let (mut namespaces, follow) = namespaces_without_sidecar(workloads);
        assert_eq!(*namespaces.borrow(), BTreeSet::new());
        tokio::spawn(follow);
        for (sidecar, expected) in [(SidecarMode::None, vec!["shop"]), (SidecarMode::Required, vec![])] {
            sender.send_replace(table(sidecar));
            namespaces.changed().await.unwrap();
            assert_eq!(namespaces.borrow_and_update().iter().collect::<Vec<_>>(), expected);
        }
    }
}
