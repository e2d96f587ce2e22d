//! The handler that follows a random program.

mod further;
mod sets;

use std::sync::Mutex;

use tokio::sync::Notify;
use windlass::context::{Cx, First};
use windlass::handler::State;
use windlass::job::{Failure, GroupStrategy};

use super::acts::{Call, How, Undo, WELL};
use super::world::{World, said};
use crate::fixture::secs;
use crate::worker::job_types::{Fill, Greet};

/// What is recorded of a step that was dropped, and of one that came in a later attempt.
const DROPPED: &str = "dropped";
const CAME: &str = "came after all";
/// A child that fails permanently, and one that takes an hour.
const BAD: usize = 999;
const SLOW: usize = 1000;

/// What a handler that follows a program needs.
struct Run<'a> {
    cx: &'a Cx,
    world: &'a World,
    copies: &'a Mutex<Vec<Cx>>,
    place: usize,
}

async fn turns(count: usize) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

impl Run<'_> {
    /// A step that is not recorded.
    async fn quietly(&self, name: &str, part: &str, how: How) -> anyhow::Result<String> {
        let place = format!("{}{part}", self.place);
        let is_failing = self.world.fails(self.cx, &place, how);
        self.cx.step(name, self.world.work(is_failing, place, how)).await
    }

    async fn step(&self, name: &str, part: &str, how: How) -> anyhow::Result<String> {
        let outcome = self.quietly(name, part, how).await;
        let (line, is_saved) = said(&outcome);
        self.world.record(self.cx, line, is_saved);
        outcome
    }

    async fn sleep(&self, seconds: u64) -> anyhow::Result<()> {
        self.world.may_park(self.cx);
        self.world.sleeps(self.cx, self.place, secs(seconds));
        self.cx.sleep(secs(seconds)).await?;
        self.world.slept(self.cx);
        self.world.record(self.cx, "slept".to_owned(), true);
        Ok(())
    }

    async fn tries(&self, failing: usize, pause: Option<u64>) -> anyhow::Result<()> {
        for number in 0..3 {
            let how = How { fails: if number < failing { usize::MAX } else { 0 }, is_bad: false };
            if self.step("try", &format!("t{number}"), how).await.is_ok() {
                break;
            }
            if let Some(seconds) = pause {
                self.sleep(seconds).await?;
            }
        }
        Ok(())
    }

    async fn steps(&self, act: Call) -> anyhow::Result<()> {
        match act {
            Call::Step(name, how) => drop(self.step(name, "", how).await?),
            Call::Skip(name, how) => drop(self.step(name, "", how).await),
            // The error lives until the end of the match.
            Call::Fallback(how) => match self.step("primary", "p", how).await {
                Ok(_) => {}
                Err(_) => drop(self.step("fallback", "f", WELL).await?),
            },
            Call::Retry(failing) => self.tries(failing, None).await?,
            Call::RetryLater(failing) => self.tries(failing, Some(7)).await?,
            Call::Join(one, other) => {
                let (left, right) =
                    tokio::join!(self.quietly("left", "l", one), self.quietly("right", "r", other));
                let ((left, is_left_saved), (right, is_right_saved)) = (said(&left), said(&right));
                self.world.record(self.cx, format!("{left}, {right}"), is_left_saved && is_right_saved);
            }
            Call::JoinUndo(undo, how) => self.join_or_undo(undo, how).await?,
            Call::Drop(name) => self.dropped(name).await?,
            Call::Nested(how) => self.nested(how).await?,
            Call::Long => self.long().await?,
            further => self.further(further).await?,
        }
        Ok(())
    }

    async fn join_or_undo(&self, undo: Undo, how: How) -> anyhow::Result<()> {
        let before = self.world.log(self.cx, |log| log.lines.len());
        let slow = async {
            turns(9).await;
            anyhow::Ok("slow".to_owned())
        };
        let failing = self.quietly("left", "l", how);
        let both = if matches!(undo, Undo::TryJoin) {
            tokio::try_join!(self.cx.step("right", slow), failing)
        } else {
            let (slow, failing) = tokio::join!(self.cx.step("right", slow), failing);
            slow.and_then(|slow| Ok((slow, failing?)))
        };
        let error = match both {
            Ok((slow, well)) => {
                self.world.record(self.cx, format!("{slow}, {well}"), true);
                return Ok(());
            }
            Err(error) => error,
        };
        self.world.record(self.cx, format!("error: {error}"), false);
        self.step("undo", "u", WELL).await?;
        self.world.log(self.cx, |log| log.reopened = Some(before));
        if matches!(undo, Undo::Text) { Err(anyhow::anyhow!("undone after: {error}")) } else { Err(error) }
    }

    /// The second batch fails as requested.
    async fn nested(&self, how: How) -> anyhow::Result<()> {
        for number in 0..2 {
            let how = if number == 0 { WELL } else { how };
            self.world.may_park(self.cx);
            let batch = self.cx.step("batch", async {
                let part = |name: &str| format!("{name}{number}");
                let first = match self.quietly("item", &part("i"), How { fails: 9, is_bad: false }).await {
                    Ok(item) => item,
                    Err(_) => self.quietly("item", &part("j"), WELL).await?,
                };
                self.cx.sleep(secs(5)).await?;
                let second = self.quietly("item", &part("k"), how).await?;
                anyhow::Ok(format!("{first} {second}"))
            });
            let (line, is_saved) = said(&batch.await.map_err(|error| error.context("batch")));
            let is_well = !line.starts_with("error");
            self.world.record(self.cx, line, is_saved);
            if !is_well {
                anyhow::bail!("connection refused");
            }
            self.sleep(5).await?;
        }
        let item = self.step("item", "after", WELL).await?;
        anyhow::ensure!(item.ends_with("after"), "it got {item}");
        Ok(())
    }

    async fn long(&self) -> anyhow::Result<()> {
        let never = Notify::new();
        let long = self.cx.step("long", async {
            if self.world.facts(|facts| facts.is_long) {
                never.notified().await;
            }
            anyhow::Ok("long".to_owned())
        });
        tokio::select! {
            biased;
            long = long => {
                let (line, is_saved) = said(&long);
                self.world.record(self.cx, line, is_saved);
            }
            () = self.cx.cancelled() => {
                self.cx.step("cleanup", async { anyhow::Ok(()) }).await?;
                anyhow::bail!("stopped");
            }
        }
        Ok(())
    }

    /// One race; its left side waits forever after its second step, unless it is to win.
    async fn race(&self, number: usize, is_left: bool) -> anyhow::Result<()> {
        let has_stored = Notify::new();
        let left = async {
            let fetched = self.quietly("fetch", &format!("f{number}"), WELL).await?;
            turns(3).await;
            let stored = self.quietly("store", &format!("s{number}"), WELL).await?;
            has_stored.notify_one();
            if !is_left {
                std::future::pending::<()>().await;
            }
            anyhow::Ok(format!("{fetched} {stored}"))
        };
        let right = self.cx.step("limit", async {
            has_stored.notified().await;
            turns(9).await;
            anyhow::Ok("late".to_owned())
        });
        let first = match self.cx.race(left, right).await {
            First::Left(first) | First::Right(first) => first?,
        };
        self.world.record(self.cx, first, false);
        Ok(())
    }

    async fn act(&self, act: Call) -> anyhow::Result<()> {
        match act {
            Call::Race(how) => {
                let step = self.quietly("race", "", how);
                let (line, is_saved) = match self.cx.race(step, self.cx.sleep(secs(3600))).await {
                    First::Left(outcome) => said(&outcome),
                    First::Right(_) => anyhow::bail!("a sleep of an hour was shorter than a step"),
                };
                self.world.record(self.cx, line, is_saved);
            }
            Call::RaceSides(is_left) => {
                self.race(0, is_left).await?;
                self.race(1, true).await?;
            }
            Call::Copy => self.copies.lock().unwrap().push(self.cx.clone()),
            Call::Sleep(seconds) => self.sleep(seconds).await?,
            Call::Hear => {
                self.world.may_park(self.cx);
                let received: Option<u32> = self.cx.wait_signal("word", None).await?;
                self.world.record(self.cx, format!("{received:?}"), true);
            }
            Call::HearNothing => {
                self.world.may_park(self.cx);
                let received: Option<u32> = self.cx.wait_signal("nothing", Some(secs(5))).await?;
                self.world.record(self.cx, format!("{received:?}"), true);
            }
            Call::HearEither => {
                self.world.may_park(self.cx);
                let received = self.cx.wait_any::<u32>(&["nothing", "word"], Some(secs(3600))).await?;
                self.world.record(self.cx, format!("{received:?}"), true);
            }
            Call::Children(_) | Call::GiveUpOnChildren | Call::FailFast => self.children(act).await?,
            Call::Checkpoint => self.cx.checkpoint(&self.place).await?,
            Call::Fail => {
                let how = How { fails: 1, is_bad: false };
                anyhow::ensure!(!self.world.fails(self.cx, &format!("{}", self.place), how), "once more");
            }
            step => self.steps(step).await?,
        }
        Ok(())
    }

    async fn children(&self, act: Call) -> anyhow::Result<()> {
        self.world.may_park(self.cx);
        if let Call::Children(count) = act {
            let children = (0..count).map(|bytes| Fill { bytes });
            let results = self.cx.spawn_all(children, GroupStrategy::CollectAll).await?.all()?;
            self.world.record(self.cx, results.join(" "), true);
            return Ok(());
        }
        if matches!(act, Call::FailFast) {
            return self.fail_fast().await;
        }
        let never = self.cx.spawn_all([Fill { bytes: SLOW }], GroupStrategy::CollectAll);
        match self.cx.race(never, self.cx.sleep(secs(3))).await {
            First::Left(_) => anyhow::bail!("children that take an hour were quick"),
            First::Right(slept) => slept?,
        }
        self.world.record(self.cx, "gave up".to_owned(), false);
        Ok(())
    }
}

