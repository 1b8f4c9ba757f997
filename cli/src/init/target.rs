//! The target of a workload: the user's number, or none, and then Rouse finds it.

use autoscaler::contract::{CONTAINER_CONCURRENCY, METRIC_CONCURRENCY, METRIC_DESIRED, PROTOCOL};
use serde_json::Value;

/// What the HPA scales on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) metric: &'static str,
    pub(super) average: String,
    /// Its source, as a sentence.
    pub(super) source: String,
    /// The pods' own limit of concurrent requests, for an HPA that has to state it.
    pub(super) limit: Option<u32>,
    /// Whether it is a metric of type Object, of the Service, and not an external one.
    pub(super) of_service: bool,
}

/// The target of pods of this template, or why it needs a number. `given` is the user's.
pub(super) fn target(template: &Value, given: Option<u32>) -> Result<Target, String> {
    let limit = annotation(template, CONTAINER_CONCURRENCY).and_then(|limit| limit.parse().ok());
    let limit = limit.filter(|limit| (1..=1000).contains(limit));
    match given {
        Some(number) => Ok(Target {
            metric: METRIC_CONCURRENCY,
            average: number.to_string(),
            source: format!("target {number}, as given"),
            limit,
            of_service: false,
        }),
        None if annotation(template, PROTOCOL) == Some("tcp") => {
            Err("the pods serve TCP, of which no target is learned; add --concurrency with the connections that one \
                 pod should carry"
                .to_owned())
        }
        None => Ok(Target {
            metric: METRIC_DESIRED,
            average: "1".to_owned(),
            source: "no target: Rouse finds it from requests shorter than 20 s, and begins with 2 at a time; name \
                     --concurrency for longer requests, or if you know the number"
                .to_owned(),
            limit,
            of_service: false,
        }),
    }
}

fn annotation<'a>(template: &'a Value, name: &str) -> Option<&'a str> {
    template.pointer("/metadata/annotations")?.get(name)?.as_str()
}
