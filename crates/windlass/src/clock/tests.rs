//! Tests of time as data, and of the clock that is moved by hand.

use proptest::prelude::*;

use super::*;

/// Model: store-time. Moments are shown in UTC, to the millisecond.
#[test]
fn a_moment_is_shown_in_utc() {
    assert_eq!(Timestamp::MIN.to_string(), "1970-01-01T00:00:00.000Z");
    assert_eq!(Timestamp::MAX.to_string(), "9999-12-30T22:00:00.000Z");
    assert_eq!(format!("{:?}", Timestamp::from_millis(1_700_000_000_001)), "2023-11-14T22:13:20.001Z");
}

/// Model: store-time. A timestamp read from outside is moved into range.
#[test]
fn a_moment_in_json_is_moved_into_range() {
    let read = |text| serde_json::from_str::<Timestamp>(text).unwrap();
    assert_eq!((read("-5"), read("9223372036854775807")), (Timestamp::MIN, Timestamp::MAX));
    assert_eq!(serde_json::to_string(&read("1700000000001")).unwrap(), "1700000000001");
}

/// Model: store-time. The manual clock moves only when advanced, and stops at the end of time.
#[test]
fn a_manual_clock_moves_only_when_told() {
    let clock = ManualClock::new(Timestamp::from_millis(5));
    assert_eq!((clock.now(), clock.now()), (Timestamp::from_millis(5), Timestamp::from_millis(5)));
    clock.advance(Duration::from_secs(1));
    assert_eq!(clock.now(), Timestamp::from_millis(1005));
    clock.advance(Duration::MAX);
    assert_eq!(clock.now(), Timestamp::MAX);
}

/// Model: store-time. The machine's clock never runs backwards.
#[test]
fn the_system_clock_does_not_run_backwards() {
    let clock = SystemClock::new();
    let first = clock.now();
    assert!(clock.now() >= first && first > Timestamp::from_millis(1_700_000_000_000));
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
