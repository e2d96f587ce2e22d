//! Durable steps: run once per job, whatever crashes (M70, M71).

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::history::{Record, is_reserved};
use super::order::Call;
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
        let (value, outcome) = match work.await.map_err(Into::into) {
            Ok(output) => read_back(&output),
            Err(error) if said::<Snooze>(&error).is_some() => {
                call.fail(failure_of(&error), self.is_cancelled());
                return Err(error);
            }
            Err(error) => (None, Err(failure_of(&error))),
        };
        let failure = match &outcome {
            Err(failure) if failure.category != Category::Permanent => {
                return Err(call.fail(failure.clone(), self.is_cancelled()).into());
            }
            Err(failure) => Some(failure.clone()),
            Ok(_) => None,
        };
        let record = Record { value: value.as_deref(), failure, ..call.record() };
        if let Err(error) = self.save_call(&call, &record).await {
            let error = failed(error);
            return Err(match said::<Failure>(&error) {
                // The handler may go on from here as from any other error.
                Some(failure) => call.fail(failure.clone(), self.is_cancelled()).into(),
                None => error,
            });
        }
        call.keep();
        self.crash_at(&CrashPoint::AfterStep(name.to_owned())).await;
        Ok(outcome?)
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
        Some(failure) => Err(call.fail_again(failure, &record).into()),
        None => serde_json::from_str(record.value.map_or("null", RawValue::get)).map_err(changed),
    }
}
