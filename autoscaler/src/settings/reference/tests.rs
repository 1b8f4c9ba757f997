//! Comparison of the table with the parser.

use std::collections::{BTreeMap, BTreeSet};

use super::super::config::AutoscalerConfig;
use super::super::reader::READ_KEYS;
use super::super::workload::Settings;
use super::*;
use crate::contract::GROUP;

const INVALID: &str = "?";

fn config_map(key: &str, value: &str) -> BTreeMap<String, String> {
    [(key.to_owned(), value.to_owned())].into()
}

fn annotation(name: &str, value: &str) -> BTreeMap<String, String> {
    [(format!("{GROUP}/{name}"), value.to_owned())].into()
}

/// Keys that `parse` reads.
fn keys_of(parse: impl FnOnce()) -> BTreeSet<String> {
    READ_KEYS.with_borrow_mut(BTreeSet::clear);
    parse();
    READ_KEYS.with_borrow(BTreeSet::clone)
}

fn owned(names: impl Iterator<Item = &'static str>) -> BTreeSet<String> {
    names.map(str::to_owned).collect()
}

#[test]
fn table_lists_exactly_the_keys_that_the_parser_reads() {
    let keys = keys_of(|| assert!(AutoscalerConfig::parse(&BTreeMap::new()).is_ok()));
    assert_eq!(owned(reference().iter().filter_map(|setting| setting.config_map_key)), keys);
    let names = keys_of(|| drop(Settings::resolve(&AutoscalerConfig::default(), &BTreeMap::new())));
    assert_eq!(owned(reference().iter().filter_map(|setting| setting.annotation)), names);
}

#[test]
fn table_has_the_bounds_that_the_parser_reports() {
    for setting in reference() {
        if let Some(key) = setting.config_map_key {
            let errors = AutoscalerConfig::parse(&config_map(key, INVALID)).unwrap_err();
            let bounds: Vec<_> = errors.iter().map(|error| error.bound.as_ref()).collect();
            assert_eq!(bounds, [setting.config_map_bounds], "{key}");
        }
        if let Some(name) = setting.annotation {
            let (_, errors) = Settings::resolve(&AutoscalerConfig::default(), &annotation(name, INVALID));
            let bounds: Vec<_> = errors.iter().map(|error| error.bound.as_ref()).collect();
            assert_eq!(bounds, [setting.annotation_bounds], "{name}");
        }
    }
}

#[test]
fn table_has_the_defaults_that_the_parser_uses() {
    for setting in reference() {
        let default = setting.default.unwrap_or_default();
        if let Some(key) = setting.config_map_key {
            let parsed = AutoscalerConfig::parse(&config_map(key, default)).unwrap();
            assert_eq!(parsed, AutoscalerConfig::default(), "{key}");
        } else if let Some(name) = setting.annotation.filter(|_| setting.default.is_some()) {
            let config = AutoscalerConfig::default();
            let (mut given, errors) = Settings::resolve(&config, &annotation(name, default));
            assert_eq!(errors, [], "{name}");
            // The metric is unset without an annotation; the default applies when the spec is read.
            if name == "metric" {
                assert_eq!(
                    given.metric.take().map(crate::contract::metric_name::MetricName::as_str),
                    Some(default)
                );
            }
            assert_eq!(given, Settings::resolve(&config, &BTreeMap::new()).0, "{name}");
        }
    }
}

#[test]
fn table_lists_each_setting_once_and_describes_it_in_sentences() {
    let names: Vec<_> =
        reference().iter().map(|setting| (setting.config_map_key, setting.annotation)).collect();
    let unique: BTreeSet<_> = names.iter().collect();
    assert_eq!(unique.len(), names.len());
    for setting in reference() {
        assert!(setting.description.ends_with('.') && !setting.description.contains("  "), "{setting:?}");
    }
}
