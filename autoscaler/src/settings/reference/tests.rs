//! Comparison of the table with the parser.

use std::collections::{BTreeMap, BTreeSet};

use super::super::config::AutoscalerConfig;
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
        let default = setting.default.as_deref().unwrap_or_default();
        if let Some(key) = setting.config_map_key {
            let parsed = AutoscalerConfig::parse(&config_map(key, default)).unwrap();
            assert_eq!(parsed, AutoscalerConfig::default(), "{key}");
        } else if let Some(name) = setting.annotation.filter(|_| setting.default.is_some()) {
            let config = AutoscalerConfig::default();
            let (given, errors) = Settings::resolve(&config, &annotation(name, default));
            assert_eq!(errors, [], "{name}");
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
        for text in [setting.meaning, setting.when] {
            assert!(text.ends_with('.') && !text.contains("  "), "{setting:?}");
        }
        assert!(setting.when.starts_with("Set it "), "{setting:?}");
    }
}
