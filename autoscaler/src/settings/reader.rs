//! Reads typed values within bounds from a map of strings, and collects all errors.
//!
//! Input: the data of a ConfigMap, or the annotations of an object. Values have Go's syntax, as in
//! Knative; whitespace around a value is ignored. Unrecognized keys are not an error, as in
//! Knative.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use super::bounds::{self, Bound};
use super::values::duration::parse_duration;

/// An invalid value: not of its type, out of bounds, or in conflict with another setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value:?}, but must be {bound}")]
pub struct SettingError {
    /// Key of the ConfigMap, full name of the annotation, or a field such as
    /// `spec.minReplicas`.
    pub key: String,
    /// The rejected value.
    pub value: String,
    /// Description of accepted values. Names the other setting of a conflict.
    pub bound: Cow<'static, str>,
}

/// Reader of a map of strings. Absent keys give `None`; invalid ones give `None` and add an error.
pub(crate) struct SettingReader<'a> {
    source: &'a BTreeMap<String, String>,
    prefix: &'a str,
    errors: Vec<SettingError>,
}

#[cfg(test)]
thread_local! {
    /// Keys that readers of this thread have read, for the test of the reference table.
    pub(super) static READ_KEYS: std::cell::RefCell<std::collections::BTreeSet<String>> =
        const { std::cell::RefCell::new(std::collections::BTreeSet::new()) };
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
    /// A reader of keys with `prefix`, which the methods add to their argument.
    pub(crate) fn new(source: &'a BTreeMap<String, String>, prefix: &'a str) -> Self {
        Self { source, prefix, errors: Vec::new() }
    }

    pub(crate) fn into_errors(self) -> Vec<SettingError> {
        self.errors
    }

    /// Adds an error that the caller has found.
    pub(crate) fn push_error(&mut self, error: SettingError) {
        self.errors.push(error);
    }

    /// Full name of a key.
    pub(crate) fn name(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    /// Whether the key already has an error. Checks against other keys must then be skipped.
    pub(crate) fn has_error(&self, key: &str) -> bool {
        let name = self.name(key);
        self.errors.iter().any(|error| error.key == name)
    }

    /// Text of a key as written, else `default`.
    pub(crate) fn text_or(&self, key: &str, default: impl ToString) -> String {
        self.entry(key).map_or_else(|| default.to_string(), |(_, text)| text.to_owned())
    }

    pub(crate) fn float(&mut self, key: &str, bound: &Bound<f64>) -> Option<f64> {
        self.read(key, bound.words, |text| float(text).filter(|v| (bound.accepts)(*v)))
    }

    pub(crate) fn integer(&mut self, key: &str, bound: &Bound<u32>) -> Option<u32> {
        self.read(key, bound.words, |text| text.parse().ok().filter(|v| (bound.accepts)(*v)))
    }

    pub(crate) fn duration(&mut self, key: &str, bound: &Bound<Duration>) -> Option<Duration> {
        self.read(key, bound.words, |text| parse_duration(text).ok().filter(|d| (bound.accepts)(*d)))
    }

    pub(crate) fn boolean(&mut self, key: &str) -> Option<bool> {
        self.read(key, bounds::BOOLEAN, |text| match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
            _ => None,
        })
    }

    /// Reads a value with `parse`, which receives the trimmed text and returns `None` for values
    /// that `words` do not describe.
    pub(crate) fn read<T>(
        &mut self,
        key: &str,
        words: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        #[cfg(test)]
        READ_KEYS.with_borrow_mut(|keys| keys.insert(key.to_owned()));
        let (name, text) = self.entry(key)?;
        let value = parse(text.trim());
        if value.is_none() {
            self.errors.push(SettingError::new(name, text, words));
        }
        value
    }

    fn entry(&self, key: &str) -> Option<(String, &'a str)> {
        let name = self.name(key);
        let text = self.source.get(&name)?.as_str();
        Some((name, text))
    }
}

/// Sets `setting` if a value was given.
pub(super) fn set<T>(setting: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *setting = given;
    }
}

/// Parses a finite number.
pub(crate) fn float(text: &str) -> Option<f64> {
    text.parse().ok().filter(|v: &f64| v.is_finite())
}

#[cfg(test)]
mod tests {
    use super::super::bounds::{BURST_CAPACITY, SIZE};
    use super::*;

    fn source(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn float_of(text: &str) -> Option<f64> {
        SettingReader::new(&source(&[("v", text)]), "").float("v", &BURST_CAPACITY)
    }

    fn integer_of(text: &str) -> Option<u32> {
        SettingReader::new(&source(&[("v", text)]), "").integer("v", &SIZE)
    }

    #[test]
    fn rejects_numbers_that_are_not_finite_or_out_of_bounds() {
        for (text, value) in [("0", 0.0), ("-1", -1.0), (" 7.5\n", 7.5), ("1e3", 1000.0), ("+.5", 0.5)] {
            assert_eq!(float_of(text), Some(value), "{text:?}");
        }
        for bad in
            ["", " ", "NaN", "inf", "-inf", "Infinity", "1e999", "-0.5", "1,5", "1 5", "0x10", "70%", "٣"]
        {
            assert_eq!(float_of(bad), None, "{bad:?}");
        }
        for (text, value) in [("0", 0), ("+7", 7), (" 7 ", 7), ("2147483647", 2_147_483_647)] {
            assert_eq!(integer_of(text), Some(value), "{text:?}");
        }
        for bad in ["", "-1", "2147483648", "99999999999999999999", "1.0", "1e3", "0x1", "one"] {
            assert_eq!(integer_of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn booleans_accept_the_same_values_as_go() {
        let boolean = |text| SettingReader::new(&source(&[("v", text)]), "").boolean("v");
        for yes in ["1", "t", "T", "true", "TRUE", "True", " true "] {
            assert_eq!(boolean(yes), Some(true), "{yes:?}");
        }
        for no in ["0", "f", "F", "false", "FALSE", "False"] {
            assert_eq!(boolean(no), Some(false), "{no:?}");
        }
        for bad in ["", "yes", "on", "tRUE", "2"] {
            assert_eq!(boolean(bad), None, "{bad:?}");
        }
    }
}
