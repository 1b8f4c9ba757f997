//! Cluster-wide settings: the ConfigMap `config-autoscaler`.
//!
//! Keys, defaults and bounds are Knative's, plus keys for pods that cannot start and for the
//! learned target. metrics-adapter and zero-scaler watch the ConfigMap. One invalid key rejects the
//! whole ConfigMap, because its other values may depend on that key. The last valid ConfigMap then
//! stays in effect.
//!
//! As in Knative, unrecognized keys are ignored, and the panic window is at least one bucket (1 s).

use std::collections::BTreeMap;

use super::groups::scale::ScaleLimits;
use super::reader::{SettingError, SettingReader};
use super::workload::Settings;

/// Cluster-wide settings.
#[derive(Clone, Debug, PartialEq)]
pub struct AutoscalerConfig {
    /// The settings of a workload without annotations.
    pub defaults: Settings,
    /// What annotations may set.
    pub limits: ScaleLimits,
}

// === impl AutoscalerConfig ===

impl Default for AutoscalerConfig {
    fn default() -> Self {
        Self::read(&mut SettingReader::of_config_map(&BTreeMap::new()))
    }
}

impl AutoscalerConfig {
    /// Parses the `data` of a ConfigMap.
    ///
    /// # Errors
    /// All errors at once, each with key, value and bound.
    pub fn parse(data: &BTreeMap<String, String>) -> Result<Self, Vec<SettingError>> {
        let mut reader = SettingReader::of_config_map(data);
        let config = Self::read(&mut reader);
        config.defaults.target.check(&mut reader);
        config.limits.check(&config.defaults.scale, &mut reader);
        let errors = reader.into_errors();
        if errors.is_empty() { Ok(config) } else { Err(errors) }
    }

    pub(super) fn read(reader: &mut SettingReader<'_>) -> Self {
        Self { defaults: Settings::read(reader, None), limits: ScaleLimits::read(reader) }
    }
}

#[cfg(test)]
pub(crate) mod tests;
