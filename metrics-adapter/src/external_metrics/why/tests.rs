use autoscaler::history::FirstRequest;
use autoscaler::learning_report::Phase;
use autoscaler::settings::LearnTarget::{self, Apply, Recommend};

use super::*;
use crate::decisions::decision_history::TargetChange;
use crate::external_metrics::value::tests::{decide, values};

/// The report on a workload with a load of 160, a target of 20, and this learned one.
fn why(mode: LearnTarget, learned: f64) -> WhyReport {
    why_of(&Workload::learning("web", mode, 20.0), learned)
}

fn why_of(workload: &Workload, learned: f64) -> WhyReport {
    let values = values(workload, 160.0);
    decide(&values, workload, learned, 20, false);
    let change = TargetChange { at: 1000, from: 20.0, to: learned, phase: Phase::Exploring };
    values.history.record_target_change(&workload.key, change);
    WhyReport::new(&values, "shop", "web").unwrap()
}

#[test]
fn shows_the_learned_target_in_force_with_its_evidence_and_changes() {
    let applied = why(Apply, 8.0);
    let text = applied.text();
    for part in [
        "concurrency 400, target 20 per pod",
        "learning (Apply): target 8 is in force",
        "the value above is the load × 20 / 8",
        "Settled, confidence 0 %, 0 changes, 0 reverted: no requests at this target yet",
        "1970-01-01T00:00:01Z target 20 → 8, Exploring",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let learning = &applied.json()["learning"];
    assert_eq!((&learning["mode"], &learning["targetInForce"]), (&json!("Apply"), &json!(8.0)));
    assert_eq!(learning["learned"]["phase"], "Settled");
    assert_eq!(learning["lastChanges"][0]["to"], 8.0);
}

#[test]
fn shows_the_recommended_target_beside_the_one_in_force() {
    let recommended = why(Recommend, 8.0);
    let text = recommended.text();
    assert!(text.contains("concurrency 160, target 20 per pod"), "{text}");
    assert!(text.contains("learning (Recommend): target 20 is in force"), "{text}");
    assert!(text.contains("8 is recommended"), "{text}");
    assert_eq!(recommended.json()["learning"]["targetInForce"], 20.0);
    assert!(why(Apply, 20.0).text().contains("target 20, as given"));
}

#[test]
fn names_no_given_target_where_there_is_none() {
    let mut workload = Workload::learning("web", Apply, 70.0);
    workload.learning.as_mut().unwrap().spec.factor = None;
    let text = why_of(&workload, 8.0).text();
    assert!(text.contains("without a given target it began at 70"), "{text}");
    assert!(!text.contains("for an HPA with target"), "{text}");
    let text = why_of(&workload, 70.0).text();
    assert!(text.contains("target 70, from which learning begins"), "{text}");
}

#[test]
fn shows_nothing_about_learning_where_it_is_off() {
    let workload = Workload { learning: None, ..Workload::learning("web", Apply, 20.0) };
    let values = values(&workload, 160.0);
    decide(&values, &workload, 8.0, 8, false);
    let report = WhyReport::new(&values, "shop", "web").unwrap();
    assert!(!report.text().contains("learning"), "{}", report.text());
    assert_eq!(report.json()["learning"], Value::Null);
}

#[test]
fn names_the_flag_to_raise_while_the_hpa_queries_late() {
    let workload = Workload::learning("web", Recommend, 20.0);
    let values = values(&workload, 160.0);
    decide(&values, &workload, 8.0, 8, false);
    let report = |at| {
        values.history.record_query(&workload.key, at);
        let report = WhyReport::new(&values, "shop", "web").unwrap();
        (
            report.text().contains("each 30 s or later, instead of each 15 s; 600 HPAs"),
            report.json()["hpaQueryIntervalSeconds"].clone(),
        )
    };
    assert_eq!(report(1_000), (false, Value::Null), "one query has no interval");
    assert_eq!(report(52_000), (true, json!(51)));
    assert_eq!(report(67_000), (false, json!(15)));
}

#[test]
fn names_the_client_that_keeps_the_workload_awake() {
    let workload = Workload::learning("web", Recommend, 20.0);
    let values = values(&workload, 160.0);
    decide(&values, &workload, 8.0, 8, false);
    let now = component_base::clock::unix_millis();
    let scrape = FirstRequest::of_http([10, 1, 2, 3].into(), "GET", "/metrics", Some(b"Prometheus/3.5.0"));
    for ago in [60_000, 30_000, 0] {
        values.history.record_first_request(&workload.key, scrape.clone(), now - ago);
    }
    values.history.record_first_request(&Key::new("shop", "unknown"), scrape, now);
    let report = WhyReport::new(&values, "shop", "web").unwrap();
    let line = "kept awake by \"Prometheus/3.5.0\" from 10.1.2.3, each 30 s";
    assert!(report.text().contains(line), "{}", report.text());
    assert_eq!(report.json()["firstRequests"][0]["count"], 3);
}
