//! Reads typed, bounded values out of a map of strings, and keeps every complaint.

use std::collections::BTreeMap;
use std::time::Duration;

/// A value that is out of its bounds, or not of its type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} is {value:?}, but must be {bound}")]
pub struct SettingError {
    /// The ConfigMap's key, or the annotation's whole name.
    pub key: String,
    /// The text that was given.
    pub value: String,
    /// What would have been accepted.
    pub bound: &'static str,
}

/// A map of strings being read; absent keys are `None`, bad ones are `None` and an error.
pub(crate) struct Bounded<'a> {
    source: &'a BTreeMap<String, String>,
    prefix: &'a str,
    errors: Vec<SettingError>,
}

// === impl Bounded ===

impl<'a> Bounded<'a> {
    pub(crate) fn new(source: &'a BTreeMap<String, String>, prefix: &'a str) -> Self {
        Self { source, prefix, errors: Vec::new() }
    }

    pub(crate) fn into_errors(self) -> Vec<SettingError> {
        self.errors
    }

    pub(crate) fn float(
        &mut self,
        key: &str,
        bound: &'static str,
        accept: impl Fn(f64) -> bool,
    ) -> Option<f64> {
        self.choice(key, bound, |text| text.parse().ok().filter(|v: &f64| v.is_finite() && accept(*v)))
    }

    pub(crate) fn integer(
        &mut self,
        key: &str,
        bound: &'static str,
        accept: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        self.choice(key, bound, |text| text.parse().ok().filter(|v| accept(*v)))
    }

    pub(crate) fn boolean(&mut self, key: &str) -> Option<bool> {
        self.choice(key, "true or false", |text| text.parse().ok())
    }

    pub(crate) fn duration(
        &mut self,
        key: &str,
        bound: &'static str,
        accept: impl Fn(Duration) -> bool,
    ) -> Option<Duration> {
        self.choice(key, bound, |text| parse_duration(text).filter(|d| accept(*d)))
    }

    pub(crate) fn choice<T>(
        &mut self,
        key: &str,
        bound: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let key = format!("{}{key}", self.prefix);
        let text = self.source.get(&key)?;
        let value = parse(text.trim());
        if value.is_none() {
            self.errors.push(SettingError { key, value: text.clone(), bound });
        }
        value
    }
}

/// A duration as Go writes it: `90s`, `1m30s`, `1h`, `500ms`, or `0`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let seconds = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 0.001,
            _ => return None,
        };
        let part = Duration::try_from_secs_f64(number.parse::<f64>().ok()? * seconds).ok()?;
        total = total.checked_add(part)?;
        rest = tail;
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_go_writes_them() {
        for (text, milliseconds) in
            [("60s", 60_000), ("1m30s", 90_000), ("1h", 3_600_000), ("500ms", 500), ("0", 0), ("1.5s", 1500)]
        {
            assert_eq!(parse_duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for bad in ["", "s", "60", "-1s", "1d", "1s ", "..s", "1e400s"] {
            assert_eq!(parse_duration(bad), None, "{bad}");
        }
    }
}
