//! Sleeping and waiting for signals without holding a slot (M72). The handler stops here; when the job runs again it gets
//! past this point with what was saved.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::call::Call;
use super::history::{Record, millis};
use super::quiet::{Answer, Awaited, Kind};
use super::{CrashPoint, Cx, HandlerExit, StepMode, failed};
use crate::clock::Timestamp;
use crate::job::Failure;
use crate::limits;

/// What came of waiting for a signal, as the store saves it.
#[derive(Deserialize)]
struct Waited {
    #[serde(default)]
    signal: serde_json::Value,
    #[serde(default)]
    timeout: bool,
}

/// Which of two was first, see [`Cx::race`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First<L, R> {
    /// The left one, with what it came to.
    Left(L),
    /// The right one, with what it came to.
    Right(R),
}

impl Cx {
    /// Sleeps without holding a slot or a process: the end is fixed on the first run and holds across crashes.
    ///
    /// A sleep is known by its number and by how long it lasts, so that changed code is noticed. Where the length is not
    /// the same in every attempt, other than by counting down to one moment, use [`sleep_named`](Cx::sleep_named).
    ///
    /// Beside a step (`select!`, `join!`, [`race`](Cx::race)) the job parks when the step has ended.
    ///
    /// # Errors
    /// When the job's lifetime ends before the sleep (`lifetime_too_short`), when the saved sleep is another one
    /// (`steps_changed`), and when the lease is not held any more.
    pub async fn sleep(&self, duration: Duration) -> Result<(), anyhow::Error> {
        self.sleep_as("", duration).await
    }

    /// Sleeps as [`sleep`](Cx::sleep) does, and is known by its name: how long it lasts may change.
    ///
    /// # Errors
    /// As for [`sleep`](Cx::sleep), but for the length.
    pub async fn sleep_named(&self, name: &str, duration: Duration) -> Result<(), anyhow::Error> {
        if name.is_empty() {
            return Err(Failure::permanent("step_name", "the name of a sleep cannot be empty").into());
        }
        self.sleep_as(name, duration).await
    }

    async fn sleep_as(&self, name: &str, duration: Duration) -> Result<(), anyhow::Error> {
        let mut call = self.call(&format!("sleep:{name}")).await?;
        let is_checked = name.is_empty() && self.is_strict();
        while let Some(saved) = self.saved_by(&call).filter(|_| is_checked) {
            let record: Record<'_> = serde_json::from_slice(&saved)?;
            match self.check_sleep(call.key(), duration, &record) {
                Ok(()) => break,
                // It ran beside others, and need not come again: this is the next one.
                Err(_) if record.at.is_none() => {
                    call.keep();
                    call = self.call(&format!("sleep:{name}")).await?;
                }
                Err(changed) => return Err(changed.into()),
            }
        }
        let until = if let Some(saved) = self.saved_by(&call) {
            let record: Record<'_> = serde_json::from_slice(&saved)?;
            let until = record.until.unwrap_or(Timestamp::MIN);
            call.goes_on(record);
            until
        } else {
            let until = self.end_of(duration)?;
            let lasts_ms = Some(millis(duration));
            let record = Record { until: Some(until), lasts_ms, ..call.record() };
            self.save_call(&call, &record).await.map_err(failed)?;
            call.goes_on(record);
            until
        };
        if until > self.now() {
            self.park(Awaited::Moment(until)).await?;
        }
        call.keep();
        Ok(())
    }

    /// Refuses a sleep that is not the one that was saved. One that counts down to a moment has the same end in every
    /// attempt, and none is left when that has passed.
    fn check_sleep(&self, key: &str, duration: Duration, saved: &Record<'_>) -> Result<(), Failure> {
        let (Some(until), Some(lasts_ms)) = (saved.until, saved.lasts_ms) else { return Ok(()) };
        let end = self.now().plus(duration);
        let is_same_end = end.since(until).max(until.since(end)) <= limits::SLEEP_END_TOLERANCE;
        if millis(duration) == lasts_ms || duration.is_zero() || is_same_end {
            return Ok(());
        }
        let lasted = Duration::from_millis(lasts_ms);
        let message = format!(
            "the code was changed: sleep `{key}` lasts {duration:?}, and lasted {lasted:?} in an earlier attempt; \
             use `sleep_named` for a sleep whose length varies"
        );
        Err(Failure::permanent("steps_changed", message))
    }

    pub(super) fn is_strict(&self) -> bool {
        self.0.options.mode == StepMode::Strict
    }

    pub(super) fn now(&self) -> Timestamp {
        self.client().store().environment().clock.now()
    }

    /// When something that begins now and lasts for `duration` ends.
    fn end_of(&self, duration: Duration) -> Result<Timestamp, Failure> {
        let (until, job) = (self.now().plus(duration), &self.0.claimed.job);
        if until < job.expires_at {
            return Ok(until);
        }
        let lifetime = job.policy.timeouts.lifetime;
        let message = format!(
            "{duration:?} from now is after the end of the job's lifetime of {lifetime:?} ({}): set a longer `lifetime` \
             for the job, its type or its queue",
            job.expires_at
        );
        Err(Failure::permanent("lifetime_too_short", message))
    }

