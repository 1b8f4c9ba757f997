//! Golden values of Knative's `pkg/autoscaler/aggregation/bucketing_test.go`. The laws for any
//! sequence are in `window/laws.rs`.

use super::*;

const START: Duration = Duration::from_secs(1_600_000_000);

fn at(seconds: f64) -> Duration {
    START + Duration::from_secs_f64(seconds)
}

fn ring(window: u64, granularity: u64) -> TimedBuckets {
    TimedBuckets::new(Duration::from_secs(window), Duration::from_secs(granularity))
}

/// TestTimedFloat64BucketsWindowAverage: one running sequence.
#[test]
fn average_follows_writes_gaps_and_late_data() {
    let mut window = ring(5, 1);
    window.record(START, 1.0);
    assert_eq!(window.average(START), 1.0); // B1
    for i in 1..5 {
        window.record(at(f64::from(i)), f64::from(i + 1));
    }
    assert_eq!(window.average(at(4.0)), 3.0); // B2
    assert_eq!(window.average(at(3.6)), 3.0, "before the last write"); // B3
    assert_eq!(window.average(at(6.0)), 4.0, "(15 - 1 - 2) / 3 after a short gap"); // B4
    assert_eq!(window.average(at(10.0)), 0.0, "after a long gap"); // B5
    window.record(at(6.0), 91.0);
    assert_eq!(window.average(at(6.0)), 20.6, "the gap counts as zero"); // B6

    let t1 = 60.0;
    window.record(at(t1), 1984.0);
    assert_eq!(window.average(at(t1)), 1984.0); // B7
    window.record(at(t1 - 3.0), 4.0);
    assert_eq!(window.average(at(t1)), 497.0, "late data moves the start backwards"); // B8

    let t2 = t1 + 1.0;
    for (record_at, value, read_at, expected) in [
        (t2, 5.0, t2, 398.6),             // B9
        (t2 - 3.0, 10.0, t2, 400.6),      // B10
        (t2 - 6.0, 10.0, t2, 400.6),      // B11: too old
        (t2 - 5.0, 10.0, t2, 400.6),      // B12: just too old
        (t2 + 5.0, 10.0, t2 + 5.0, 10.0), // B13: a gap of one window starts anew
    ] {
        window.record(at(record_at), value);
        assert_eq!(window.average(at(read_at)), expected, "record {value} at {record_at}");
    }
}

/// TestTimedFloat64BucketsDescendingRecord.
#[test]
fn accepts_seconds_in_reverse_order() {
    let mut window = ring(5, 1);
    for t in (0..=8).rev() {
        window.record(at(f64::from(t)), 5.0);
    }
    assert_eq!(window.average(at(5.0)), 5.0); // B14
}

/// TestTimedFloat64BucketsHoles.
#[test]
fn gap_inside_the_window_counts_as_zeros() {
    let mut window = ring(5, 1);
    for t in 0..5 {
        window.record(at(f64::from(t)), f64::from(t + 1));
    }
    window.record(at(8.0), 2.0);
    assert_eq!(window.newest_first().sum::<f64>(), 7.0); // B15
    assert_eq!(window.average(at(8.0)), 1.4);
}

/// TestTimedFloat64BucketsSimple.
#[test]
fn values_of_one_bucket_add_up() {
    let mut fine = ring(120, 1);
    for (t, value) in [(0.0, 1.0), (0.1, 10.0), (1.0, 1.0), (3.0, 1.0)] {
        fine.record(at(t), value);
    }
    assert_eq!(fine.newest_first().take(4).collect::<Vec<_>>(), [1.0, 0.0, 1.0, 11.0]); // B16

    let mut coarse = ring(120, 5);
    for (t, value) in [(0.0, 1.0), (3.0, 11.0), (6.0, 1.0)] {
        coarse.record(at(t), value);
    }
    assert_eq!(coarse.newest_first().take(2).collect::<Vec<_>>(), [1.0, 12.0]); // B17
}

/// TestTimedFloat64BucketsManyReps.
#[test]
fn values_of_one_second_add_up_in_any_order_of_seconds() {
    for order in [[0, 1, 2, 3, 4], [0, 3, 2, 1, 4]] {
        let mut window = ring(60, 1);
        for t in order {
            for pod in 0..5 {
                window.record(at(f64::from(t)), f64::from(pod + t));
            }
        }
        assert_eq!(window.newest_first().sum::<f64>(), 100.0, "{order:?}"); // B18
    }
}

