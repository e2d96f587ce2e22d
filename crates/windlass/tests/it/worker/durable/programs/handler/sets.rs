//! Calls that are awaited in sets, tasks, and races of races.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use tokio::task::JoinSet;
use windlass::context::First;
use windlass::job::GroupStrategy;

use super::super::acts::{Call, How, Undo, WELL};
use super::super::world::said;
use super::{Run, SLOW, turns};
use crate::fixture::secs;
use crate::worker::job_types::Fill;

type Member<'a> = Pin<Box<dyn Future<Output = anyhow::Result<String>> + Send + 'a>>;

/// The waker of one member of a set: it notes that this member is to be polled, and wakes the set.
#[derive(Default)]
struct MemberWaker {
    is_woken: AtomicBool,
    set: Arc<Mutex<Option<Waker>>>,
}

impl Wake for MemberWaker {
    fn wake(self: Arc<MemberWaker>) {
        self.is_woken.store(true, Ordering::SeqCst);
        if let Some(waker) = self.set.lock().unwrap().take() {
            waker.wake();
        }
    }
}

/// The outputs of all, in this order. Like `FuturesUnordered` it polls only members that were woken, each with a waker of its own.
async fn all(members: Vec<Member<'_>>) -> Vec<anyhow::Result<String>> {
    let set: Arc<Mutex<Option<Waker>>> = Arc::default();
    let waker = || Arc::new(MemberWaker { is_woken: AtomicBool::new(true), set: set.clone() });
    let mut members: Vec<_> = members.into_iter().map(|member| (Some(member), waker(), None)).collect();
    poll_fn(move |context| {
        *set.lock().unwrap() = Some(context.waker().clone());
        for (member, waker, output) in &mut members {
            let Some(future) = member else { continue };
            if !waker.is_woken.swap(false, Ordering::SeqCst) {
                continue;
            }
            let waker = Waker::from(waker.clone());
            if let Poll::Ready(ready) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                (*member, *output) = (None, Some(ready));
            }
        }
        if members.iter().any(|(_, _, output)| output.is_none()) {
            return Poll::Pending;
        }
        Poll::Ready(members.iter_mut().filter_map(|(_, _, output)| output.take()).collect())
    })
    .await
}

/// What was said of each, and whether all of it is saved.
fn said_of(outcomes: &[anyhow::Result<String>]) -> (String, bool) {
    let said: Vec<(String, bool)> = outcomes.iter().map(said).collect();
    let is_saved = said.iter().all(|(_, is_saved)| *is_saved);
    (said.into_iter().map(|(line, _)| line).collect::<Vec<_>>().join(", "), is_saved)
}

