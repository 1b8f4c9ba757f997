//! The metrics and labels that a query in PromQL names.
//!
//! Only what the queries of `deploy/monitoring` use is understood: names that begin with `rouse_`,
//! matchers in braces, and labels in parentheses after `by`, `on` and `without`.

/// First characters of all metrics.
const PREFIX: &str = "rouse_";

/// A metric with the labels of its matchers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// Name of the series, with the suffix of a histogram.
    pub series: String,
    /// Labels of its matchers.
    pub labels: Vec<String>,
}

/// The selectors of a query, in order.
pub fn selectors(query: &str) -> Vec<Selector> {
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(at) = rest.find(PREFIX) {
        let (_, from) = rest.split_at(at);
        let end = from.find(|c: char| !is_name(c)).unwrap_or(from.len());
        let (series, after) = from.split_at(end);
        let matchers = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let labels = matchers.map(|(matchers, _)| matcher_labels(matchers)).unwrap_or_default();
        found.push(Selector { series: series.to_owned(), labels });
        rest = after;
    }
    found
}

/// The labels by which a query groups and joins.
pub fn grouping_labels(query: &str) -> Vec<String> {
    let keywords = ["by (", "on (", "without ("];
    let lists = keywords.iter().flat_map(|keyword| query.split(keyword).skip(1));
    let labels = lists.flat_map(|list| list.split(')').next().unwrap_or_default().split(','));
    labels.map(str::trim).filter(|label| !label.is_empty()).map(str::to_owned).collect()
}

/// Labels of `a="x", b!~"y"`. Values have no commas.
fn matcher_labels(matchers: &str) -> Vec<String> {
    let names = matchers.split(',').filter_map(|matcher| matcher.split(['=', '!']).next());
    names.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_metrics_matchers_and_grouping_labels() {
        let query = "sum by (kind, le) (rate(rouse_a_bucket{x=\"1\", y!~\"2|3\"}[5m])) / on () rouse_b > 1";
        let selector = |series: &str, labels: &[&str]| Selector {
            series: series.to_owned(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        };
        assert_eq!(selectors(query), [selector("rouse_a_bucket", &["x", "y"]), selector("rouse_b", &[])]);
        assert_eq!(grouping_labels(query), ["kind", "le"]);
    }
}
