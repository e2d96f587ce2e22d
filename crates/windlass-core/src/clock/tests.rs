//! Tests of time as data.

use proptest::prelude::*;

use super::*;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_000_000 + millis)
}

/// Model: store-time. Moments are shown in UTC, to the millisecond.
#[test]
fn a_moment_is_shown_in_utc() {
    assert_eq!(Timestamp::MIN.to_string(), "1970-01-01T00:00:00.000Z");
    assert_eq!(Timestamp::MAX.to_string(), "9999-12-30T22:00:00.000Z");
    assert_eq!(format!("{:?}", Timestamp::from_millis(1_700_000_000_001)), "2023-11-14T22:13:20.001Z");
}

/// Model: store-time. A moment is read with any offset, and from the machine's clock; what is before 1970 is its beginning.
#[test]
fn a_moment_is_read_from_text_and_from_the_machine() {
    let expected = Timestamp::from_millis(1_700_000_000_001);
    assert_eq!("2023-11-14T22:13:20.001Z".parse(), Ok(expected));
    assert_eq!("2023-11-15T00:13:20.001+02:00".parse(), Ok(expected));
    assert_eq!("2023-11-14t22:13:20.001999999999z".parse(), Ok(expected));
    assert_eq!("2023-11-14 12:43:20.001-09:30".parse(), Ok(expected));
    assert_eq!("0001-01-01T00:00:00Z".parse(), Ok(Timestamp::MIN));
    for last in ["9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59-23:59"] {
        assert_eq!(last.parse(), Ok(Timestamp::MAX));
    }
    let others = [
        "2030-01-31",
        "2030-01-31T12:00Z",
        "20300131T120000Z",
        "2030-01-31T12:00:00",
        "2030-01-31T12:00:00+24:00",
        "2030-01-31T12:00:00+01:60",
        "2030-01-31T12:00:00+0100",
        "2030-01-31T12:00:00+01",
        "2030-01-31T12:00:00.Z",
        "2030-01-31T12:00:00.123456789xZ",
        "2030-01-31T12:00:00Z[UTC]",
        "2030-02-30T12:00:00Z",
        "2030-01-31T25:00:00Z",
        "+002030-01-31T12:00:00Z",
        "2030-01-31T12:00:00,5Z",
        "２030-01-31T12:00:00Z",
        "2030-01-31T12:00:00Zé",
        "",
    ];
    for other in others {
        assert!(other.parse::<Timestamp>().is_err(), "{other}");
    }
    assert!(
        matches!("yesterday".parse::<Timestamp>(), Err(FieldProblem::Unknown { value, .. }) if value == "yesterday")
    );
    let machine = UNIX_EPOCH + Duration::from_millis(1_700_000_000_001);
    assert_eq!(Timestamp::from(machine), expected);
    assert_eq!(Timestamp::from(UNIX_EPOCH - Duration::from_secs(1)), Timestamp::MIN);
}

/// Model: store-time. A timestamp read from outside is moved into range.
#[test]
fn a_moment_in_json_is_moved_into_range() {
    let read = |text| serde_json::from_str::<Timestamp>(text).unwrap();
    assert_eq!((read("-5"), read("9223372036854775807")), (Timestamp::MIN, Timestamp::MAX));
    assert_eq!(serde_json::to_string(&read("1700000000001")).unwrap(), "1700000000001");
}

/// Model: store-time, leases-and-heartbeats. A gap moves the beginning of silence and keeps leases for a heartbeat; without one nothing changes.
#[test]
fn a_gap_gives_grace() {
    let none = Grace::default();
    assert_eq!((none.leases_until(), none.silent_from(at(5))), (Timestamp::MIN, at(5)));
    assert!(none.is_crash(at(5)) && none.is_crash_of_lease(at(5), at(6)));
    let grace = Grace { served_since: at(0), ..Grace::default() };
    assert_eq!(grace.leases_until(), at(15_000));
    assert_eq!((grace.silent_from(at(-1)), grace.silent_from(at(1))), (at(0), at(1)));
    assert!(!grace.is_crash(at(-1)) && grace.is_crash(at(0)));
    assert!(!grace.is_crash_of_lease(at(-1), at(15_000)), "it was kept for the grace and not extended since");
    assert!(!grace.is_crash_of_lease(at(-1), at(30_000)), "each of two nodes kept it for its own grace");
    assert!(grace.is_crash_of_lease(at(-1), at(30_001)), "it was extended since");
    assert!(grace.is_crash_of_lease(at(1), at(2)), "it was given after the gap");
}

/// Model: store-time. A leap begins after its first moment and ends with its last.
#[test]
fn a_leap_covers_what_was_skipped() {
    let leap = Leap { from: at(100), to: at(200) };
    let covered = [100, 101, 200, 201].map(|millis| leap.covers(at(millis)));
    assert_eq!(covered, [false, true, true, false]);
    assert_eq!(leap.length(), Duration::from_millis(100));
}

/// Model: store-time. Of two leaps the later one counts, and what overlaps is one, in whichever order nodes tell of it.
#[test]
fn leaps_that_overlap_are_one_and_others_are_two() {
    let leap = |from, to| Leap { from: at(from), to: at(to) };
    for (one, other, expected) in [
        (leap(100, 200), leap(300, 400), leap(300, 400)),
        (leap(100, 200), leap(200, 400), leap(200, 400)),
        (leap(100, 200), leap(199, 400), leap(100, 400)),
        (leap(100, 200), leap(50, 400), leap(50, 400)),
        (leap(100, 200), leap(100, 200), leap(100, 200)),
    ] {
        assert_eq!((one.or_later(other), other.or_later(one)), (expected, expected), "{one:?} {other:?}");
    }
}

/// Model: store-time. A node adds what all know to what it saw itself; no node's gap is forgotten.
#[test]
fn what_nodes_know_of_a_gap_is_put_together() {
    let leap = |from, to| Leap { from: at(from), to: at(to) };
    let early = SharedGrace { served_since: at(10), leap: leap(300, 400) };
    let late = SharedGrace { served_since: at(20), leap: leap(100, 200) };
    let both = SharedGrace { served_since: at(20), leap: leap(300, 400) };
    assert_eq!((early.with(late), late.with(early)), (both, both));
    for (own, known) in [(10, 20), (20, 10)] {
        let grace = Grace { served_since: at(own), lifetimes_from: at(5), leap: leap(1, 2) };
        let shared = SharedGrace { served_since: at(known), leap: leap(300, 400) };
        let expected = Grace { served_since: at(20), lifetimes_from: at(5), leap: leap(300, 400) };
        assert_eq!(grace.with_shared(shared), expected);
    }
}

proptest! {
    /// Model: backoff. No arithmetic with moments overflows or leaves the range.
    #[test]
    fn moments_stay_in_range(millis in any::<i64>(), seconds in any::<u64>(), nanos in 0..1_000_000_000_u32) {
        let (moment, by) = (Timestamp::from_millis(millis), Duration::new(seconds, nanos));
        let (later, earlier) = (moment.plus(by), moment.minus(by));
        prop_assert!(Timestamp::MIN <= earlier && earlier <= moment);
        prop_assert!(moment <= later && later <= Timestamp::MAX);
        prop_assert_eq!(earlier.since(later), Duration::ZERO);
        if later < Timestamp::MAX {
            prop_assert_eq!(whole_millis(later.since(moment)), whole_millis(by));
        }
        prop_assert!(!later.to_string().is_empty());
    }
}