pub(super) async fn follow(_: Greet, cx: Cx, State(world): State<World>) -> anyhow::Result<String> {
    follow_with(&cx, &world).await
}

/// The same as a handler that blocks.
pub(super) fn blocks(world: World) -> impl Fn(Greet, Cx) -> anyhow::Result<String> + Clone {
    move |_, cx| cx.block_on(follow_with(&cx, &world))
}

async fn follow_with(cx: &Cx, world: &World) -> anyhow::Result<String> {
    let program = world.facts(|facts| facts.program.clone());
    world.log(cx, |log| *log = super::world::AttemptLog::default());
    let copies = Mutex::default();
    for (place, act) in program.into_iter().enumerate() {
        if let Err(error) = (Run { cx, world, copies: &copies, place }).act(act).await {
            world.ends_badly(cx);
            return Err(error);
        }
    }
    // A crash decides whether what was dropped has come since.
    Ok(world.log(cx, |log| log.lines.join("; ").replace(CAME, DROPPED)))
}

pub(super) async fn child(job: Fill, cx: Cx) -> anyhow::Result<String> {
    if job.bytes == SLOW {
        cx.sleep(secs(3600)).await?;
    }
    if job.bytes == BAD {
        return Err(Failure::permanent("bad", "the child is bad").into());
    }
    Ok(format!("child {}", job.bytes))
}
