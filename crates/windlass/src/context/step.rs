//! Durable steps: run once per job, even across crashes.

use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tracing::Instrument;
use tracing::field::Empty;

use super::branch::Branch;
use super::call::Call;
use super::history::{Record, is_reserved};
use super::{CrashPoint, Cx, StepRun, failed};
use crate::handler::{Snooze, failure_of, find_error};
use crate::job::{Category, Failure};

impl Cx {
    /// Runs `work` once per job. Its result is saved before it is returned, and later attempts get the saved value. The
    /// first attempt also gets the value as read back from what was saved.
    ///
    /// Success and permanent errors are saved. A temporary error is saved when a later step, sleep, wait or group is
    /// saved: the handler has continued, and a later attempt has to take the same path. If the error fails the attempt,
    /// the step is not saved and runs again.
    ///
    /// A step is identified by its name and the number of earlier calls of that name, so steps that run concurrently
    /// should have different names.
    ///
    /// # Errors
    /// The error of `work`, as a [`Failure`], or an error that the saved steps no longer match the code.
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
        let span = tracing::debug_span!("step", otel.name = format!("step {name}"), otel.status_code = Empty);
        let ran = Branch::within(call.key()).run(work).instrument(span.clone()).await;
        let (value, outcome) = match ran.map_err(Into::into) {
            Ok(output) => read_back(&output),
            Err(error) => {
                span.record("otel.status_code", "error");
                let (failure, snooze) = (failure_of(&error), find_error::<Snooze>(&error).copied());
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
            return Err(match find_error::<Failure>(&error) {
                // The handler may continue after this as after any other error.
                Some(failure) => call.fail(failure.clone(), None, None).into(),
                None => error,
            });
        }
        call.keep();
        self.crash_at(&CrashPoint::AfterStep(name.to_owned())).await;
        Ok(outcome?)
    }

    /// Runs the step that returned `error` again in the next attempt if this attempt fails, whatever it fails with. For
    /// errors that a handler collects or rephrases before it continues with other steps:
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
    /// An error that no step of this attempt returned has no effect.
    pub fn retry_later(&self, error: &anyhow::Error) {
        self.0.order.retry_later(error);
    }
}

/// A value as JSON, and as read back from it: the value that later attempts get.
fn read_back<T: Serialize + DeserializeOwned>(output: &T) -> (Option<Box<RawValue>>, Result<T, Failure>) {
    let unwritable = |error: serde_json::Error| {
        let message = format!("the step's value cannot be read back from its JSON: {error}");
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
        let message =
            format!("the saved value of step `{key}` cannot be read as the type the code expects: {error}");
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

/// Returns a saved temporary error as the handler got it originally.
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
