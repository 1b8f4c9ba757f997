//! Reads settings from a map of strings, and collects all errors.
//!
//! Input: the data of a ConfigMap, or the annotations of an object. Whitespace around a value is
//! ignored, and unrecognized keys are not an error, as in Knative. The same calls list the settings
//! for the reference page, which so has exactly what is read.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::setting::{Entry, Setting, SettingReference};
use crate::contract::GROUP;

/// An invalid value: not of its type, out of bounds, or in conflict with another setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value:?}, but must be {bound}")]
pub struct SettingError {
    /// Key of the ConfigMap, full name of the annotation, or a field such as `spec.minReplicas`.
    pub key: String,
    /// The rejected value.
    pub value: String,
    /// Description of accepted values. Names the other setting of a conflict.
    pub bound: Cow<'static, str>,
}

/// Reader of settings. An invalid value adds an error, and counts as not given.
pub(super) struct SettingReader<'a> {
    source: Source<'a>,
    errors: Vec<SettingError>,
    listed: Vec<SettingReference>,
}

/// Where settings are read.
#[derive(Clone, Copy)]
enum Source<'a> {
    ConfigMap(&'a BTreeMap<String, String>),
    Annotations(&'a BTreeMap<String, String>),
    /// None is given, and each one is listed.
    Reference,
}

// === impl SettingError ===

impl SettingError {
    pub(crate) fn new(
        key: impl Into<String>,
        value: impl ToString,
        bound: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { key: key.into(), value: value.to_string(), bound: bound.into() }
    }
}

// === impl SettingReader ===

impl<'a> SettingReader<'a> {
    /// Reads keys.
    pub(super) fn of_config_map(data: &'a BTreeMap<String, String>) -> Self {
        Self::new(Source::ConfigMap(data))
    }

    /// Reads annotations.
    pub(super) fn of_annotations(annotations: &'a BTreeMap<String, String>) -> Self {
        Self::new(Source::Annotations(annotations))
    }

    /// Gives defaults, and lists what is read.
    pub(super) fn of_reference() -> Self {
        Self::new(Source::Reference)
    }

    fn new(source: Source<'a>) -> Self {
        Self { source, errors: Vec::new(), listed: Vec::new() }
    }

    pub(super) fn into_errors(self) -> Vec<SettingError> {
        self.errors
    }

    pub(super) fn into_listed(self) -> Vec<SettingReference> {
        self.listed
    }

    /// Adds an error that the caller has found.
    pub(super) fn push_error(&mut self, error: SettingError) {
        self.errors.push(error);
    }

    /// The value that is given, else that of the cluster, else the default.
    pub(super) fn read<T: Clone>(&mut self, setting: &Setting<T>, cluster: Option<T>) -> T {
        if let Source::Reference = self.source {
            self.listed.push(setting.reference());
        }
        self.given(setting).or(cluster).unwrap_or_else(|| setting.default.clone())
    }

    fn given<T>(&mut self, setting: &Setting<T>) -> Option<T> {
        let text = self.text(setting)?;
        let format = self.entry(setting)?.format;
        let value = (format.parse)(text.trim());
        if value.is_none() {
            self.errors.push(SettingError::new(self.name(setting), text, format.words));
        }
        value
    }

    /// Key, or full name of the annotation.
    pub(super) fn name<T>(&self, setting: &Setting<T>) -> String {
        let name = self.entry(setting).map_or("", |entry| entry.name);
        if let Source::Annotations(_) = self.source { format!("{GROUP}/{name}") } else { name.to_owned() }
    }

    /// Whether the setting has a valid value here.
    pub(super) fn has_value<T>(&self, setting: &Setting<T>) -> bool {
        self.text(setting).is_some() && !self.has_error(setting)
    }

    /// Whether the setting already has an error. Checks against other settings must then be
    /// skipped.
    pub(super) fn has_error<T>(&self, setting: &Setting<T>) -> bool {
        let name = self.name(setting);
        self.errors.iter().any(|error| error.key == name)
    }

    /// The text as written, else that of the default.
    pub(super) fn text_or_default<T>(&self, setting: &Setting<T>) -> String {
        let default = || self.entry(setting).and_then(|entry| (entry.format.print)(&setting.default));
        self.text(setting).map(str::to_owned).or_else(default).unwrap_or_default()
    }

    fn text<T>(&self, setting: &Setting<T>) -> Option<&'a str> {
        let (Source::ConfigMap(texts) | Source::Annotations(texts)) = self.source else { return None };
        self.entry(setting)?;
        texts.get(&self.name(setting)).map(String::as_str)
    }

    fn entry<'s, T>(&self, setting: &'s Setting<T>) -> Option<&'s Entry<T>> {
        match self.source {
            Source::ConfigMap(_) => setting.key.as_ref(),
            Source::Annotations(_) => setting.annotation.as_ref(),
            Source::Reference => None,
        }
    }
}
