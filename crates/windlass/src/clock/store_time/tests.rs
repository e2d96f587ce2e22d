//! Tests of the rule of store time.

use proptest::prelude::*;

use super::*;

const MINUTE: i64 = 60_000;
const DAY: i64 = 24 * 60 * MINUTE;
/// When the wall clock is right at monotonic time zero.
const START: i64 = 1_800_000_000_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(START + millis)
}

fn millis(value: i64) -> Duration {
    Duration::from_millis(value.unsigned_abs())
}

/// A wall clock that is off by `off` at monotonic time `elapsed`, both in milliseconds.
fn wall(elapsed: i64, off: i64) -> WallClock {
    WallClock { shows: at(elapsed + off), from: millis(elapsed), to: millis(elapsed) }
}

/// A store that began with the right time.
fn new() -> StoreTime {
    StoreTime::start(wall(0, 0), Origin::New).0
}

/// Readings once a second from monotonic second `from` to `to`, each off by `off`; store time in milliseconds since the start.
fn run(time: &mut StoreTime, from: i64, to: i64, off: i64) -> i64 {
    for second in from + 1..=to {
        assert!(!time.observe(wall(second * 1_000, off), Timestamp::MIN, false), "no jump at {second} s");
    }
    time.now().as_millis() - START
}

/// Model: store-time. With a wall clock that is right, store time is the wall clock.
#[test]
fn store_time_is_the_wall_clock_while_that_is_right() {
    let mut time = new();
    assert_eq!(run(&mut time, 0, 3_600, 0), 3_600_000);
    assert_eq!((time.belief(), time.ahead()), (ClockTrust::Believed, 0));
}

/// Model: store-time. A step of less than a minute is followed, a tenth faster than real time or at half of it.
#[test]
fn a_small_step_is_followed_at_a_bounded_rate() {
    let mut time = new();
    assert_eq!(run(&mut time, 0, 10, 30_000), 11_000, "a tenth faster");
    assert_eq!(run(&mut time, 10, 300, 30_000), 330_000, "until they meet");
    assert_eq!(run(&mut time, 300, 310, 30_000), 340_000);
    assert_eq!(run(&mut time, 310, 320, 0), 345_000, "half as fast");
    assert_eq!(run(&mut time, 320, 370, 0), 370_000, "until they meet");
    assert_eq!(time.belief(), ClockTrust::Believed);
}

/// Model: store-time. A jump of more than a minute is not believed, whichever way; store time continues by monotonic time, and the wall clock
/// is believed again once it is back.
#[test]
fn a_jump_is_not_believed_and_time_continues() {
    for off in [8 * DAY, 10 * MINUTE, MINUTE + 1, -MINUTE - 1, -10 * MINUTE, -8 * DAY] {
        let mut time = new();
        run(&mut time, 0, 60, 0);
        assert_eq!(run(&mut time, 60, 600, off), 600_000, "{off}");
        assert_eq!((time.belief(), time.ahead()), (ClockTrust::NotBelieved, off));
        assert_eq!(run(&mut time, 600, 660, 0), 660_000, "{off}");
        assert_eq!((time.belief(), time.ahead()), (ClockTrust::Believed, 0));
    }
}

/// Model: store-time. A suspended machine or a frozen process has not seen a jump: its monotonic time continued.
#[test]
fn a_long_pause_is_not_a_jump() {
    let mut time = new();
    assert!(!time.observe(wall(600_000, 0), Timestamp::MIN, false));
    assert_eq!((time.now(), time.belief()), (at(600_000), ClockTrust::Believed));
}

/// Model: store-time. The answer of a database may have been read long before it arrives here: not a jump either.
#[test]
fn an_answer_that_arrives_late_is_not_a_jump() {
    let mut time = new();
    let late = WallClock { shows: at(1_000), from: millis(900), to: millis(600_000) };
    assert!(!time.observe(late, Timestamp::MIN, false));
    assert_eq!((time.now(), time.belief(), time.ahead()), (at(600_000), ClockTrust::Believed, 0));
}

/// Model: store-time. A wall clock that runs a hundred times too fast takes store time nowhere.
#[test]
fn a_wall_clock_that_runs_away_is_left_alone() {
    let mut time = new();
    for second in 1..=600 {
        time.observe(wall(second * 1_000, second * 30_000), Timestamp::MIN, false);
    }
    let ahead = time.now().as_millis() - START - 600_000;
    assert!((0..=2 * MINUTE).contains(&ahead), "{ahead}");
    assert_eq!(time.belief(), ClockTrust::NotBelieved);
}

/// Model: store-time. Later commits, by any process, do not have earlier times; a jump of another process is noticed.
#[test]
fn store_time_is_never_before_that_of_another_process() {
    let mut time = new();
    assert!(!time.observe(wall(1_000, 0), at(1_500), false));
    assert_eq!(time.now(), at(1_500));
    assert_eq!(run(&mut time, 1, 2, 0), 2_000, "half as fast until they meet");
    assert!(time.observe(wall(3_000, 8 * DAY), at(8 * DAY), false), "a jump that another node believed");
    assert_eq!((time.now(), time.belief()), (at(8 * DAY), ClockTrust::Believed));
    assert_eq!(run(&mut time, 3, 43, 8 * DAY), 8 * DAY + 43_000);
}

