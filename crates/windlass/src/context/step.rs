//! Durable steps: run once per job, whatever crashes (M70, M71).

use std::future::Future;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{CHECKPOINT, CrashPoint, Cx, StepMode, failed};
use crate::handler::failure_of;
use crate::job::{Category, Failure};

/// How the names of what the context itself saves begin.
const RESERVED: [&str; 4] = ["sleep:", "signal:", "children:", "deadline:"];

/// A step as saved: where in the run it was called, and what it came to.
#[derive(Serialize, Deserialize)]
struct Saved<'a> {
    at: u32,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    value: Option<&'a RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
}

impl Cx {
    /// Runs `work` once per job: its result is saved before it is returned, and every later attempt gets what was saved.
    ///
    /// Only success and permanent failures are saved; anything else runs again. A step is known by its name and how often
    /// the name was called before.
    ///
    /// # Errors
    /// What `work` says; or that the saved steps do not match the code any more (M71).
    pub async fn step<T, E>(
        &self,
        name: &str,
        work: impl Future<Output = Result<T, E>> + Send,
    ) -> Result<T, anyhow::Error>
    where
        T: Serialize + DeserializeOwned + Send,
        E: Into<anyhow::Error>,
    {
        let is_reserved = RESERVED.iter().any(|prefix| name.starts_with(prefix));
        if name == CHECKPOINT || name.contains('#') || is_reserved {
            return Err(Failure::permanent("step_name", format!("a step cannot be named `{name}`")).into());
        }
        let (at, key) = (self.next_position(), self.occurrence(name));
        self.match_position(at, &key)?;
        if let Some(saved) = self.saved(&key) {
            return replay(&key, &saved);
        }
        self.crash_at(&CrashPoint::BeforeStep(name.to_owned())).await;
        let (value, result) = match work.await {
            Ok(output) => (Some(serde_json::value::to_raw_value(&output).map_err(unwritable)?), Ok(output)),
            Err(error) => (None, Err(error.into())),
        };
        let failure = match &result {
            Ok(_) => None,
            Err(error) => match failure_of(error) {
                failure if failure.category == Category::Permanent => Some(failure),
                _ => return result,
            },
        };
        let saved = serde_json::to_vec(&Saved { at, value: value.as_deref(), failure })?;
        self.save(&key, saved).await.map_err(failed)?;
        self.crash_at(&CrashPoint::AfterStep(name.to_owned())).await;
        result
    }

    /// Refuses to go on when an earlier attempt called another step here: the code was changed under a running job.
    pub(super) fn match_position(&self, at: u32, key: &str) -> Result<(), anyhow::Error> {
        if self.0.mode == StepMode::Lenient {
            return Ok(());
        }
        let saved = super::lock(&self.0.saved);
        for (name, value) in saved.iter().filter(|(name, _)| *name != CHECKPOINT) {
            let Ok(step) = serde_json::from_slice::<Saved<'_>>(value) else { continue };
            if (step.at == at) != (name == key) {
                let message = format!(
                    "the code was changed: step {at} is `{key}` now, an earlier attempt saved `{name}` as step {}; \
                     let jobs that began before end first, or make the worker lenient",
                    step.at
                );
                return Err(Failure::permanent("steps_changed", message).into());
            }
        }
        Ok(())
    }
}

#[allow(clippy::needless_pass_by_value, reason = "so that `map_err(unwritable)` does")]
fn unwritable(error: serde_json::Error) -> anyhow::Error {
    Failure::permanent(
        "step_unwritable",
        format!("what the step returned cannot be written as JSON: {error}"),
    )
    .into()
}

fn replay<T: DeserializeOwned>(key: &str, saved: &[u8]) -> Result<T, anyhow::Error> {
    let changed = |error: serde_json::Error| -> anyhow::Error {
        let message = format!("what step `{key}` saved is not what the code expects now: {error}");
        Failure::permanent("steps_changed", message).into()
    };
    let saved: Saved<'_> = serde_json::from_slice(saved).map_err(changed)?;
    match saved.failure {
        Some(failure) => Err(failure.into()),
        None => serde_json::from_str(saved.value.map_or("null", RawValue::get)).map_err(changed),
    }
}
