use proptest::prelude::*;

use super::*;

fn schedule(text: &str) -> Schedule {
    Schedule::parse(text).unwrap_or_else(|| panic!("{text:?}"))
}

fn millis(time: &str) -> i64 {
    time.parse::<Timestamp>().unwrap().as_millisecond()
}

/// The minimum at a time in RFC 3339.
fn at(schedule: &Schedule, time: &str) -> u32 {
    schedule.minimum(millis(time))
}

/// All changes from a time on, up to another one.
fn changes(schedule: &Schedule, from: &str, to: &str) -> Vec<(String, u32)> {
    let (mut now, to) = (millis(from), millis(to));
    let mut changes = Vec::new();
    while let Some(change) = schedule.next_change(now).filter(|change| change.at < to) {
        assert_eq!(schedule.minimum(change.at - 1), schedule.minimum(now));
        assert_eq!(schedule.minimum(change.at), change.minimum);
        let time = Timestamp::from_millisecond(change.at).unwrap();
        changes.push((time.to_string(), change.minimum));
        now = change.at;
    }
    changes
}

fn owned(changes: &[(&str, u32)]) -> Vec<(String, u32)> {
    changes.iter().map(|(time, minimum)| ((*time).to_owned(), *minimum)).collect()
}

#[test]
fn windows_hold_on_their_days_from_start_to_before_end() {
    let office = schedule("Mon-Fri 07:30-19:00 Europe/Berlin: 2; Sat 10:00-14:00: 1");
    for (time, minimum) in [
        // 2026-11-25 is a Wednesday.
        ("2026-11-25T07:29:59+01:00", 0),
        ("2026-11-25T07:30:00+01:00", 2),
        ("2026-11-25T18:59:59.999+01:00", 2),
        ("2026-11-25T19:00:00+01:00", 0),
        ("2026-11-28T08:00:00+01:00", 0),
        // Without a zone it is UTC.
        ("2026-11-28T09:59:59Z", 0),
        ("2026-11-28T10:00:00Z", 1),
        ("2026-11-28T14:00:00Z", 0),
        ("2026-11-29T12:00:00Z", 0),
        // Berlin has summer time.
        ("2026-07-01T05:29:59Z", 0),
        ("2026-07-01T05:30:00Z", 2),
        ("2026-07-01T17:00:00Z", 0),
    ] {
        assert_eq!(at(&office, time), minimum, "{time}");
    }
}

#[test]
fn window_over_midnight_belongs_to_the_day_on_which_it_starts() {
    let night = schedule("Fri 22:00-06:00 America/New_York: 3");
    assert_eq!(
        changes(&night, "2026-11-23T00:00:00Z", "2026-12-02T00:00:00Z"),
        owned(&[("2026-11-28T03:00:00Z", 3), ("2026-11-28T11:00:00Z", 0)])
    );
    let whole = schedule("Sun 00:00-24:00: 1");
    assert_eq!(
        changes(&whole, "2026-11-25T00:00:00Z", "2026-12-02T00:00:00Z"),
        owned(&[("2026-11-29T00:00:00Z", 1), ("2026-11-30T00:00:00Z", 0)])
    );
    let always = schedule("00:00-24:00: 4");
    assert_eq!(at(&always, "2026-11-25T23:59:59.999Z"), 4);
    assert_eq!(always.next_change(millis("2026-11-25T12:00:00Z")), None);
}

/// In Berlin, clocks go from 02:00 to 03:00 on 2027-03-28, and from 03:00 to 02:00 on 2026-10-25.
#[test]
fn windows_keep_local_times_over_both_changes_of_clocks() {
    let daily = schedule("06:00-22:00 Europe/Berlin: 1");
    assert_eq!(
        changes(&daily, "2027-03-27T12:00:00Z", "2027-03-29T12:00:00Z"),
        owned(&[
            ("2027-03-27T21:00:00Z", 0),
            ("2027-03-28T04:00:00Z", 1),
            ("2027-03-28T20:00:00Z", 0),
            ("2027-03-29T04:00:00Z", 1),
        ])
    );
    assert_eq!(
        changes(&daily, "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z"),
        owned(&[("2026-10-24T20:00:00Z", 0), ("2026-10-25T05:00:00Z", 1)])
    );
    // Seven hours and nine hours long.
    let night = schedule("22:00-06:00 Europe/Berlin: 1");
    assert_eq!(
        changes(&night, "2027-03-27T12:00:00Z", "2027-03-28T12:00:00Z"),
        owned(&[("2027-03-27T21:00:00Z", 1), ("2027-03-28T04:00:00Z", 0)])
    );
    assert_eq!(
        changes(&night, "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z"),
        owned(&[("2026-10-24T20:00:00Z", 1), ("2026-10-25T05:00:00Z", 0)])
    );
}

