//! Durable steps: run once per job, whatever crashes (M70, M71).

use std::future::Future;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{CHECKPOINT, CrashPoint, Cx, StepMode, StepRun, failed};
use crate::handler::failure_of;
use crate::job::{Category, Failure};

/// How the names of what the context itself saves begin.
const RESERVED: [&str; 4] = ["sleep:", "signal:", "children:", "deadline:"];

fn is_reserved(name: &str) -> bool {
    name == CHECKPOINT || RESERVED.iter().any(|prefix| name.starts_with(prefix))
}

/// A step as saved: where in the order of steps it stands, unless it ran beside another, and what it came to.
#[derive(Serialize, Deserialize)]
struct Saved<'a> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<u32>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    value: Option<&'a RawValue>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
}

impl Cx {
    /// Runs `work` once per job: its result is saved before it is returned, and every later attempt gets what was saved.
    ///
    /// Only success and permanent failures are saved; anything else runs again. A step is known by its name and by how
    /// many steps of that name were saved before it; so steps that run side by side should have different names.
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
        if is_reserved(name) || name.contains('#') {
            return Err(Failure::permanent("step_name", format!("a step cannot be named `{name}`")).into());
        }
        let mut call = self.0.order.call(name);
        let key = call.key();
        let saved = self.saved(&key);
        if self.0.conduct.mode == StepMode::Strict {
            call.in_turn(saved.is_some()).await?;
        }
        if let Some(saved) = saved {
            call.keep();
            self.journal(&key, StepRun::Replayed);
            return replay(&key, &saved);
        }
        self.crash_at(&CrashPoint::BeforeStep(name.to_owned())).await;
        call.begin();
        self.journal(&key, StepRun::Ran);
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
        let saved = serde_json::to_vec(&Saved { at: call.place(), value: value.as_deref(), failure })?;
        self.save(&key, saved).await.map_err(failed)?;
        call.keep();
        self.crash_at(&CrashPoint::AfterStep(name.to_owned())).await;
        result
    }
}

/// Where in the order of steps a saved one stands; none for what is no step, and for what ran beside another.
pub(super) fn place_of(key: &str, saved: &[u8]) -> Option<u32> {
    if is_reserved(key) {
        return None;
    }
    serde_json::from_slice::<Saved<'_>>(saved).ok()?.at
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
