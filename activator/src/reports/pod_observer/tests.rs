//! The stats of pods by the ends of their requests. The clock is paused, so times are exact.

use std::time::Duration;

use tokio::time::advance;

use super::*;

const POD: [u8; 4] = [10, 0, 0, 1];
const OBJECTIVE: Duration = Duration::from_millis(200);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn observer() -> PodObserver {
    let observer = PodObserver::default();
    observer.set(Some(Observation { objective: Some(OBJECTIVE) }));
    observer
}

fn enter(observer: &PodObserver) -> Box<ObservedRequest> {
    observer.enter(POD.into()).unwrap()
}

/// Requests, milliseconds in the app, errors and misses of a period that ends a second later.
async fn sums(observer: &PodObserver) -> [u64; 4] {
    // The first period is longer by the part of the wall clock's second before it.
    advance(ms(1000)).await;
    let period = observer.state.lock().pods[&POD.into()].lock().stats.clone();
    let seconds = period.clone().report(Instant::now().into_std()).period.as_secs_f64();
    let app = observer.end_period(Instant::now())[0].1.app;
    assert_eq!(app.objective_micros, 200_000);
    [app.completions, app.seconds * 1000.0, app.errors, app.misses]
        .map(|rate| (rate * seconds).round() as u64)
}

#[tokio::test(start_paused = true)]
async fn counts_each_end_by_its_cause() {
    type End = fn(Box<ObservedRequest>);
    let respond: fn(u16) -> Option<StatusCode> = |status| StatusCode::from_u16(status).ok();
    let complete: End = |mut request| request.complete(false);
    let cut: End = |mut request| request.complete(true);
    let ends: [(&str, Option<StatusCode>, End, [u64; 4]); 6] = [
        ("complete", respond(200), complete, [1, 300, 0, 1]),
        ("cut, or a gRPC status of failure", respond(200), cut, [1, 300, 1, 0]),
        ("client left during the response", respond(200), drop, [1, 0, 0, 0]),
        ("no response", None, |mut request| request.fail(true), [1, 300, 1, 0]),
        ("not received", None, |mut request| request.fail(false), [0, 0, 0, 0]),
        ("upgraded", respond(101), drop, [0, 0, 0, 0]),
    ];
    for (name, status, end, expected) in ends {
        let observer = observer();
        let mut request = enter(&observer);
        advance(ms(300)).await;
        status.into_iter().for_each(|status| request.respond(status));
        end(request);
        assert_eq!(sums(&observer).await, expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn concurrency_is_the_time_that_requests_were_on_the_pod() {
    let observer = observer();
    let (one, other) = (enter(&observer), enter(&observer));
    observer.end_period(Instant::now());
    advance(ms(500)).await;
    drop(one);
    advance(ms(500)).await;
    let (pod, period) = observer.end_period(Instant::now())[0];
    assert_eq!((pod, period.concurrency, period.requests_per_second), (POD.into(), 1.5, 0.0));
    drop(other);
    advance(ms(1000)).await;
    assert_eq!(observer.end_period(Instant::now())[0].1.concurrency, 0.0);
    assert_eq!(observer.end_period(Instant::now()), [], "an idle pod is reported once");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_observed_unless_a_target_is_learned() {
    let observer = PodObserver::default();
    assert!(observer.enter(POD.into()).is_none());
    observer.set(Some(Observation { objective: None }));
    let running = observer.enter(POD.into());
    observer.set(None);
    drop(running);
    assert!(observer.enter(POD.into()).is_none());
    assert_eq!(observer.end_period(Instant::now()), []);
}
