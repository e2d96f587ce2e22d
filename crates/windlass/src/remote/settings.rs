//! Settings, queues, workers and statistics at a server.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use windlass_api::pause::Gate;
use windlass_api::queue::{Queue, Queues};
use windlass_api::settings::{
    QueueBody, QueueSettingsView, TenantBody, TenantSettingsView, TypeBody, TypeSettingsView,
};
use windlass_api::worker::Workers;

use super::Remote;
use super::client::Call;
use super::error::unknown;
use crate::clock::Timestamp;
use crate::error::{ActionError, StoreError};
use crate::job::QueueName;
use crate::settings::QueueSettings;
use crate::settings::patch::SettingsPatch;
use crate::store::command::settings::{Settings, SettingsReport};
use crate::store::documents::config::Config;
use crate::store::query::queues::QueueInfo;
use crate::store::query::stats::Stats;
use crate::store::wire::pause::gate_pauses;
use crate::store::wire::queue::queue_info;
use crate::store::wire::worker::stored_worker;

/// An object after an action, and whether the action changed it.
#[derive(Deserialize)]
pub(super) struct ActionResponse<T> {
    #[serde(flatten)]
    pub(super) object: T,
    pub(super) changed: bool,
}

impl Remote {
    pub(crate) async fn configure(&self, patch: SettingsPatch) -> Result<SettingsReport, ActionError> {
        // Repeating a change of settings is harmless.
        match patch {
            SettingsPatch::Queue(queue, patch) => {
                let call = Call::put(format!("/queues/{queue}")).json(&QueueBody::from(&patch));
                let (shown, is_changed) = self.set::<QueueSettingsView>(call).await?;
                Ok(SettingsReport { settings: Settings::Queue(queue, shown.into()), is_changed })
            }
            SettingsPatch::Type(name, patch) => {
                let call = Call::put(format!("/types/{name}")).json(&TypeBody::from(&patch));
                let (shown, is_changed) = self.set::<TypeSettingsView>(call).await?;
                Ok(SettingsReport { settings: Settings::Type(name, shown.into()), is_changed })
            }
            SettingsPatch::Tenant(tenant, patch) => {
                let call = Call::put(format!("/tenants/{tenant}")).json(&TenantBody::from(&patch));
                let (shown, is_changed) = self.set::<TenantSettingsView>(call).await?;
                Ok(SettingsReport { settings: Settings::Tenant(tenant, shown.into()), is_changed })
            }
        }
    }

    /// Changes settings: what is set afterwards, and whether anything changed.
    async fn set<T: DeserializeOwned>(&self, call: Call) -> Result<(T, bool), ActionError> {
        let answer = self.client.ask::<ActionResponse<T>>(call.repeatable(true)).await;
        let ActionResponse { object, changed } =
            answer.map_err(|error| error.into_act(unknown("settings")))?;
        Ok((object, changed))
    }

    /// Workers, pauses and settings of queues; settings of types and tenants are not available, nor are keys.
    pub(crate) async fn config(&self) -> Result<Config, StoreError> {
        let mut config = Config::default();
        let mut cursor = None;
        loop {
            let page: Workers = self.client.ask(Call::get("/workers").query_if("cursor", cursor)).await?;
            for worker in page.workers {
                let (worker, hold) = stored_worker(worker);
                config.workers.insert(worker.id, worker);
                config.pauses.extend(hold.map(|hold| (hold.scope.clone(), hold)));
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let gate: Gate = self.client.ask(Call::get("/gate")).await?;
        config.pauses.extend(gate_pauses(gate).into_iter().map(|hold| (hold.scope.clone(), hold)));
        for queue in self.queues().await? {
            config.pauses.extend(queue.paused.map(|hold| (hold.scope.clone(), hold)));
            if queue.settings != QueueSettings::default() {
                config.queues.insert((queue.name, None), queue.settings);
            }
        }
        Ok(config)
    }

    pub(crate) async fn queue(&self, queue: QueueName) -> Result<QueueInfo, StoreError> {
        let shown: Queue = self.client.ask(Call::get(format!("/queues/{queue}"))).await?;
        Ok(queue_info(shown, self.now()))
    }

    pub(crate) async fn queues(&self) -> Result<Vec<QueueInfo>, StoreError> {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page: Queues = self.client.ask(Call::get("/queues").query_if("cursor", cursor)).await?;
            let now = self.now();
            found.extend(page.queues.into_iter().map(|queue| queue_info(queue, now)));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }

    pub(crate) async fn oldest_ready(&self, queue: QueueName) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.queue(queue).await?.oldest)
    }

    pub(crate) async fn stats(&self) -> Result<Stats, StoreError> {
        let shown: windlass_api::stats::Stats = self.client.ask(Call::get("/stats")).await?;
        Ok(shown.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobState;

    #[test]
    fn an_age_is_counted_back_from_now() {
        let text = r#"{"name":"mail","depth":{"scheduled":2},"oldest_age":"1m30s","paused":null,"max_running":3,"timeouts":{},"retention":{},"known":true,"resumed":null,
            "rates":{"last_minute":RATES,"last_hour":RATES}}"#;
        let rates = r#"{"submitted":5,"claimed":0,"completed":0,"failed":0,"retried":0,"dead_letter":0,"cancelled":0,
            "reaped":0,"waited":{},"ran":{}}"#;
        let text = text.replace("RATES", rates);
        let shown: Queue = serde_json::from_str(&text).unwrap();
        let queue = queue_info(shown, Timestamp::from_millis(600_000));
        assert_eq!(queue.oldest, Some(Timestamp::from_millis(510_000)));
        assert_eq!(queue.minutes[&9].submitted, 5);
        assert_eq!(queue.settings.max_running, Some(3));
        assert_eq!(queue.depth[&JobState::Scheduled], 2);
    }
}
