//! Calls with which replays once differed: snoozes, collected errors, steps behind a gate, groups that fail, `select!` over
//! waits, names that look alike, and numbers.

use tokio::sync::Semaphore;
use windlass::context::ChildError;
use windlass::handler::Snooze;
use windlass::job::{GroupStrategy, JobState};

use super::super::acts::{Call, How, WELL};
use super::super::world::said;
use super::{BAD, CAME, DROPPED, Run, SLOW, turns};
use crate::fixture::secs;
use crate::worker::job_types::Fill;

impl Run<'_> {
    pub(super) async fn further(&self, act: Call) -> anyhow::Result<()> {
        match act {
            Call::Snooze => {
                let once = How { fails: 1, is_bad: false };
                if self.world.fails(self.cx, &self.place.to_string(), once) {
                    return Err(Snooze(secs(3)).into());
                }
            }
            Call::SkipSnooze => {
                let work = async {
                    tokio::task::yield_now().await;
                    Err::<String, _>(anyhow::Error::from(Snooze(secs(3))))
                };
                let outcome = self.cx.step("snoozing", work).await;
                let is_snooze = outcome.as_ref().is_err_and(|error| error.downcast_ref::<Snooze>().is_some());
                let (line, is_saved) = said(&outcome);
                self.world.record(self.cx, format!("{line}, a snooze: {is_snooze}"), is_saved);
            }
            Call::Collect(how) => self.collect(how).await?,
            Call::Gate => self.gate().await?,
            Call::SelectWaits => self.select_waits().await?,
            Call::HearLookalike => {
                self.world.may_park(self.cx);
                let received: Option<u32> = self.cx.wait_signal("word#2", Some(secs(5))).await?;
                self.world.record(self.cx, format!("{received:?}"), true);
            }
            Call::Float(value) => {
                let given = self.cx.step("float", async { anyhow::Ok(value) }).await?;
                anyhow::ensure!(given.to_bits() == value.to_bits(), "{given} instead of {value}");
                self.world.record(self.cx, format!("{given:?}"), true);
            }
            other => self.in_sets(other).await?,
        }
        Ok(())
    }

    /// A step that would come in a later attempt, which must not notice if the handler continued without it.
    pub(super) async fn dropped(&self, name: &str) -> anyhow::Result<()> {
        let is_first = self.world.facts(|facts| facts.dropped.insert(self.place));
        let work = async {
            if is_first {
                std::future::pending::<()>().await;
            }
            anyhow::Ok(())
        };
        let line = tokio::select! {
            biased;
            came = self.cx.step(name, work) => came.map(|()| CAME)?,
            () = turns(if is_first { 3 } else { 1_000 }) => DROPPED,
        };
        self.world.facts(|facts| facts.has_come |= line == CAME);
        self.world.record(self.cx, line.to_owned(), line == CAME);
        Ok(())
    }

    /// The attempt fails if a page did, with an error that does not name it.
    async fn collect(&self, how: How) -> anyhow::Result<()> {
        let before = self.world.log(self.cx, |log| log.lines.len());
        let mut failed = 0;
        for (part, how) in [("c0", how), ("c1", WELL)] {
            if let Err(error) = self.step("page", part, how).await {
                self.cx.retry_later(&error);
                failed += 1;
            }
        }
        self.step("report", "r", WELL).await?;
        if failed > 0 {
            self.world.log(self.cx, |log| log.reopened = Some(before));
            anyhow::bail!("{failed} pages could not be read");
        }
        Ok(())
    }

    async fn gate(&self) -> anyhow::Result<()> {
        let gate = Semaphore::new(1);
        let guarded = |name: &'static str| {
            let gate = &gate;
            async move {
                let _permit = gate.acquire().await?;
                self.quietly(name, name, WELL).await
            }
        };
        let (one, other) = if self.cx.attempt() % 2 == 1 {
            tokio::join!(guarded("one"), guarded("other"))
        } else {
            let (other, one) = tokio::join!(guarded("other"), guarded("one"));
            (one, other)
        };
        self.world.record(self.cx, format!("{}, {}", one?, other?), true);
        Ok(())
    }

    /// The calls have names of their own, because one of them is not made once the other is ready at once.
    async fn select_waits(&self) -> anyhow::Result<()> {
        self.world.may_park(self.cx);
        let (short, never) = (format!("short{}", self.place), format!("never{}", self.place));
        tokio::select! {
            biased;
            slept = self.cx.sleep_named(&short, secs(4)) => slept?,
            received = self.cx.wait_signal::<u32>(&never, Some(secs(9))) => {
                anyhow::bail!("a wait of 9 s was shorter than a sleep of 4 s: {received:?}");
            }
        }
        self.world.record(self.cx, "the sleep".to_owned(), true);
        Ok(())
    }

    /// The error is that of the child that failed, not of the one that was cancelled for it.
    pub(super) async fn fail_fast(&self) -> anyhow::Result<()> {
        let children = [Fill { bytes: SLOW }, Fill { bytes: BAD }];
        let group = self.cx.spawn_all(children, GroupStrategy::FailFast).await?;
        match group.all() {
            Err(ChildError::NotCompleted { state: JobState::Failed, error: Some(error), .. }) => {
                self.world.record(self.cx, format!("a child failed: {}", error.message), true);
                Ok(())
            }
            other => anyhow::bail!("the group gave {other:?}"),
        }
    }
}
