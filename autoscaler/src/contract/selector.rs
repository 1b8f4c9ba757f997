//! Label selectors in their text form: `app=web,tier in (a, b),!legacy`.
//!
//! Input: `status.selector` of a `/scale` subresource, the selector of a Service, and the
//! `labelSelector` parameter of a metrics query. Used to match pods, and to read the required label
//! of a metrics query.

use std::collections::BTreeMap;
use std::fmt;

/// A parsed selector: all its requirements must match. Without requirements it matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

/// A condition on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Requirement {
    /// The label exists and has one of these values.
    In(String, Vec<String>),
    /// The label is absent or has none of these values.
    NotIn(String, Vec<String>),
    /// The label exists.
    Exists(String),
    /// The label is absent.
    DoesNotExist(String),
}

/// Error for a text that is not a label selector.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{text:?} is not a label selector: {reason}")]
pub struct ParseSelectorError {
    text: String,
    reason: &'static str,
}

// === impl Selector ===

impl Selector {
    /// Parses the text form; the empty text selects everything.
    ///
    /// # Errors
    /// If the text does not follow the grammar of Kubernetes, set operators included. `>` and `<`
    /// are not supported.
    pub fn parse(text: &str) -> Result<Self, ParseSelectorError> {
        let fail = |reason| ParseSelectorError { text: text.to_owned(), reason };
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let requirements = split_requirements(text)
            .map_err(fail)?
            .into_iter()
            .map(parse_requirement)
            .collect::<Result<_, _>>();
        Ok(Self { requirements: requirements.map_err(fail)? })
    }

    /// Parses a text that names one value for each label, as the selector of a Service does; `None`
    /// if it is empty, invalid, or contains more than that.
    pub fn parse_labels(text: &str) -> Option<Self> {
        let selector = Self::parse(text).ok()?;
        let labels = selector.as_labels()?;
        // A label with two values selects nothing.
        let is_unique = labels.len() == selector.requirements.len();
        (is_unique && !labels.is_empty()).then(|| Self::from(&labels))
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(labels))
    }

    /// The requirements, in the order of the text.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// The selector as a map, as a Service needs it; `None` if it contains more than equality.
    pub fn as_labels(&self) -> Option<BTreeMap<String, String>> {
        self.requirements
            .iter()
            .map(|requirement| match requirement {
                Requirement::In(key, values) => match values.as_slice() {
                    [value] => Some((key.clone(), value.clone())),
                    _ => None,
                },
                _ => None,
            })
            .collect()
    }
}

impl From<&BTreeMap<String, String>> for Selector {
    fn from(labels: &BTreeMap<String, String>) -> Self {
        let requirements = labels.iter().map(|(k, v)| Requirement::In(k.clone(), vec![v.clone()])).collect();
        Self { requirements }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, requirement) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match requirement {
                Requirement::In(key, values) => match values.as_slice() {
                    [value] => write!(f, "{key}={value}")?,
                    _ => write!(f, "{key} in ({})", values.join(","))?,
                },
                Requirement::NotIn(key, values) => match values.as_slice() {
                    [value] => write!(f, "{key}!={value}")?,
                    _ => write!(f, "{key} notin ({})", values.join(","))?,
                },
                Requirement::Exists(key) => f.write_str(key)?,
                Requirement::DoesNotExist(key) => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

// === impl Requirement ===

impl Requirement {
    /// The label that it is about.
    pub fn label(&self) -> &str {
        match self {
            Self::In(key, _) | Self::NotIn(key, _) | Self::Exists(key) | Self::DoesNotExist(key) => key,
        }
    }

    /// Whether an object with these labels meets it.
    pub fn holds(&self, labels: &BTreeMap<String, String>) -> bool {
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|v| values.contains(v)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|v| !values.contains(v)),
            Self::Exists(key) => labels.contains_key(key),
            Self::DoesNotExist(key) => !labels.contains_key(key),
        }
    }
}

