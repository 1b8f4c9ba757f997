//! Replica bounds of a workload, from its spec, else from the ConfigMap.
//!
//! ```text
//!  max-scale-limit ─► max ─► min ≤ max ─► min ≤ activation ≤ max
//! ```
//!
//! Input: the reader of annotations, the ConfigMap, and the bounds of the spec. Output: consistent
//! bounds of [`Settings`](super::Settings). If two bounds conflict, the error names both, and that
//! of the spec is ignored. `max-scale-limit` does not apply to bounds of an HPA,
//! because the HPA scales up to its own maximum in any case.

use super::config::AutoscalerConfig;
use super::groups::scale::{ACTIVATION, MAX, MIN, ScaleSettings};
use super::reader::{SettingError, SettingReader};
use super::setting::Setting;

/// Replica bounds of a workload's spec. They take precedence over the ConfigMap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpecReplicaBounds {
    /// Minimum replicas above zero.
    pub min: Option<u32>,
    /// Maximum replicas; 0 means no bound.
    pub max: Option<u32>,
    /// Whether `max-scale-limit` applies to `max`.
    pub limited: bool,
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
}

/// Replaces the sizes that were read by those in effect. Errors are added to the reader.
pub(super) fn resolve(
    scale: &mut ScaleSettings,
    reader: &mut SettingReader<'_>,
    config: &AutoscalerConfig,
    given: SpecReplicaBounds,
) {
    let min = candidate(&MIN, scale.min, given.min, "spec.minReplicas");
    let max = candidate(&MAX, scale.max, given.max, "spec.maxReplicas");
    let max = within_limit(reader, config, max, given.limited);
    let (min, max) = resolve_conflicts(reader, config, min, max);
    check_activation(scale, reader, &min, &max);
    (scale.min, scale.max) = (min.value, max.value);
}

fn candidate(setting: &Setting<u32>, cluster: u32, spec: Option<u32>, field: &str) -> BoundCandidate {
    spec.map_or_else(
        || of_cluster(setting, cluster),
        |value| BoundCandidate { value, source: BoundSource::Spec, name: field.to_owned() },
    )
}

fn of_cluster(setting: &Setting<u32>, value: u32) -> BoundCandidate {
    let key = setting.key.as_ref().map_or("", |key| key.name);
    BoundCandidate { value, source: BoundSource::Cluster, name: format!("the cluster's {key}") }
}

fn within_limit(
    reader: &mut SettingReader<'_>,
    config: &AutoscalerConfig,
    max: BoundCandidate,
    limited: bool,
) -> BoundCandidate {
    let applies = max.source == BoundSource::Spec && limited;
    let limit = config.limits.max;
    if limit == 0 || !applies || (1..=limit).contains(&max.value) {
        return max;
    }
    let words = format!("from 1 to the cluster's max-scale-limit, which is {limit}");
    reader.push_error(SettingError::new(max.name, max.value, words));
    of_cluster(&MAX, config.defaults.scale.max)
}

fn resolve_conflicts(
    reader: &mut SettingReader<'_>,
    config: &AutoscalerConfig,
    min: BoundCandidate,
    max: BoundCandidate,
) -> (BoundCandidate, BoundCandidate) {
    let (mut min, mut max) = (min, max);
    while max.value > 0 && min.value > max.value {
        let words = format!("at most {}, which is {}", max.name, max.value);
        reader.push_error(SettingError::new(min.name.clone(), min.value, words));
        let weakest = min.source.max(max.source);
        if weakest == BoundSource::Cluster {
            // A parsed configuration is consistent, but one built in code may not be.
            min.value = max.value;
            break;
        }
        if min.source == weakest {
            min = of_cluster(&MIN, config.defaults.scale.min);
        }
        if max.source == weakest {
            max = of_cluster(&MAX, config.defaults.scale.max);
        }
    }
    (min, max)
}

fn check_activation(
    scale: &mut ScaleSettings,
    reader: &mut SettingReader<'_>,
    min: &BoundCandidate,
    max: &BoundCandidate,
) {
    let pods = scale.activation;
    if !reader.has_value(&ACTIVATION) {
        return;
    }
    let words = if pods < min.value {
        format!("at least {}, which is {}", min.name, min.value)
    } else if max.value > 0 && pods > max.value {
        format!("at most {}, which is {}", max.name, max.value)
    } else {
        return;
    };
    reader.push_error(SettingError::new(reader.name(&ACTIVATION), pods, words));
    scale.activation = ACTIVATION.default;
}

#[cfg(test)]
mod tests;
