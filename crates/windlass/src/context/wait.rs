//! Sleeping and waiting for signals without holding a slot. The handler stops here; when the job runs again, it
//! continues with the saved result.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::call::Call;
use super::history::{Record, millis};
use super::quiet::{Kind, WaitAnswer, WakeUp};
use super::{CrashPoint, Cx, HandlerExit, StepMode, failed};
use crate::clock::Timestamp;
use crate::job::Failure;
use crate::limits;

/// The result of waiting for a signal, as the store saves it.
#[derive(Deserialize)]
struct WaitResult {
    #[serde(default)]
    signal: serde_json::Value,
    #[serde(default)]
    timeout: bool,
}

/// The winner of a race, see [`Cx::race`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First<L, R> {
    /// The left future's output.
    Left(L),
    /// The right future's output.
    Right(R),
}

impl Cx {
    /// Sleeps without holding a slot or a process. The end is saved in the commit that parks the job or, beside other work,
    /// at once, and stays the same across later crashes.
    ///
    /// A sleep is identified by its number and its length, so that changed code is detected. If the length differs
    /// between attempts, other than by counting down to a fixed time, use [`sleep_named`](Cx::sleep_named).
    ///
    /// Beside a step (`select!`, `join!`, [`race`](Cx::race)) the job parks when the step has ended.
    ///
    /// # Errors
    /// If the job's lifetime ends before the sleep (`lifetime_too_short`), if the saved sleep is different
    /// (`steps_changed`), or if the lease was lost.
    pub async fn sleep(&self, duration: Duration) -> Result<(), anyhow::Error> {
        self.sleep_as("", duration).await
    }

    /// Sleeps like [`sleep`](Cx::sleep), but is identified by its name: the length may change.
    ///
    /// # Errors
    /// As for [`sleep`](Cx::sleep), except for a different length.
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
                // It ran beside others and need not come again: this is the next one.
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
            call.save_part(record);
            until
        } else {
            let until = self.end_of(duration)?;
            let lasts_ms = Some(millis(duration));
            let record = Record { until: Some(until), lasts_ms, ..call.record() };
            self.save_with_next(&call, &record).await.map_err(failed)?;
            call.save_part(record);
            until
        };
        if until > self.now() {
            self.park(WakeUp::Moment(until)).await?;
        }
        call.keep();
        Ok(())
    }

    /// Rejects a sleep that differs from the saved one. A sleep that counts down to a fixed time has the same end in
    /// every attempt, and length zero after that time.
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
        self.client().api().environment().clock.now()
    }

    /// The end of a wait that starts now and lasts for `duration`.
    fn end_of(&self, duration: Duration) -> Result<Timestamp, Failure> {
        let (until, job) = (self.now().plus(duration), &self.0.claimed.job);
        if until < job.expires_at {
            return Ok(until);
        }
        let message = format!(
            "{duration:?} from now is after the end of the job's lifetime ({}): set a longer `lifetime` for the job, \
             its type or its queue",
            job.expires_at
        );
        Err(Failure::permanent("lifetime_too_short", message))
    }

    /// Parks the job until the awaited event, unless something else in the handler continues first. Returns if the end
    /// of the wait has been reached in the meantime.
    pub(super) async fn park(&self, awaited: WakeUp) -> Result<(), anyhow::Error> {
        self.crash_at(&CrashPoint::BeforePark).await;
        if self.is_batched() {
            return self.leave(HandlerExit::Park(awaited.into_park(self.now()))).await;
        }
        match self.0.order.wait(Kind::Park(awaited.clone()), |_| false).await {
            WaitAnswer::Alone => self.leave(HandlerExit::Park(awaited.into_park(self.now()))).await,
            WaitAnswer::Go | WaitAnswer::Changed | WaitAnswer::Spawn(_) | WaitAnswer::SpawnFirst => Ok(()),
        }
    }

    /// Waits for a signal without holding a slot; `None` if `timeout` passes. Signals sent earlier are found.
    ///
    /// Beside a step (`select!`, `join!`, [`race`](Cx::race)) the job parks when the step has ended.
    ///
    /// # Errors
    /// If the signal's value is not a `T` (`signal_unreadable`), if the job's lifetime ends before the timeout
    /// (`lifetime_too_short`), or if the lease was lost.
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

    /// Waits for the first of several signals and returns its name and value; `None` if `timeout` passes. If several have
    /// arrived already, the first in `names` is taken.
    ///
    /// # Errors
    /// As for [`wait_signal`](Cx::wait_signal).
    pub async fn wait_any<T: DeserializeOwned>(
        &self,
        names: &[&str],
        timeout: Option<Duration>,
    ) -> Result<Option<(String, T)>, anyhow::Error> {
        if names.is_empty() {
            return Err(Failure::permanent("not_allowed", "no signal names were given").into());
        }
        let mut waits: Vec<_> = names.iter().map(|name| Box::pin(self.wait_signal(name, timeout))).collect();
        poll_fn(|context| {
            let mut first = Poll::Pending;
            // Every wait is called, even after one succeeded, so that calls are counted the same in every attempt.
            for (name, wait) in names.iter().zip(&mut waits) {
                if first.is_pending()
                    && let Poll::Ready(received) = wait.as_mut().poll(context)
                {
                    first = Poll::Ready(received.map(|value| Some(((*name).to_owned(), value?))));
                } else if first.is_ready() {
                    let _ended_or_not = wait.as_mut().poll(context);
                }
            }
            first
        })
        .await
    }

    /// Runs both futures until one is done, and drops the other; if both are done, the left one wins. Once a later step
    /// is saved, every attempt decides the same.
    ///
    /// Unlike `tokio::select!`, it always polls the left one first.
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

    /// The end of waiting for a signal: as saved on the first run, or counted from now and saved.
    async fn deadline_of(&self, call: &Call<'_>, timeout: Duration) -> Result<Timestamp, anyhow::Error> {
        let key = format!("deadline:{}", call.key());
        if let Some(saved) = self.saved(&key) {
            let record: Record<'_> = serde_json::from_slice(&saved)?;
            return Ok(record.until.unwrap_or(Timestamp::MIN));
        }
        let until = self.end_of(timeout)?;
        let record = serde_json::to_vec(&Record { until: Some(until), ..Record::default() })?;
        self.save_after_with_next(call, Some((key, record))).await.map_err(failed)?;
        Ok(until)
    }

    /// The result of waiting for a signal until `until`.
    async fn decode_signal<T: DeserializeOwned>(
        &self,
        name: &str,
        call: &mut Call<'_>,
        until: Option<Timestamp>,
    ) -> Result<Option<T>, anyhow::Error> {
        let Some(saved) = self.saved_by(call) else {
            self.save_after_with_next(call, None).await.map_err(failed)?;
            let (name, step) = (name.to_owned(), call.key().to_owned());
            self.park(WakeUp::Signal { name, step, until }).await?;
            return std::future::pending().await;
        };
        let unreadable = |error: serde_json::Error| {
            let message =
                format!("the value of signal `{name}` cannot be read as the type the code expects: {error}");
            Failure::permanent("signal_unreadable", message)
        };
        let waited: WaitResult = serde_json::from_slice(&saved).map_err(unreadable)?;
        call.keep();
        if waited.timeout {
            return Ok(None);
        }
        Ok(Some(serde_json::from_value(waited.signal).map_err(unreadable)?))
    }
}
