//! Replica bounds of a workload, from its spec, its annotations and the ConfigMap, in this order.
//!
//! ```text
//!  max-scale-limit ─► max ─► min ≤ max ─► min ≤ activation ≤ max
//! ```
//!
//! Input: the reader of annotations, the ConfigMap, and the bounds of the spec. Output: consistent
//! bounds for [`Settings`](super::Settings). If two bounds conflict, the error names both, and the
//! one of lower precedence is ignored. `max-scale-limit` does not apply to bounds of an HPA,
//! because the HPA scales up to its own maximum in any case.

use super::bounds;
use super::config::AutoscalerConfig;
use super::reader::{SettingError, SettingReader};

/// Replica bounds of a workload's spec. They take precedence over annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecReplicaBounds {
    /// Minimum replicas above zero.
    pub min: Option<u32>,
    /// Maximum replicas; 0 is no bound.
    pub max: Option<u32>,
    /// Whether `max-scale-limit` applies to `max`.
    pub limited: bool,
}

/// Consistent replica bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplicaBounds {
    pub(super) min: u32,
    pub(super) max: u32,
    pub(super) initial: u32,
    pub(super) activation: u32,
}

/// A bound and its source.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BoundCandidate {
    value: u32,
    source: BoundSource,
    /// Name in error messages.
    name: String,
}

/// Source of a bound. In a conflict, later variants are ignored first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BoundSource {
    Cluster,
    Spec,
    Annotation,
}

/// Resolves the bounds in effect. Errors are added to the reader.
pub(super) fn resolve(
    a: &mut SettingReader<'_>,
    config: &AutoscalerConfig,
    given: SpecReplicaBounds,
) -> ReplicaBounds {
    let min = candidate(a, "min-scale", config.min_scale, given.min, "spec.minReplicas");
    let max = candidate(a, "max-scale", config.max_scale, given.max, "spec.maxReplicas");
    let max = within_limit(a, config, max, given.limited);
    let (min, max) = resolve_conflicts(a, config, min, max);
    let activation = activation(a, &min, &max);
    ReplicaBounds { min: min.value, max: max.value, initial: initial(a, config), activation }
}

fn candidate(
    a: &mut SettingReader<'_>,
    key: &str,
    cluster: u32,
    spec: Option<u32>,
    field: &str,
) -> BoundCandidate {
    // Read even if the spec takes precedence, so that an invalid annotation is reported.
    let annotation = a.integer(key, &bounds::SIZE);
    match (spec, annotation) {
        (Some(value), _) => BoundCandidate { value, source: BoundSource::Spec, name: field.to_owned() },
        (None, Some(value)) => BoundCandidate { value, source: BoundSource::Annotation, name: a.name(key) },
        (None, None) => of_cluster(key, cluster),
    }
}

fn of_cluster(key: &str, value: u32) -> BoundCandidate {
    BoundCandidate { value, source: BoundSource::Cluster, name: format!("the cluster's {key}") }
}

fn within_limit(
    a: &mut SettingReader<'_>,
    config: &AutoscalerConfig,
    max: BoundCandidate,
    limited: bool,
) -> BoundCandidate {
    let applies = max.source == BoundSource::Annotation || (max.source == BoundSource::Spec && limited);
    let limit = config.max_scale_limit;
    if limit == 0 || !applies || (1..=limit).contains(&max.value) {
        return max;
    }
    let words = format!("from 1 to the cluster's max-scale-limit, which is {limit}");
    a.push_error(SettingError::new(max.name, max.value, words));
    of_cluster("max-scale", config.max_scale)
}

fn resolve_conflicts(
    a: &mut SettingReader<'_>,
    config: &AutoscalerConfig,
    min: BoundCandidate,
    max: BoundCandidate,
) -> (BoundCandidate, BoundCandidate) {
    let (mut min, mut max) = (min, max);
    while max.value > 0 && min.value > max.value {
        let words = format!("at most {}, which is {}", max.name, max.value);
        a.push_error(SettingError::new(min.name.clone(), min.value, words));
        let weakest = min.source.max(max.source);
        if weakest == BoundSource::Cluster {
            // A parsed configuration is consistent, but one built in code may not be.
            min.value = max.value;
            break;
        }
        if min.source == weakest {
            min = of_cluster("min-scale", config.min_scale);
        }
        if max.source == weakest {
            max = of_cluster("max-scale", config.max_scale);
        }
    }
    (min, max)
}

fn activation(a: &mut SettingReader<'_>, min: &BoundCandidate, max: &BoundCandidate) -> u32 {
    const UNSET: u32 = 1;
    let key = "activation-scale";
    let Some(pods) = a.integer(key, &bounds::ACTIVATION_SCALE) else { return UNSET };
    let words = if pods < min.value {
        format!("at least {}, which is {}", min.name, min.value)
    } else if max.value > 0 && pods > max.value {
        format!("at most {}, which is {}", max.name, max.value)
    } else {
        return pods;
    };
    a.push_error(SettingError::new(a.name(key), pods, words));
    UNSET
}

fn initial(a: &mut SettingReader<'_>, config: &AutoscalerConfig) -> u32 {
    let key = "initial-scale";
    match a.integer(key, &bounds::SIZE) {
        None => config.initial_scale,
        Some(0) if !config.allow_zero_initial_scale => {
            let words = "1 or more while the cluster's allow-zero-initial-scale is false";
            a.push_error(SettingError::new(a.name(key), 0, words));
            config.initial_scale
        }
        Some(pods) => pods,
    }
}

#[cfg(test)]
mod tests;
