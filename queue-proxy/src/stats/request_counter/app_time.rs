//! The time in the app of requests that end in each way. The clock is paused, so it is exact.

use tokio::time::advance;

use super::*;

const OBJECTIVE: Duration = Duration::from_millis(200);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A counter. The objective holds from its present period on.
fn counter() -> Arc<RequestCounter> {
    let metrics = Metrics::register(&prometheus::Registry::new()).unwrap();
    let counter = Arc::new(RequestCounter::new(now(), Duration::ZERO, metrics));
    counter.report(now(), Some(OBJECTIVE));
    counter
}

/// A request that the app received after this time in the queue.
async fn received(counter: &Arc<RequestCounter>, queued: Duration) -> InFlightRequest {
    let mut request = counter.enter(false);
    advance(queued).await;
    request.enter_app(now());
    request
}

/// The sums of a period that ends now, as (completions, milliseconds in the app, errors, misses).
fn sums(counter: &RequestCounter) -> [u64; 4] {
    let (requests, app) = counter.report(now(), Some(OBJECTIVE));
    let seconds = requests.period.as_secs_f64();
    [app.completions, app.seconds * 1000.0, app.errors, app.misses]
        .map(|rate| (rate * seconds).round() as u64)
}

#[tokio::test(start_paused = true)]
async fn slow_response_is_one_miss_and_time_in_the_queue_is_none() {
    let counter = counter();
    for (queued, in_app) in [(1000, 200), (1000, 201), (0, 150)] {
        let mut request = received(&counter, ms(queued)).await;
        advance(ms(in_app)).await;
        request.set_status(StatusCode::OK);
        request.end(false);
    }
    assert_eq!(sums(&counter), [3, 551, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn counts_each_end_by_its_cause() {
    type End = fn(InFlightRequest);
    let (complete, cut, left): (End, End, End) =
        (|request| request.end(false), |request| request.end(true), drop);
    let upgrade: End = |mut request| request.leave_app();
    let ends: [(&str, Option<u16>, End, [u64; 4]); 5] = [
        ("complete", Some(200), complete, [1, 300, 0, 1]),
        ("no response", Some(502), left, [1, 300, 1, 0]),
        ("cut response", Some(200), cut, [1, 300, 1, 0]),
        ("cancelled in the response", Some(200), left, [1, 0, 0, 0]),
        ("upgraded", Some(101), upgrade, [0; 4]),
    ];
    let counter = counter();
    for (name, status, end, expected) in ends {
        let mut request = received(&counter, ms(50)).await;
        advance(ms(300)).await;
        if let Some(status) = status {
            request.set_status(StatusCode::from_u16(status).unwrap());
        }
        end(request);
        advance(ms(700)).await;
        assert_eq!(sums(&counter), expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn request_that_the_app_never_received_is_no_end() {
    let counter = counter();
    let mut rejected = counter.enter(false);
    let cancelled = counter.enter(true);
    advance(ms(500)).await;
    rejected.set_status(StatusCode::SERVICE_UNAVAILABLE);
    drop((rejected, cancelled));
    assert_eq!(sums(&counter), [0; 4]);
}
