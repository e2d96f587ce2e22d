//! Tests of the clocks: the machine's, and the one that is moved by hand.

use super::*;

/// Model: store-time. The manual clock moves only when advanced, and stops at the end of time.
#[test]
fn a_manual_clock_moves_only_when_set() {
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
