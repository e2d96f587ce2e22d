//! Sleeping and waiting for signals without holding a slot (M72). The handler stops here; when the job runs again it gets
//! past this point with what was saved.

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{CrashPoint, Cx, Stop, failed};
use crate::clock::Timestamp;
use crate::store::command::finish::Park;

/// The end of a sleep or of a wait as saved: it is fixed when it begins.
#[derive(Serialize, Deserialize)]
struct End {
    until: Timestamp,
}

/// What came of waiting for a signal, as the store saves it.
#[derive(Deserialize)]
struct Waited {
    #[serde(default)]
    signal: serde_json::Value,
    #[serde(default)]
    timeout: bool,
}

impl Cx {
    /// Sleeps without holding a slot or a process: the end is fixed on the first run and holds across crashes.
    ///
    /// # Errors
    /// When the lease is not held any more.
    pub async fn sleep(&self, duration: Duration) -> Result<(), anyhow::Error> {
        let key = self.occurrence("sleep:");
        let until = self.end_of(&key, duration).await?;
        if until <= self.now() {
            return Ok(());
        }
        self.park(Park::Until(until)).await
    }

    /// Stops the handler until what it waits for has come.
    async fn park<T>(&self, park: Park) -> Result<T, anyhow::Error> {
        self.crash_at(&CrashPoint::BeforePark).await;
        self.leave(Stop::Park(park)).await
    }

    fn now(&self) -> Timestamp {
        self.queue().store().environment().clock.now()
    }

    /// When something that lasts for `duration` ends: as saved on its first run, or counted from now and saved.
    async fn end_of(&self, key: &str, duration: Duration) -> Result<Timestamp, anyhow::Error> {
        if let Some(saved) = self.saved(key) {
            return Ok(serde_json::from_slice::<End>(&saved)?.until);
        }
        let until = self.now().plus(duration);
        self.save(key, serde_json::to_vec(&End { until })?).await.map_err(failed)?;
        Ok(until)
    }

    /// How much of `timeout` is left since its first run.
    async fn left_until(&self, key: &str, timeout: Duration) -> Result<Duration, anyhow::Error> {
        Ok(self.end_of(key, timeout).await?.since(self.now()))
    }

    /// Waits for a signal without holding a slot; none when `timeout` is over. One that was sent before is found.
    ///
    /// # Errors
    /// When the signal's value is not a `T`.
    pub async fn wait_signal<T: DeserializeOwned>(
        &self,
        name: &str,
        timeout: Option<Duration>,
    ) -> Result<Option<T>, anyhow::Error> {
        let key = self.occurrence(&format!("signal:{name}"));
        let Some(saved) = self.saved(&key) else {
            let timeout = match timeout {
                Some(timeout) => Some(self.left_until(&format!("deadline:{key}"), timeout).await?),
                None => None,
            };
            let park = Park::Signal { name: name.to_owned(), step: Some(key), timeout };
            return self.park(park).await;
        };
        let waited: Waited = serde_json::from_slice(&saved)?;
        if waited.timeout {
            return Ok(None);
        }
        Ok(Some(serde_json::from_value(waited.signal)?))
    }
}