/// TestTimedFloat64BucketsWindowUpdate.
#[test]
fn resize_keeps_newest_and_averages_over_old_length_first() {
    let mut window = ring(5, 1);
    for t in 0..6 {
        window.record(at(f64::from(t)), f64::from(t + 1));
    }
    let state = |w: &TimedBuckets, t: f64| (w.newest_first().sum::<f64>(), w.average(at(t)));
    assert_eq!(state(&window, 5.0), (20.0, 4.0)); // B19
    window.resize(Duration::from_secs(10), at(5.0));
    assert_eq!(state(&window, 5.0), (20.0, 4.0)); // B20
    window.record(at(6.0), 7.0);
    assert_eq!(state(&window, 6.0), (27.0, 4.5)); // B21
    window.resize(Duration::from_secs(4), at(6.0));
    assert_eq!(state(&window, 6.0), (22.0, 5.5)); // B22
}

#[test]
fn window_is_empty_before_first_write_and_after_its_length() {
    let mut window = ring(5, 1);
    assert!(window.is_empty(START));
    window.record(START, 0.0);
    assert!(!window.is_empty(at(5.9)), "exactly the window ago is not empty");
    assert!(window.is_empty(at(6.0)));
}

/// TestRoundToNDigits, which rounds to three digits; here averages always have six.
#[test]
fn averages_are_rounded_half_away_from_zero() {
    assert_eq!([0.001_234_5, -0.001_234_5].map(round_to_six), [0.001_235, -0.001_235]); // B23
    let mut window = ring(5, 1);
    window.record(at(0.0), 0.0);
    window.record(at(1.0), 0.0);
    window.record(at(2.0), 2.0);
    assert_eq!(window.average(at(2.0)), 0.666_667);
}

#[test]
fn resize_of_empty_window_resets_its_start() {
    let mut window = ring(5, 1);
    window.record(at(0.0), 7.0);
    window.resize(Duration::from_secs(10), at(6.0));
    assert_eq!(window.average(at(6.0)), 0.0, "no data is left");
    window.record(at(2.0), 8.0);
    assert_eq!(window.average(at(2.0)), 8.0, "the start is set again");
}

#[test]
fn resize_exactly_one_window_after_last_write_keeps_data() {
    let mut window = ring(5, 1);
    window.record(at(0.0), 7.0);
    window.resize(Duration::from_secs(10), at(5.0));
    assert_eq!(window.average(at(0.0)), 1.4, "over the old length");
}

#[test]
fn drops_values_that_are_not_finite_or_too_large() {
    let mut window = ring(5, 1);
    for invalid in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, -2.0 * MAX_VALUE] {
        window.record(START, invalid);
    }
    assert!(window.is_empty(START), "no value was recorded");
    for value in [MAX_VALUE, -MAX_VALUE, 3.0] {
        window.record(START, value);
    }
    assert_eq!(window.average(START), 3.0);
}

#[test]
fn extreme_lengths_make_bounded_rings() {
    for (window, granularity, buckets) in [
        (Duration::ZERO, Duration::ZERO, 1),
        (Duration::from_millis(999), Duration::from_millis(999), 1),
        (Duration::MAX, Duration::from_secs(1), 86_400),
        (Duration::MAX, Duration::MAX, 86_400),
        (Duration::from_secs(7), Duration::MAX, 1),
        (Duration::from_secs(7), Duration::from_secs(2), 4),
        (Duration::from_secs(6), Duration::from_secs(2), 3),
    ] {
        let mut ring = TimedBuckets::new(window, granularity);
        assert_eq!(ring.len(), buckets, "{window:?} in {granularity:?}");
        ring.record(START, 1.0);
        assert_eq!(ring.average(START), 1.0);
        ring.resize(Duration::MAX, START);
        assert_eq!(ring.len(), 86_400, "{window:?} in {granularity:?}, resized");
    }
}

#[test]
fn accepts_the_largest_time() {
    let mut window = ring(5, 1);
    for time in [START, Duration::MAX, START, Duration::ZERO] {
        window.record(time, 2.0);
    }
    assert_eq!(window.average(Duration::MAX), 2.0);
    window.resize(Duration::from_secs(6), Duration::MAX);
    assert!(!window.is_empty(Duration::MAX));
}
