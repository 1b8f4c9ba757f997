//! Resolution of a workload's settings: its annotations and replica bounds over the ConfigMap.

use std::collections::BTreeMap;

use super::config::AutoscalerConfig;
use super::reader::{SettingError, SettingReader};
use super::replica_bounds::{self, SpecReplicaBounds};
use super::workload::Settings;

// === impl Settings ===

impl Settings {
    /// Resolves the settings of a workload with these annotations, and returns all errors.
    ///
    /// An invalid value is ignored: the value of the ConfigMap stays in effect. The caller must
    /// report the errors to the user.
    pub fn resolve(
        config: &AutoscalerConfig,
        annotations: &BTreeMap<String, String>,
    ) -> (Self, Vec<SettingError>) {
        Self::resolve_given(config, annotations, SpecReplicaBounds::default())
    }

    /// [`Settings::resolve`] with replica bounds of the spec, which take precedence over
    /// annotations.
    pub fn resolve_given(
        config: &AutoscalerConfig,
        annotations: &BTreeMap<String, String>,
        sizes: SpecReplicaBounds,
    ) -> (Self, Vec<SettingError>) {
        let mut reader = SettingReader::of_annotations(annotations);
        let mut settings = Self::read(&mut reader, Some(&config.defaults));
        replica_bounds::resolve(&mut settings.scale, &mut reader, config, sizes);
        (settings, reader.into_errors())
    }
}

#[cfg(test)]
mod tests;