impl Run<'_> {
    pub(super) async fn in_sets(&self, act: Call) -> anyhow::Result<()> {
        match act {
            Call::Set(how) => {
                let members: Vec<Member<'_>> = vec![
                    Box::pin(self.quietly("first", "x", WELL)),
                    Box::pin(self.quietly("second", "y", how)),
                    Box::pin(async {
                        turns(3).await;
                        self.quietly("third", "z", WELL).await
                    }),
                ];
                let (line, is_saved) = said_of(&all(members).await);
                self.world.record(self.cx, line, is_saved);
            }
            Call::SetOfWaits => self.set_of_waits().await?,
            Call::Tasks => self.tasks().await?,
            Call::RetryInSelect(failing) => self.retry_in_select(failing).await?,
            Call::RaceOfRaces(how) => self.race_of_races(how).await?,
            Call::RaceOfAll => self.race_of_all().await?,
            Call::SleepBeside(undo, how) => self.sleep_beside(undo, how).await?,
            Call::Caught(how) => self.caught(how).await?,
            Call::LoopBesideWait => {
                let steps = async {
                    for part in ["l0", "l1", "l2"] {
                        self.quietly("looped", part, WELL).await?;
                    }
                    anyhow::Ok("looped".to_owned())
                };
                let names = [format!("no{}", self.place), format!("never{}", self.place)];
                let names = [names[0].as_str(), names[1].as_str()];
                let wait = self.cx.wait_any::<u32>(&names, Some(secs(3600)));
                match self.cx.race(steps, wait).await {
                    First::Left(line) => self.world.record(self.cx, line?, true),
                    First::Right(received) => anyhow::bail!("it received {received:?}"),
                }
            }
            other => unreachable!("{other:?} is done by another function"),
        }
        Ok(())
    }

    async fn set_of_waits(&self) -> anyhow::Result<()> {
        self.world.may_park(self.cx);
        let never = format!("silence{}", self.place);
        let members: Vec<Member<'_>> = vec![
            Box::pin(self.quietly("beside", "b", WELL)),
            Box::pin(async { self.cx.sleep(secs(6)).await.map(|()| "slept".to_owned()) }),
            Box::pin(async {
                let received = self.cx.wait_signal::<u32>(&never, Some(secs(9))).await?;
                Ok(format!("{received:?}"))
            }),
        ];
        let (line, is_saved) = said_of(&all(members).await);
        anyhow::ensure!(is_saved, "{line}");
        self.world.record(self.cx, line, true);
        Ok(())
    }

    async fn tasks(&self) -> anyhow::Result<()> {
        let mut tasks = JoinSet::new();
        for number in 0..3 {
            let (cx, place) = (self.cx.clone(), self.place);
            tasks.spawn(async move {
                turns(number % 2).await;
                cx.step(&format!("task{number}"), async move { anyhow::Ok(format!("{place}.{number}")) })
                    .await
            });
        }
        let mut lines = Vec::new();
        while let Some(ended) = tasks.join_next().await {
            lines.push(ended??);
        }
        lines.sort();
        self.world.record(self.cx, lines.join(", "), true);
        Ok(())
    }

    async fn retry_in_select(&self, failing: usize) -> anyhow::Result<()> {
        let tries = async {
            for number in 0..3 {
                let how = How { fails: if number < failing { usize::MAX } else { 0 }, is_bad: false };
                if self.quietly("attempt", &format!("r{number}"), how).await.is_ok() {
                    return anyhow::Ok(number);
                }
                turns(number).await;
            }
            anyhow::bail!("no try succeeded");
        };
        let limit = format!("limit{}", self.place);
        let line = tokio::select! {
            biased;
            count = tries => format!("{} tries failed", count?),
            slept = self.cx.sleep_named(&limit, secs(3600)) => {
                anyhow::bail!("the timeout was first: {slept:?}");
            }
        };
        self.world.record(self.cx, line, true);
        Ok(())
    }

    async fn race_of_races(&self, how: How) -> anyhow::Result<()> {
        let step = Box::pin(self.cx.race(self.quietly("racing", "", how), self.cx.sleep(secs(3000))));
        let never = format!("quiet{}", self.place);
        let waits = Box::pin(
            self.cx.race(self.cx.wait_signal::<u32>(&never, Some(secs(3600))), self.cx.sleep(secs(3300))),
        );
        match self.cx.race(step, waits).await {
            First::Left(First::Left(outcome)) => {
                let (line, is_saved) = said(&outcome);
                self.world.record(self.cx, line, is_saved);
            }
            _ => anyhow::bail!("a wait was shorter than a step"),
        }
        self.world.may_park(self.cx);
        let sleeps = self.cx.race(self.cx.sleep(secs(5)), self.cx.sleep(secs(8)));
        let wait = self.cx.wait_signal::<u32>("none", Some(secs(30)));
        match self.cx.race(sleeps, wait).await {
            First::Left(First::Left(slept)) => slept?,
            _ => anyhow::bail!("the shortest sleep was not the first"),
        }
        self.world.record(self.cx, "the shortest".to_owned(), false);
        Ok(())
    }

    async fn race_of_all(&self) -> anyhow::Result<()> {
        self.world.may_park(self.cx);
        let children =
            self.cx.spawn_all([Fill { bytes: SLOW }, Fill { bytes: 1 }], GroupStrategy::CollectAll);
        let (signal, sleep) = (self.cx.wait_signal::<u32>("unknown", Some(secs(60))), self.cx.sleep(secs(7)));
        match self.cx.race(children, self.cx.race(signal, sleep)).await {
            First::Right(First::Right(slept)) => slept?,
            _ => anyhow::bail!("the sleep was not the first"),
        }
        self.world.record(self.cx, "slept beside all".to_owned(), false);
        Ok(())
    }

    async fn sleep_beside(&self, undo: Undo, how: How) -> anyhow::Result<()> {
        let before = self.world.log(self.cx, |log| log.lines.len());
        let (sleep, step) = (self.cx.sleep(secs(4)), self.quietly("hasty", "h", how));
        let both = match undo {
            Undo::Join => {
                let (slept, done) = tokio::join!(sleep, step);
                slept.and(done)
            }
            Undo::TryJoin => tokio::try_join!(sleep, step).map(|((), done)| done),
            Undo::Text => {
                let (slept, done) = tokio::join!(sleep, step);
                slept.and(done.map_err(|error| anyhow::anyhow!("beside a sleep: {error}")))
            }
        };
        if both.is_err() {
            self.world.log(self.cx, |log| log.reopened = Some(before));
        }
        self.world.record(self.cx, both?, true);
        Ok(())
    }

    async fn caught(&self, how: How) -> anyhow::Result<()> {
        let both = async {
            let one = self.quietly("inner", "1", WELL).await?;
            let other = self.quietly("inner", "2", how).await.map_err(|error| error.context("both"))?;
            anyhow::Ok(format!("{one} {other}"))
        };
        let caught = both.await;
        let is_error = caught.is_err();
        let (line, is_saved) = said(&caught);
        self.world.record(self.cx, line, is_saved);
        drop(caught);
        if is_error {
            self.step("compensate", "3", WELL).await?;
        }
        Ok(())
    }
}
