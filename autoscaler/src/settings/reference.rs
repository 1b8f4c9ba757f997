//! List of all settings, from which the reference page is generated.

use std::sync::LazyLock;

use super::config::AutoscalerConfig;
use super::reader::SettingReader;
use super::setting::SettingReference;

/// All settings of the ConfigMap and of annotations, by group. Listed once: each reconcile of an
/// HPA looks its annotations up.
pub fn reference() -> &'static [SettingReference] {
    static REFERENCE: LazyLock<Vec<SettingReference>> = LazyLock::new(|| {
        let mut reader = SettingReader::of_reference();
        AutoscalerConfig::read(&mut reader);
        reader.into_listed()
    });
    &REFERENCE
}

#[cfg(test)]
mod tests;
