//! What random handlers do.

use crate::random::rng::Dice;

/// How the work of a step goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct How {
    /// It fails for now until so many attempts that called it have failed.
    pub(super) fails: usize,
    /// Then it fails permanently, instead of succeeding.
    pub(super) is_bad: bool,
}

/// Work that succeeds.
pub(super) const WELL: How = How { fails: 0, is_bad: false };

/// What a handler does with the error of two steps side by side, after a step that compensates.
#[derive(Debug, Clone, Copy)]
pub(super) enum Undo {
    /// Returns it, after waiting for both.
    Join,
    /// Returns it, and has dropped the other.
    TryJoin,
    /// Returns another error with its text.
    Text,
}

/// One thing that a handler does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Call {
    /// A step whose error ends the attempt.
    Step(&'static str, How),
    /// A step whose error is noted, and the handler continues.
    Skip(&'static str, How),
    /// Another step if the first fails.
    Fallback(How),
    /// Up to three tries in place, of which so many fail.
    Retry(usize),
    /// The same with a sleep after each.
    RetryLater(usize),
    /// A step that is dropped before it ends.
    Drop(&'static str),
    /// A step beside a sleep, and the sleep is dropped.
    Race(How),
    /// Two races of two steps with one; the left side wins the second, and, if so, the first.
    RaceSides(bool),
    /// Two steps side by side.
    Join(How, How),
    /// The same; if one fails another step compensates, and the attempt fails with that error.
    JoinUndo(Undo, How),
    /// Steps with steps, sleeps and fallbacks within; the error of the last fails the attempt.
    Nested(How),
    /// A step that is dropped when the worker stops, and then one that cleans up.
    Long,
    /// A copy of the context is kept until the handler ends.
    Copy,
    Sleep(u64),
    /// A signal that was sent, and one that never comes.
    Hear,
    HearNothing,
    HearEither,
    Children(usize),
    /// Children beside a sleep that ends first.
    GiveUpOnChildren,
    Checkpoint,
    /// The attempt fails here the first time.
    Fail,
    /// The attempt snoozes here the first time.
    Snooze,
    /// A step that snoozes, and the handler continues.
    SkipSnooze,
    /// Two steps whose errors are collected, reported by a third, and to be run again.
    Collect(How),
    /// Two steps with room for one at a time, which begin in another order in every attempt.
    Gate,
    /// A group that its second child fails.
    FailFast,
    /// A sleep beside a longer wait.
    SelectWaits,
    /// A wait for a signal whose name looks like the key of another wait.
    HearLookalike,
    /// A step with a value that not every way of writing it keeps.
    Float(f64),
    /// Three steps that are awaited like a set of futures with wakers of their own.
    Set(How),
    /// The same with a sleep and a wait.
    SetOfWaits,
    /// Three tasks with a step each.
    Tasks,
    /// Tries in place beside a timeout that never comes.
    RetryInSelect(usize),
    /// Races of races: a step wins one, and a sleep the other.
    RaceOfRaces(How),
    /// Children, a signal that never comes and a sleep, of which the sleep ends first.
    RaceOfAll,
    /// A sleep beside a step that fails.
    SleepBeside(Undo, How),
    /// The error of the second of two steps is caught by the caller of both, which compensates.
    Caught(How),
    /// Steps in a loop beside a wait for any of two signals that never come.
    LoopBesideWait,
}

fn how(dice: &mut Dice) -> How {
    How { fails: dice.below(3), is_bad: dice.below(5) == 0 }
}

/// One that succeeds in the end.
fn flaky(dice: &mut Dice) -> How {
    How { is_bad: false, ..how(dice) }
}

pub(super) fn next(dice: &mut Dice) -> Call {
    let name = ["a", "b"][dice.below(2)];
    match dice.below(46) {
        0 | 1 => Call::Step(name, flaky(dice)),
        2 | 3 => Call::Skip(name, how(dice)),
        4 | 5 => Call::Fallback(how(dice)),
        6 => Call::Retry(dice.below(3)),
        7 => Call::RetryLater(dice.below(3)),
        8 => Call::Drop(name),
        9 => Call::Race(how(dice)),
        10 | 11 => Call::RaceSides(dice.below(2) == 0),
        12 => Call::Join(how(dice), how(dice)),
        13..=15 => {
            let undo = [Undo::Join, Undo::TryJoin, Undo::Text][dice.below(3)];
            Call::JoinUndo(undo, How { fails: 1 + dice.below(2), is_bad: false })
        }
        16 | 17 => Call::Nested(flaky(dice)),
        18 => Call::Long,
        19 => Call::Copy,
        20 => Call::Sleep(1 + dice.below(20) as u64),
        21 => Call::Hear,
        22 => Call::HearNothing,
        23 => Call::HearEither,
        24 => [Call::Children(dice.below(3)), Call::GiveUpOnChildren][dice.below(2)],
        25 => Call::Checkpoint,
        26 => Call::Fail,
        27 => Call::Snooze,
        28 => Call::SkipSnooze,
        29 | 30 => Call::Collect(flaky(dice)),
        31 => Call::Gate,
        32 => Call::FailFast,
        33 => Call::SelectWaits,
        34 => Call::HearLookalike,
        35 => Call::Set(flaky(dice)),
        36 => Call::SetOfWaits,
        37 => Call::Tasks,
        38 => Call::RetryInSelect(dice.below(3)),
        39 => Call::RaceOfRaces(how(dice)),
        40 => Call::RaceOfAll,
        41 | 42 => {
            let undo = [Undo::Join, Undo::TryJoin, Undo::Text][dice.below(3)];
            Call::SleepBeside(undo, flaky(dice))
        }
        43 => Call::Caught(how(dice)),
        44 => Call::LoopBesideWait,
        _ => Call::Float(f64::from(u32::try_from(dice.below(1 << 31)).unwrap_or(0)) / 3e8),
    }
}
