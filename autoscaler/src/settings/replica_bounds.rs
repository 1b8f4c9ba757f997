//! The sizes a workload may have, from its spec, its annotations and the cluster, in this order.
//!
//! ```text
//!  limit of the cluster ─► max ─► min ≤ max ─► min ≤ activation ≤ max;  initial 0 only where the cluster allows it
//! ```
//!
//! Input: the reader of annotations, the configuration, and what the spec gives. Output: sizes that agree with each other,
//! for [`Settings`](super::Settings). Where two are at odds, the error names both; annotations are left out before anything
//! in the spec is. What an HPA gives is not held to the cluster's limit: the HPA scales up to it whatever we say.

use super::bounds;
use super::config::AutoscalerConfig;
use super::reader::{SettingError, SettingReader};

/// ReplicaBounds that the workload's spec gives; they rule over its annotations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecReplicaBounds {
    /// Smallest size.
    pub min: Option<u32>,
    /// Largest size; 0 is no bound.
    pub max: Option<u32>,
    /// Whether `max` is held to the cluster's `max-scale-limit`.
    pub limited: bool,
}

/// ReplicaBounds that agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReplicaBounds {
    pub(super) min: u32,
    pub(super) max: u32,
    pub(super) initial: u32,
    pub(super) activation: u32,
}

/// A size and who said it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    value: u32,
    by: By,
    /// What people call it.
    name: String,
}

/// Who said a size; the later ones are left out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum By {
    Cluster,
    Spec,
    Annotation,
}

/// The sizes in force; what is wrong with them goes to the reader.
pub(super) fn resolve(
    a: &mut SettingReader<'_>,
    config: &AutoscalerConfig,
    given: SpecReplicaBounds,
) -> ReplicaBounds {
    let min = said(a, "min-scale", config.min_scale, given.min, "spec.minReplicas");
    let max = said(a, "max-scale", config.max_scale, given.max, "spec.maxReplicas");
    let max = within_limit(a, config, max, given.limited);
    let (min, max) = ordered(a, config, min, max);
    let activation = activation(a, &min, &max);
    ReplicaBounds { min: min.value, max: max.value, initial: initial(a, config), activation }
}

fn said(a: &mut SettingReader<'_>, key: &str, cluster: u32, spec: Option<u32>, field: &str) -> Said {
    // Read in any case, so that a slip in it is told.
    let annotation = a.integer(key, &bounds::SIZE);
    match (spec, annotation) {
        (Some(value), _) => Said { value, by: By::Spec, name: field.to_owned() },
        (None, Some(value)) => Said { value, by: By::Annotation, name: a.name(key) },
        (None, None) => of_cluster(key, cluster),
    }
}

fn of_cluster(key: &str, value: u32) -> Said {
    Said { value, by: By::Cluster, name: format!("the cluster's {key}") }
}

fn within_limit(a: &mut SettingReader<'_>, config: &AutoscalerConfig, max: Said, limited: bool) -> Said {
    let held = max.by == By::Annotation || (max.by == By::Spec && limited);
    let limit = config.max_scale_limit;
    if limit == 0 || !held || (1..=limit).contains(&max.value) {
        return max;
    }
    let words = format!("from 1 to the cluster's max-scale-limit, which is {limit}");
    a.refuse(SettingError::new(max.name, max.value, words));
    of_cluster("max-scale", config.max_scale)
}

fn ordered(a: &mut SettingReader<'_>, config: &AutoscalerConfig, min: Said, max: Said) -> (Said, Said) {
    let (mut min, mut max) = (min, max);
    while max.value > 0 && min.value > max.value {
        let words = format!("at most {}, which is {}", max.name, max.value);
        a.refuse(SettingError::new(min.name.clone(), min.value, words));
        let weakest = min.by.max(max.by);
        if weakest == By::Cluster {
            // A configuration that was parsed is in order; one that was put together may not be.
            min.value = max.value;
            break;
        }
        if min.by == weakest {
            min = of_cluster("min-scale", config.min_scale);
        }
        if max.by == weakest {
            max = of_cluster("max-scale", config.max_scale);
        }
    }
    (min, max)
}

fn activation(a: &mut SettingReader<'_>, min: &Said, max: &Said) -> u32 {
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
    a.refuse(SettingError::new(a.name(key), pods, words));
    UNSET
}

fn initial(a: &mut SettingReader<'_>, config: &AutoscalerConfig) -> u32 {
    let key = "initial-scale";
    match a.integer(key, &bounds::SIZE) {
        None => config.initial_scale,
        Some(0) if !config.allow_zero_initial_scale => {
            let words = "1 or more while the cluster's allow-zero-initial-scale is false";
            a.refuse(SettingError::new(a.name(key), 0, words));
            config.initial_scale
        }
        Some(pods) => pods,
    }
}

#[cfg(test)]
mod tests;