#[test]
fn time_that_is_skipped_counts_as_the_change_of_clocks() {
    let sunday = |text: &str| {
        let schedule = schedule(&format!("Sun {text} Europe/Berlin: 1"));
        changes(&schedule, "2027-03-28T00:00:00Z", "2027-03-28T12:00:00Z")
    };
    let change = "2027-03-28T01:00:00Z";
    assert_eq!(sunday("02:30-04:00"), owned(&[(change, 1), ("2027-03-28T02:00:00Z", 0)]));
    assert_eq!(sunday("01:30-02:30"), owned(&[("2027-03-28T00:30:00Z", 1), (change, 0)]));
    assert_eq!(sunday("02:15-02:45"), [], "no such time on this day");
}

#[test]
fn time_that_comes_twice_counts_once() {
    let sunday = |text: &str| {
        let schedule = schedule(&format!("Sun {text} Europe/Berlin: 1"));
        changes(&schedule, "2026-10-24T22:30:00Z", "2026-10-25T12:00:00Z")
    };
    let (first, second) = ("2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z");
    assert_eq!(sunday("01:00-02:30"), owned(&[("2026-10-24T23:00:00Z", 1), (first, 0)]));
    assert_eq!(sunday("02:30-04:00"), owned(&[(first, 1), ("2026-10-25T03:00:00Z", 0)]));
    assert!(!sunday("02:30-04:00").iter().any(|(time, _)| time == second));
}

#[test]
fn first_of_overlapping_windows_counts() {
    let lunch = schedule("12:00-13:00: 0; 08:00-18:00: 5; 10:00-20:00: 2");
    assert_eq!(
        changes(&lunch, "2026-11-25T00:00:00Z", "2026-11-26T00:00:00Z"),
        owned(&[
            ("2026-11-25T08:00:00Z", 5),
            ("2026-11-25T12:00:00Z", 0),
            ("2026-11-25T13:00:00Z", 5),
            ("2026-11-25T18:00:00Z", 2),
            ("2026-11-25T20:00:00Z", 0),
        ])
    );
}

#[test]
fn largest_size_limits_each_minimum() {
    let schedule = schedule("Mon 00:00-24:00: 5; Tue 00:00-24:00: 2");
    let (monday, tuesday) = ("2026-11-23T12:00:00Z", "2026-11-24T12:00:00Z");
    for (max, expected) in [(0, (5, 2)), (3, (3, 2)), (1, (1, 1))] {
        let limited = schedule.at_most(max);
        assert_eq!((at(&limited, monday), at(&limited, tuesday)), expected, "{max}");
    }
    let state = schedule.at_most(2).at(millis(monday));
    let end = ScheduleChange { at: millis("2026-11-25T00:00:00Z"), minimum: 0 };
    assert_eq!(state, ScheduledMinimum { minimum: 2, next: Some(end) });
}

#[test]
fn rejects_other_texts() {
    let many = vec!["00:00-01:00: 1"; MAX_WINDOWS + 1].join(";");
    let long = format!("{}00:00-01:00: 1", " ".repeat(MAX_BYTES) + "x");
    for bad in [
        "",
        ";",
        "2",
        "Mon 07:30-19:00",
        "Mon 07:30-19:00:",
        "Mon 07:30-19:00: two",
        "Mon 07:30-19:00: +2",
        "Mon 07:30-19:00: -1",
        "Mon 07:30-19:00: 4294967296",
        "Mon 07:30-19:00: 2147483648",
        "Mon 7:30-19:00: 2",
        "Mon 07:30-25:00: 2",
        "Mon 24:00-01:00: 2",
        "Mon 07:60-08:00: 2",
        "Mon 08:00-08:00: 2",
        "Mon 07:30: 2",
        "Monday 07:30-19:00: 2",
        "Mon 07:30-19:00 Europe/Atlantis: 2",
        "Mon 07:30-19:00 ../etc/passwd: 2",
        "Mon 07:30-19:00 Europe/Berlin now: 2",
        "07:30-19:00: 1;; 20:00-21:00: 1",
        &many,
        &long,
    ] {
        assert_eq!(Schedule::parse(bad), None, "{bad:?}");
    }
    assert!(Schedule::parse(" 07:30-19:00 UTC:1 ; ").is_some(), "blanks are ignored");
}

proptest! {
    #[test]
    fn any_text_gives_a_schedule_whose_changes_are_all_found_or_none(
        text in "((Mon|Sat,Sun|Fri-Tue)? ?[01][0-9]:[0-5]0-[012][0-9]:[0-5]0( Europe/Berlin| America/New_York)?: [0-3];? ?){1,3}|\\PC{0,24}",
        now in 1_700_000_000_000i64..1_900_000_000_000,
        later in 0i64..700_000_000,
    ) {
        if let Some(schedule) = Schedule::parse(&text) {
            let next = schedule.next_change(now);
            if let Some(change) = next {
                prop_assert!(change.at > now && change.minimum != schedule.minimum(now));
                prop_assert_eq!(schedule.minimum(change.at), change.minimum);
            }
            // Between now and the change, the minimum is the same.
            if next.is_none_or(|change| now + later < change.at) {
                prop_assert_eq!(schedule.minimum(now + later), schedule.minimum(now));
            }
        }
    }
}
