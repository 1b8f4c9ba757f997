//! The containers of Rouse: their restarts, and their memory beside its limit.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use bench_proxies::memory;
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;
use system_tests::cluster::installation::COMPONENTS;
use system_tests::cluster::namespace::{TestNamespace, pods_of};

use crate::targets;
use crate::victim;

/// The containers at one time.
#[derive(Debug, Default)]
pub(crate) struct Containers {
    /// Restarts by pod and container.
    restarts: BTreeMap<(String, String), i32>,
    memory: Vec<Memory>,
}

/// The most memory that a container had so far.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) container: String,
    pub(crate) most: u64,
    pub(crate) limit: u64,
}

// === impl Containers ===

impl Containers {
    /// Reads the state of all containers.
    ///
    /// # Errors
    /// When the API refuses, or no process of them runs on this machine.
    pub(crate) async fn read(namespace: &TestNamespace) -> Result<Self> {
        let mut pods = pods_of(namespace, victim::NAME).await?;
        for component in COMPONENTS {
            pods.extend(targets::components(namespace, component).await?);
        }
        let mut this = Self::default();
        for pod in &pods {
            this.add(pod);
        }
        ensure!(!this.memory.is_empty(), "no container of Rouse with a limit runs on this machine");
        Ok(this)
    }

    fn add(&mut self, pod: &Pod) {
        let ours = |name: &str| COMPONENTS.contains(&name) || name == autoscaler::contract::QUEUE_PROXY;
        let status = pod.status.clone().unwrap_or_default();
        let statuses = status.container_statuses.into_iter().chain(status.init_container_statuses).flatten();
        for status in statuses.filter(|status| ours(&status.name)) {
            self.restarts.insert((pod.name_any(), status.name), status.restart_count);
        }
        let spec = pod.spec.clone().unwrap_or_default();
        let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        for container in containers.filter(|container| ours(&container.name)) {
            if let (Some(most), Some(limit)) = (peak(&pod.name_any(), &container.name), limit(container)) {
                self.memory.push(Memory { container: container.name.clone(), most, limit });
            }
        }
    }

    /// Restarts since `before`. A container that is gone or new counts as one.
    pub(crate) fn restarts_since(&self, before: &Self) -> usize {
        let changed = |(container, restarts): &(&(String, String), &i32)| {
            before.restarts.get(container) != Some(restarts)
        };
        let gone = before.restarts.keys().filter(|container| !self.restarts.contains_key(container));
        self.restarts.iter().filter(changed).count() + gone.count()
    }

    /// Without those of a part that is replaced meanwhile.
    pub(crate) fn without(mut self, part: Option<&str>) -> Self {
        self.restarts.retain(|(_, container), _| Some(container.as_str()) != part);
        self
    }

    /// The container that is closest to its limit.
    pub(crate) fn fullest(&self) -> Option<&Memory> {
        self.memory.iter().max_by(|a, b| a.share().total_cmp(&b.share()))
    }
}

// === impl Memory ===

impl Memory {
    /// Share of the limit.
    pub(crate) fn share(&self) -> f64 {
        self.most as f64 / self.limit as f64
    }
}

fn limit(container: &Container) -> Option<u64> {
    let limits = container.resources.as_ref()?.limits.as_ref()?;
    bytes(&limits.get("memory")?.0)
}

/// A quantity of memory, as manifests have it.
fn bytes(quantity: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 6] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("k", 1000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
    ];
    let unit = UNITS.iter().find_map(|(unit, factor)| Some((quantity.strip_suffix(unit)?, factor)));
    let (number, factor) = unit.unwrap_or((quantity, &1));
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// The largest resident size of a container's process so far, by its name and its pod's. The
/// kubelet's own figures are ten seconds old.
fn peak(pod: &str, container: &str) -> Option<u64> {
    let of_container = |process: &Path| {
        let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
        let environment = fs::read(process.join("environ")).unwrap_or_default();
        let pod = format!("HOSTNAME={pod}");
        name.trim_end() == container && environment.split(|byte| *byte == 0).any(|it| it == pod.as_bytes())
    };
    let processes = fs::read_dir("/proc").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let process = processes.into_iter().find(|path| of_container(path))?;
    memory::most_resident(process.file_name()?.to_str()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_quantities_of_memory() {
        let parsed = ["128Mi", "1Gi", "500M", "1000", "x"].map(bytes);
        assert_eq!(parsed, [Some(128 << 20), Some(1 << 30), Some(500_000_000), Some(1000), None]);
    }

    #[test]
    fn counts_restarts_and_replaced_containers() {
        let containers = |all: &[(&str, i32)]| Containers {
            restarts: all.iter().map(|(pod, n)| (((*pod).to_owned(), "a".to_owned()), *n)).collect(),
            memory: Vec::new(),
        };
        let before = containers(&[("a", 0), ("b", 1), ("c", 0)]);
        assert_eq!(containers(&[("a", 0), ("b", 1), ("c", 0)]).restarts_since(&before), 0);
        assert_eq!(containers(&[("a", 1), ("b", 1), ("d", 0)]).restarts_since(&before), 3);
    }
}