/// Splits the text at commas outside of parentheses.
fn split_requirements(text: &str) -> Result<Vec<&str>, &'static str> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let mut depth = 0usize;
        let end = rest.char_indices().find_map(|(at, c)| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.checked_sub(1)?,
                ',' if depth == 0 => return Some(at),
                _ => {}
            }
            None
        });
        if depth != 0 {
            return Err("a parenthesis is not closed");
        }
        match end.and_then(|at| Some((rest.get(..at)?, rest.get(at + 1..)?))) {
            Some((part, tail)) => {
                parts.push(part.trim());
                rest = tail;
            }
            None => {
                parts.push(rest.trim());
                return Ok(parts);
            }
        }
    }
}

fn parse_requirement(text: &str) -> Result<Requirement, &'static str> {
    if let Some(key) = text.strip_prefix('!').filter(|rest| !rest.starts_with('=')) {
        return Ok(Requirement::DoesNotExist(label_key(key)?));
    }
    if let Some((key, value)) = text.split_once("!=") {
        return Ok(Requirement::NotIn(label_key(key)?, vec![label_value(value)?]));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return Ok(Requirement::In(label_key(key)?, vec![label_value(value)?]));
    }
    match text.split_once(char::is_whitespace) {
        None => Ok(Requirement::Exists(label_key(text)?)),
        Some((key, set)) => parse_set(label_key(key)?, set.trim()),
    }
}

fn parse_set(key: String, set: &str) -> Result<Requirement, &'static str> {
    let (operator, values) = set.split_once('(').ok_or("a set operator needs values in parentheses")?;
    let values = values.strip_suffix(')').ok_or("a parenthesis is not closed")?;
    let values = values.split(',').map(label_value).collect::<Result<Vec<_>, _>>()?;
    match operator.trim() {
        "in" => Ok(Requirement::In(key, values)),
        "notin" => Ok(Requirement::NotIn(key, values)),
        _ => Err("an operator must be one of = == != in notin !"),
    }
}

/// `[prefix/]name`: at most 253 + 1 + 63 characters of letters, digits, `-`, `_`, `.`.
fn label_key(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    let name = text.rsplit_once('/').map_or(text, |(_, name)| name);
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    if name.is_empty() || name.len() > 63 || text.len() > 317 || !text.chars().all(legal) {
        return Err(
            "a label's name must be 1 to 63 letters, digits, '-', '_' or '.', after an optional prefix and '/'",
        );
    }
    Ok(text.to_owned())
}

fn label_value(text: &str) -> Result<String, &'static str> {
    let text = text.trim();
    if text.len() > 63 || !text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
        return Err("a label's value must be at most 63 letters, digits, '-', '_' or '.'");
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn matches_the_same_labels_as_kubectl() {
        let web = labels(&[("app", "web"), ("tier", "front")]);
        for text in
            ["", "app=web", "app==web", "app in (web, api)", "tier", "!legacy", "tier!=back", "x notin (y)"]
        {
            assert!(Selector::parse(text).unwrap().matches(&web), "{text}");
        }
        for text in ["app=api", "legacy", "!app", "tier notin (front,back)", "app=web,tier=back"] {
            assert!(!Selector::parse(text).unwrap().matches(&web), "{text}");
        }
    }

    #[test]
    fn text_form_round_trips() {
        for text in
            ["app=web", "app in (a,b),!legacy,tier", "a!=b", "a notin (b,c)", "app.kubernetes.io/name=web"]
        {
            assert_eq!(Selector::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn rejects_text_that_is_not_a_selector() {
        for bad in
            ["=web", "app in web", "app in (web", "a b (c)", "app=we b", ",", "app=web,", "app=)", "ü=1"]
        {
            assert!(Selector::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn parse_labels_accepts_one_value_for_each_label() {
        let text = |text: &str| Selector::parse_labels(text).map(|selector| selector.to_string());
        assert_eq!(text("track=stable, app == web"), Some("app=web,track=stable".to_owned()));
        for bad in ["", " ", "app", "app!=web", "app in (a,b)", "app=a,app=b", "app=a b"] {
            assert_eq!(text(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn as_labels_returns_a_map_only_for_equality() {
        assert_eq!(Selector::parse("a=b,c=d").unwrap().as_labels(), Some(labels(&[("a", "b"), ("c", "d")])));
        assert_eq!(Selector::parse("a in (b,c)").unwrap().as_labels(), None);
        assert_eq!(Selector::parse("a").unwrap().as_labels(), None);
    }
}