/// Model: store-time. An operator accepts a jump: forward at once, backward by running slowly, never by going back.
#[test]
fn an_operator_accepts_a_jump() {
    let mut time = new();
    run(&mut time, 0, 60, 10 * MINUTE);
    assert!(time.accept());
    assert_eq!((time.now(), time.belief()), (at(60_000 + 10 * MINUTE), ClockTrust::Believed));
    run(&mut time, 60, 120, 0);
    assert_eq!((time.belief(), time.ahead()), (ClockTrust::NotBelieved, -10 * MINUTE));
    assert!(!time.accept(), "nothing jumps");
    let before = time.now().as_millis() - START;
    assert_eq!(run(&mut time, 120, 180, 0), before + 30_000, "half as fast");
    assert_eq!(time.belief(), ClockTrust::Believed);
    assert_eq!(run(&mut time, 180, 1_400, 0), 1_400_000, "until they meet");
}

/// Model: store-time. At the start there is only the last commit; a wall clock near it is believed, one far from it only if another vouches
/// for it. Without that, store time continues from the last commit.
#[test]
fn a_start_believes_what_is_near_or_vouched_for() {
    let start =
        |off, is_vouched_for| StoreTime::start(wall(5_000, off), Origin::Last { at: at(0), is_vouched_for });
    let (near, has_jumped) = start(50_000, false);
    assert_eq!((near.now(), near.belief(), has_jumped), (at(55_000), ClockTrust::Believed, false));
    let (weekend, has_jumped) = start(2 * DAY, true);
    assert_eq!(
        (weekend.now(), weekend.belief(), has_jumped),
        (at(2 * DAY + 5_000), ClockTrust::Believed, true)
    );
    let (mut doubted, has_jumped) = start(2 * DAY, false);
    assert_eq!((doubted.now(), doubted.belief(), has_jumped), (at(0), ClockTrust::NotBelieved, false));
    assert_eq!(run(&mut doubted, 5, 65, 2 * DAY), 60_000, "time does not stand still");
    assert!(doubted.observe(wall(66_000, 2 * DAY), Timestamp::MIN, true), "the other clock was set right");
    assert_eq!((doubted.now(), doubted.belief()), (at(2 * DAY + 66_000), ClockTrust::Believed));
    let (behind, has_jumped) = start(-10 * MINUTE, true);
    assert_eq!((behind.now(), behind.belief(), has_jumped), (at(0), ClockTrust::Believed, true));
}

/// Model: store-time. Once there is history, another clock that agrees with a jump does not count.
#[test]
fn a_jump_of_a_running_store_is_not_believed() {
    let mut time = new();
    run(&mut time, 0, 60, 0);
    assert!(!time.observe(wall(61_000, 8 * DAY), Timestamp::MIN, true));
    assert_eq!((time.now(), time.belief()), (at(61_000), ClockTrust::NotBelieved));
}

/// Model: store-time. A process that joins others continues from their time, whatever its own wall clock shows.
#[test]
fn a_process_beside_others_takes_their_time() {
    for off in [-10 * MINUTE, 10 * MINUTE] {
        let (mut time, has_jumped) = StoreTime::start(wall(60_000, off), Origin::Running(at(60_000)));
        assert_eq!((time.now(), time.belief(), has_jumped), (at(60_000), ClockTrust::NotBelieved, false));
        assert_eq!(run(&mut time, 60, 120, off), 120_000);
    }
}

proptest! {
    /// Model: store-time. Whatever the wall clock and other processes do, store time never goes back and stays within its rates, but for
    /// jumps that another node made or that were accepted.
    #[test]
    fn store_time_never_goes_back_and_keeps_to_its_rates(
        steps in prop::collection::vec((0..5_000_i64, -20 * DAY..20 * DAY, 0..4_u8), 1..200),
    ) {
        let (mut time, mut elapsed) = (new(), 0);
        for (passed, off, kind) in steps {
            elapsed += passed;
            let before = time.now();
            let off = match kind {
                0 => 0,
                1 => off % MINUTE,
                2 => off,
                _ => { time.advance(millis(elapsed), Timestamp::MIN); 0 }
            };
            time.observe(wall(elapsed, off), Timestamp::MIN, false);
            let moved = time.now().as_millis() - before.as_millis();
            prop_assert!(moved >= passed / 2 - 1 && moved <= passed + passed / 10 + 1, "{moved} in {passed}");
        }
        // However wild it was: with a clock that is right it is right again, or says that it is not.
        for _ in 0..3_600 {
            elapsed += 1_000;
            time.observe(wall(elapsed, 0), Timestamp::MIN, false);
        }
        prop_assert!(time.ahead() == 0 || time.belief() == ClockTrust::NotBelieved, "{time:?}");
    }
}
