//! List of all settings, from which the reference page is generated.

use super::config::AutoscalerConfig;
use super::reader::SettingReader;
use super::setting::SettingReference;

/// All settings of the ConfigMap and of annotations, by group.
pub fn reference() -> Vec<SettingReference> {
    let mut reader = SettingReader::of_reference();
    AutoscalerConfig::read(&mut reader);
    reader.into_listed()
}

#[cfg(test)]
mod tests;