    /// Stops the handler until what it waits for has come, unless something else that it does comes first. Returns if a
    /// moment has come meanwhile.
    async fn park(&self, awaited: Awaited) -> Result<(), anyhow::Error> {
        self.crash_at(&CrashPoint::BeforePark).await;
        if self.is_batched() {
            return self.leave(HandlerExit::Park(awaited.into_park(self.now()))).await;
        }
        match self.0.order.wait(Kind::Park(awaited.clone()), |_| false).await {
            Answer::Alone => self.leave(HandlerExit::Park(awaited.into_park(self.now()))).await,
            Answer::Go | Answer::Changed | Answer::Spawn(_) => Ok(()),
        }
    }

    /// Waits for a signal without holding a slot; none when `timeout` is over. One that was sent before is found.
    ///
    /// Beside a step (`select!`, `join!`, [`race`](Cx::race)) the job listens when the step has ended.
    ///
    /// # Errors
    /// When the signal's value is not a `T` (`signal_unreadable`), when the job's lifetime ends before the timeout
    /// (`lifetime_too_short`), and when the lease is not held any more.
    pub async fn wait_signal<T: DeserializeOwned>(
        &self,
        name: &str,
        timeout: Option<Duration>,
    ) -> Result<Option<T>, anyhow::Error> {
        let mut call = self.call(&format!("signal:{name}")).await?;
        let until = match timeout {
            Some(timeout) if !call.is_saved() => Some(self.deadline_of(&call, timeout).await?),
            _ => None,
        };
        self.decode_signal(name, &mut call, until).await
    }

    /// Waits for the first of several signals, and says which it was; none when `timeout` is over. Of those that are
    /// there already the first in `names` is taken.
    ///
    /// # Errors
    /// As for [`wait_signal`](Cx::wait_signal).
    pub async fn wait_any<T: DeserializeOwned>(
        &self,
        names: &[&str],
        timeout: Option<Duration>,
    ) -> Result<Option<(String, T)>, anyhow::Error> {
        if names.is_empty() {
            return Err(Failure::permanent("not_allowed", "no signal to wait for was named").into());
        }
        let mut waits: Vec<_> = names.iter().map(|name| Box::pin(self.wait_signal(name, timeout))).collect();
        poll_fn(|context| {
            let mut first = Poll::Pending;
            // Each is asked, also after one was heard: they are counted alike in every attempt.
            for (name, wait) in names.iter().zip(&mut waits) {
                if first.is_pending()
                    && let Poll::Ready(heard) = wait.as_mut().poll(context)
                {
                    first = Poll::Ready(heard.map(|heard| Some(((*name).to_owned(), heard?))));
                } else if first.is_ready() {
                    let _heard_or_not = wait.as_mut().poll(context);
                }
            }
            first
        })
        .await
    }

    /// Runs both until one has ended, and drops the other; if both have, the left one counts. Once a later step is saved
    /// every attempt decides alike.
    ///
    /// Unlike `tokio::select!` it always asks the left one first.
    pub async fn race<L: Future, R: Future>(&self, left: L, right: R) -> First<L::Output, R::Output> {
        let (mut left, mut right) = (pin!(left), pin!(right));
        let [on_left, on_right] = self.0.order.race();
        poll_fn(|context| {
            if let Poll::Ready(ended) = on_left.poll(|| left.as_mut().poll(context)) {
                return Poll::Ready(First::Left(ended));
            }
            on_right.poll(|| right.as_mut().poll(context)).map(First::Right)
        })
        .await
    }

    /// When waiting for a signal ends: as fixed on its first run, or counted from now and saved.
    async fn deadline_of(&self, call: &Call<'_>, timeout: Duration) -> Result<Timestamp, anyhow::Error> {
        let key = format!("deadline:{}", call.key());
        if let Some(saved) = self.saved(&key) {
            let record: Record<'_> = serde_json::from_slice(&saved)?;
            return Ok(record.until.unwrap_or(Timestamp::MIN));
        }
        let until = self.end_of(timeout)?;
        let record = serde_json::to_vec(&Record { until: Some(until), ..Record::default() })?;
        self.save_after(call, Some((key, record))).await.map_err(failed)?;
        Ok(until)
    }

    /// What came of waiting for a signal until `until`.
    async fn decode_signal<T: DeserializeOwned>(
        &self,
        name: &str,
        call: &mut Call<'_>,
        until: Option<Timestamp>,
    ) -> Result<Option<T>, anyhow::Error> {
        let Some(saved) = self.saved_by(call) else {
            self.save_after(call, None).await.map_err(failed)?;
            let (name, step) = (name.to_owned(), call.key().to_owned());
            self.park(Awaited::Signal { name, step, until }).await?;
            return std::future::pending().await;
        };
        let unreadable = |error: serde_json::Error| {
            let message = format!("signal `{name}` is not what the code expects: {error}");
            Failure::permanent("signal_unreadable", message)
        };
        let waited: Waited = serde_json::from_slice(&saved).map_err(unreadable)?;
        call.keep();
        if waited.timeout {
            return Ok(None);
        }
        Ok(Some(serde_json::from_value(waited.signal).map_err(unreadable)?))
    }
}
