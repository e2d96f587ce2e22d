//! Durable steps: run once per job, whatever crashes (M70, M71).

use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::branch::Branch;
use super::call::Call;
use super::history::{Record, is_reserved};
use super::{CrashPoint, Cx, StepRun, failed};
use crate::handler::{Snooze, failure_of, said};
use crate::job::{Category, Failure};

impl Cx {
    /// Runs `work` once per job: its result is saved before it is returned, and every later attempt gets what was saved.
    /// The first attempt, too, gets the value as it was read back from what was saved.
    ///
    /// Success and permanent errors are saved. A temporary error is saved once a later step, sleep, wait or group is: the
    /// handler has gone on, and a later attempt has to take the same way. An error that fails the attempt leaves the step
    /// undone, and it runs again.
    ///
    /// A step is known by its name and by how many calls of that name came before it; so steps that run side by side
    /// should have different names.
    ///
    /// # Errors
    /// What `work` says, as a [`Failure`]; or that the saved steps do not match the code any more (M71).
    pub async fn step<T, E>(
        &self,
        name: &str,
        work: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, anyhow::Error>
    where
        T: Serialize + DeserializeOwned + Send,
        E: Into<anyhow::Error>,
    {
        if name.is_empty() || is_reserved(name) || name.contains('#') {
            return Err(Failure::permanent("step_name", format!("a step cannot be named `{name}`")).into());
        }
        let mut call = self.call(name).await?;
        if let Some(saved) = self.saved_by(&call) {
            self.journal(call.key(), StepRun::Replayed);
            return replay(&mut call, &saved);
        }
        self.crash_at(&CrashPoint::BeforeStep(name.to_owned())).await;
        call.begin();
        self.journal(call.key(), StepRun::Ran);
        let (value, outcome) = match Branch::within(call.key()).run(work).await.map_err(Into::into) {
            Ok(output) => read_back(&output),
            Err(error) => {
                let (failure, snooze) = (failure_of(&error), said::<Snooze>(&error).copied());
                if snooze.is_some() {
                    call.fail(failure, Some(&error), snooze);
                    return Err(error);
                }
                if failure.category != Category::Permanent {
                    return Err(call.fail(failure, Some(&error), None).into());
                }
                (None, Err(failure))
            }
        };
        let failure = outcome.as_ref().err().cloned();
        let record = Record { value: value.as_deref(), failure, ..call.record() };
        if let Err(error) = self.save_call(&call, &record).await {
            let error = failed(error);
            return Err(match said::<Failure>(&error) {
                // The handler may go on from here as from any other error.
                Some(failure) => call.fail(failure.clone(), None, None).into(),
                None => error,
            });
        }
        call.keep();
        self.crash_at(&CrashPoint::AfterStep(name.to_owned())).await;
        Ok(outcome?)
    }

    /// Has the step that returned `error` run again in the next attempt, if this one fails, whatever it fails with. For
    /// errors that a handler collects, or tells in words of its own, before it goes on with other steps:
    ///
    /// ```
    /// # async fn pages(cx: windlass::Cx) -> anyhow::Result<()> {
    /// let mut failed = 0;
    /// for number in 0..9 {
    ///     if let Err(error) = cx.step("page", async { anyhow::Ok(number) }).await {
    ///         cx.retry_later(&error);
    ///         failed += 1;
    ///     }
    /// }
    /// anyhow::ensure!(failed == 0, "{failed} pages failed");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// An error that no step of this attempt returned is no matter.
    pub fn retry_later(&self, error: &anyhow::Error) {
        self.0.order.retry_later(error);
    }
}

/// A value as JSON, and as it is read back from it: what every later attempt gets.
fn read_back<T: Serialize + DeserializeOwned>(output: &T) -> (Option<Box<RawValue>>, Result<T, Failure>) {
    let unwritable = |error: serde_json::Error| {
        let message = format!("what the step returned does not survive being saved as JSON: {error}");
        Failure::permanent("step_unwritable", message)
    };
    let read = serde_json::value::to_raw_value(output).and_then(|raw| {
        let output = serde_json::from_str(raw.get())?;
        Ok((raw, output))
    });
    match read {
        Ok((raw, output)) => (Some(raw), Ok(output)),
        Err(error) => (None, Err(unwritable(error))),
    }
}

fn replay<T: DeserializeOwned>(call: &mut Call<'_>, saved: &[u8]) -> Result<T, anyhow::Error> {
    let key = call.key().to_owned();
    let changed = |error: serde_json::Error| -> anyhow::Error {
        let message = format!("what step `{key}` saved is not what the code expects now: {error}");
        Failure::permanent("steps_changed", message).into()
    };
    let record: Record<'_> = serde_json::from_slice(saved).map_err(changed)?;
    call.keep();
    match record.failure.clone() {
        Some(failure) if failure.category == Category::Permanent => Err(failure.into()),
        Some(failure) => Err(fail_again(call, failure, &record)),
        None => serde_json::from_str(record.value.map_or("null", RawValue::get)).map_err(changed),
    }
}

/// A temporary error, as the handler was given it when it was saved.
fn fail_again(call: &mut Call<'_>, failure: Failure, record: &Record<'_>) -> anyhow::Error {
    let Some(snooze) = record.snooze_ms.map(|millis| Snooze(Duration::from_millis(millis))) else {
        return call.fail_again(failure, record, None).into();
    };
    let message = failure.message.clone();
    call.fail_again(failure, record, Some(snooze));
    let context = message.strip_suffix(&format!(": {snooze}")).map(str::to_owned);
    let error = anyhow::Error::from(snooze);
    match context {
        Some(context) => error.context(context),
        None => error,
    }
}
