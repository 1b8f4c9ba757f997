//! PodIndex: the pods of one namespace, by name and by label.

use std::collections::HashMap;
use std::sync::Arc;

use autoscaler::contract::INJECT_LABEL;
use autoscaler::contract::selector::{Requirement, Selector};
use component_base::kubernetes::Decoded;
use k8s_openapi::api::core::v1::Pod as KubernetesPod;
use kube::ResourceExt;

use crate::watches::pod::Pod;

/// The pods of one namespace.
#[derive(Debug, Default)]
pub(super) struct PodIndex {
    by_name: HashMap<String, Arc<Pod>>,
    /// Label to value to pods, without the inject label, which all pods of an index have or none.
    by_label: HashMap<String, HashMap<String, Vec<Arc<Pod>>>>,
}

// === impl PodIndex ===

impl PodIndex {
    /// Whether it has no pods.
    pub(super) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The pod of this name.
    pub(super) fn get(&self, name: &str) -> Option<Arc<Pod>> {
        self.by_name.get(name).cloned()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.by_name.values()
    }

    /// The newest version of a pod; if it cannot be decoded, the last decoded version.
    pub(super) fn newest(&self, pod: &Decoded<KubernetesPod>) -> Arc<Pod> {
        match &pod.0 {
            Ok(pod) => Arc::new(Pod::from(&**pod)),
            Err(undecodable) => {
                let last = self.by_name.get(&pod.name_any()).cloned();
                last.unwrap_or_else(|| Arc::new(Pod::undecodable(&undecodable.metadata)))
            }
        }
    }

    pub(super) fn select(&self, selector: &Selector) -> impl Iterator<Item = &Arc<Pod>> {
        let fewest =
            selector.requirements().iter().filter_map(|it| self.labelled(it)).min_by_key(|pods| pods.len());
        // A selector without an indexed value has to search all pods.
        let all = fewest.is_none().then(|| self.by_name.values()).into_iter().flatten();
        // The index has evaluated the whole selector.
        let complete = fewest.is_some() && selector.requirements().len() == 1;
        fewest
            .unwrap_or_default()
            .iter()
            .chain(all)
            .filter(move |pod| complete || selector.matches(&pod.labels))
    }

    /// Adds a pod, or replaces the one of its name.
    pub(super) fn insert(&mut self, pod: Arc<Pod>) {
        self.remove(&pod.name);
        for (label, value) in indexed(&pod) {
            let by_value = self.by_label.entry(label.clone()).or_default();
            by_value.entry(value.clone()).or_default().push(pod.clone());
        }
        self.by_name.insert(pod.name.clone(), pod);
    }

    pub(super) fn remove(&mut self, name: &str) {
        let Some(pod) = self.by_name.remove(name) else { return };
        for (label, value) in indexed(&pod) {
            let Some(by_value) = self.by_label.get_mut(label) else { continue };
            let Some(pods) = by_value.get_mut(value) else { continue };
            pods.retain(|other| !Arc::ptr_eq(other, &pod));
            if pods.is_empty() {
                by_value.remove(value);
            }
            if by_value.is_empty() {
                self.by_label.remove(label);
            }
        }
    }

    /// The pods with a label's value; `None` if the requirement is not on exactly one indexed
    /// value.
    fn labelled(&self, requirement: &Requirement) -> Option<&[Arc<Pod>]> {
        match requirement {
            Requirement::In(label, values) if label != INJECT_LABEL => match values.as_slice() {
                [value] => {
                    let pods = self.by_label.get(label).and_then(|by_value| by_value.get(value));
                    Some(pods.map_or(&[], Vec::as_slice))
                }
                _ => None,
            },
            _ => None,
        }
    }
}

fn indexed(pod: &Pod) -> impl Iterator<Item = (&String, &String)> {
    pod.labels.iter().filter(|(label, _)| *label != INJECT_LABEL)
}
