//! Operations for operators at a server: pauses, settings, queues, workers, statistics, keys.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use windlass_api::settings::{
    QueueBody, QueueSettingsView, TenantBody, TenantSettingsView, TypeBody, TypeSettingsView,
};

use super::Remote;
use super::actions::given;
use super::client::Call;
use super::error::RemoteError;
use super::stats::{ShownRates, ShownStats};
use super::text::{Moment, Span};
use crate::clock::Timestamp;
use crate::error::{ActError, FieldProblem, Invalid, StoreError};
use crate::job::{JobState, JobType, QueueName, Tenant, WorkerId};
use crate::settings::patch::SettingsPatch;
use crate::store::command::pause::{Pause, Target};
use crate::store::command::settings::{Configured, Settings};
use crate::store::documents::config::{
    Config, PauseMode, PauseRecord, QueueSettings, Resumption, Scope, Worker,
};
use crate::store::documents::minute_stats::minute_of;
use crate::store::query::queues::QueueInfo;
use crate::store::query::stats::Stats;

/// A pause as sent by the server.
#[derive(Deserialize)]
struct ShownPause {
    by: String,
    at: Moment,
    reason: Option<String>,
    mode: PauseMode,
    expires_at: Option<Moment>,
}

impl ShownPause {
    fn into_hold(self, scope: Scope) -> PauseRecord {
        let expires_at = self.expires_at.map(|moment| moment.0);
        PauseRecord { scope, mode: self.mode, reason: self.reason, by: self.by, since: self.at.0, expires_at }
    }
}

/// The end of a pause as sent by the server.
#[derive(Deserialize)]
struct ShownResumption {
    by: String,
    at: Moment,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Changed {
    changed: bool,
}

/// Settings after a change, among the other fields of the object.
#[derive(Deserialize)]
struct ActedSettings<T> {
    #[serde(flatten)]
    settings: T,
    changed: bool,
}

#[derive(Deserialize)]
struct ShownQueue {
    name: QueueName,
    depth: BTreeMap<JobState, u64>,
    oldest_age: Option<Span>,
    rates: QueueRates,
    paused: Option<ShownPause>,
    #[serde(default)]
    resumed: Option<ShownResumption>,
    #[serde(flatten)]
    settings: QueueSettingsView,
}

#[derive(Deserialize)]
struct QueueRates {
    last_minute: ShownRates,
}

impl ShownQueue {
    /// The queue; only the rates of the last whole minute are available.
    fn into_info(self, now: Timestamp) -> QueueInfo {
        let scope = Scope::Queue { queue: self.name.clone(), tenant: None };
        let minutes = BTreeMap::from([(minute_of(now) - 1, self.rates.last_minute.into())]);
        let resumed = self.resumed.map(|end| Resumption {
            scope: scope.clone(),
            by: end.by,
            at: end.at.0,
            reason: end.reason,
        });
        QueueInfo {
            name: self.name,
            depth: self.depth,
            oldest: self.oldest_age.map(|age| now.minus(age.0)),
            minutes,
            paused: self.paused.map(|pause| pause.into_hold(scope)),
            resumed,
            settings: QueueSettings::from(self.settings),
        }
    }
}

#[derive(Deserialize)]
struct ShownQueues {
    queues: Vec<ShownQueue>,
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct ShownWorkers {
    workers: Vec<ShownWorker>,
    #[serde(default)]
    next_cursor: Option<String>,
}

#[derive(Deserialize)]
struct ShownWorker {
    id: WorkerId,
    name: String,
    tenant: Option<Tenant>,
    queues: Vec<QueueName>,
    types: Vec<JobType>,
    concurrency: u32,
    version: Option<String>,
    heartbeats: bool,
    registered_at: Moment,
    seen_at: Moment,
    alive: bool,
    paused: Option<ShownPause>,
}

impl ShownWorker {
    fn into_worker(self) -> (Worker, Option<PauseRecord>) {
        let hold = self.paused.map(|pause| pause.into_hold(Scope::Worker(self.id)));
        let worker = Worker {
            id: self.id,
            name: self.name,
            tenant: self.tenant,
            queues: self.queues,
            types: self.types,
            concurrency: self.concurrency,
            version: self.version,
            heartbeats: self.heartbeats,
            registered_at: self.registered_at.0,
            seen_at: self.seen_at.0,
            is_lost: !self.alive,
            is_paused: false,
            key: None,
        };
        (worker, hold)
    }
}

#[derive(Deserialize)]
struct ShownGate {
    online: bool,
    reason: Option<String>,
    by: Option<String>,
    since: Option<Moment>,
    #[serde(default)]
    expires_at: Option<Moment>,
    scopes: Vec<ShownScope>,
}

#[derive(Deserialize)]
struct ShownScope {
    tenant: Option<Tenant>,
    r#type: Option<JobType>,
    reason: Option<String>,
    by: String,
    since: Moment,
    #[serde(default)]
    expires_at: Option<Moment>,
}

impl ShownScope {
    fn into_hold(self) -> Option<PauseRecord> {
        let scope = match (self.r#type, self.tenant) {
            (Some(job_type), tenant) => Scope::Type { job_type, tenant },
            (None, Some(tenant)) => Scope::Tenant(tenant),
            (None, None) => return None,
        };
        let (mode, expires_at) = (PauseMode::Graceful, self.expires_at.map(|moment| moment.0));
        Some(PauseRecord { scope, mode, reason: self.reason, by: self.by, since: self.since.0, expires_at })
    }
}

impl ShownGate {
    fn into_holds(self) -> Vec<PauseRecord> {
        let whole = (!self.online).then(|| PauseRecord {
            scope: Scope::Gate,
            mode: PauseMode::Graceful,
            reason: self.reason,
            by: self.by.unwrap_or_default(),
            since: self.since.map_or(Timestamp::MIN, |moment| moment.0),
            expires_at: self.expires_at.map(|moment| moment.0),
        });
        whole.into_iter().chain(self.scopes.into_iter().filter_map(ShownScope::into_hold)).collect()
    }
}

/// The error if the object was not found.
fn missing(target: &Target) -> ActError {
    match target {
        Target::Worker(worker) => ActError::NoSuchWorker(*worker),
        _ => unknown("target"),
    }
}

pub(super) fn unknown(field: &str) -> ActError {
    Invalid::new(field, FieldProblem::Contradiction("is not known to this server".into())).into()
}

impl Remote {
    pub(crate) async fn pause(&self, target: Target, pause: Pause) -> Result<bool, ActError> {
        let Pause { mode, reason, expires } = pause;
        let expires = expires.map(Span);
        let how = || given(json!({"mode": mode, "reason": reason, "expires": expires}));
        let close = |tenant: Option<&Tenant>, job_type: Option<&JobType>| {
            let body = json!({"reason": reason, "expires": expires, "tenant": tenant, "type": job_type});
            Call::post("/gate/offline").json(&given(body))
        };
        let call = match &target {
            Target::Queue(queue) => Call::post(format!("/queues/{queue}/pause")).json(&how()),
            Target::Worker(worker) => Call::post(format!("/workers/{worker}/pause")).json(&how()),
            Target::Gate => close(None, None),
            Target::Tenant(tenant) => close(Some(tenant), None),
            Target::Type(job_type) => close(None, Some(job_type)),
        };
        self.changed(call, &target).await
    }

    pub(crate) async fn resume(&self, target: Target, reason: Option<String>) -> Result<bool, ActError> {
        let open = |tenant: Option<&Tenant>, job_type: Option<&JobType>| {
            let body = json!({"reason": reason, "tenant": tenant, "type": job_type});
            Call::post("/gate/online").json(&given(body))
        };
        let why = given(json!({"reason": reason}));
        let call = match &target {
            Target::Queue(queue) => Call::post(format!("/queues/{queue}/resume")).json(&why),
            Target::Worker(worker) => Call::post(format!("/workers/{worker}/resume")).json(&why),
            Target::Gate => open(None, None),
            Target::Tenant(tenant) => open(Some(tenant), None),
            Target::Type(job_type) => open(None, Some(job_type)),
        };
        self.changed(call, &target).await
    }

    async fn changed(&self, call: Call, target: &Target) -> Result<bool, ActError> {
        let answer: Result<Changed, RemoteError> = self.client.ask(call).await;
        answer.map(|answer| answer.changed).map_err(|error| error.into_act(missing(target)))
    }

    pub(crate) async fn configure(&self, patch: SettingsPatch) -> Result<Configured, ActError> {
        // Repeating a change of settings is harmless.
        match patch {
            SettingsPatch::Queue(queue, patch) => {
                let call = Call::put(format!("/queues/{queue}")).json(&QueueBody::from(&patch));
                let (shown, is_changed) = self.set::<QueueSettingsView>(call).await?;
                Ok(Configured { settings: Settings::Queue(queue, shown.into()), is_changed })
            }
            SettingsPatch::Type(name, patch) => {
                let call = Call::put(format!("/types/{name}")).json(&TypeBody::from(&patch));
                let (shown, is_changed) = self.set::<TypeSettingsView>(call).await?;
                Ok(Configured { settings: Settings::Type(name, shown.into()), is_changed })
            }
            SettingsPatch::Tenant(tenant, patch) => {
                let call = Call::put(format!("/tenants/{tenant}")).json(&TenantBody::from(&patch));
                let (shown, is_changed) = self.set::<TenantSettingsView>(call).await?;
                Ok(Configured { settings: Settings::Tenant(tenant, shown.into()), is_changed })
            }
        }
    }

    /// Changes settings: what is set afterwards, and whether anything changed.
    async fn set<T: DeserializeOwned>(&self, call: Call) -> Result<(T, bool), ActError> {
        let answer = self.client.ask::<ActedSettings<T>>(call.repeatable(true)).await;
        let ActedSettings { settings, changed } =
            answer.map_err(|error| error.into_act(unknown("settings")))?;
        Ok((settings, changed))
    }

    /// Workers, pauses and settings of queues; settings of types and tenants are not available, nor are keys.
    pub(crate) async fn config(&self) -> Result<Config, StoreError> {
        let mut config = Config::default();
        let mut cursor = None;
        loop {
            let page: ShownWorkers =
                self.client.ask(Call::get("/workers").query_if("cursor", cursor)).await?;
            for worker in page.workers {
                let (worker, hold) = worker.into_worker();
                config.workers.insert(worker.id, worker);
                config.holds.extend(hold.map(|hold| (hold.scope.clone(), hold)));
            }
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        let gate: ShownGate = self.client.ask(Call::get("/gate")).await?;
        config.holds.extend(gate.into_holds().into_iter().map(|hold| (hold.scope.clone(), hold)));
        for queue in self.queues().await? {
            config.holds.extend(queue.paused.map(|hold| (hold.scope.clone(), hold)));
            if queue.settings != QueueSettings::default() {
                config.queues.insert((queue.name, None), queue.settings);
            }
        }
        Ok(config)
    }

    pub(crate) async fn queue(&self, queue: &QueueName) -> Result<QueueInfo, StoreError> {
        let shown: ShownQueue = self.client.ask(Call::get(format!("/queues/{queue}"))).await?;
        Ok(shown.into_info(self.now()))
    }

    pub(crate) async fn queues(&self) -> Result<Vec<QueueInfo>, StoreError> {
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let page: ShownQueues = self.client.ask(Call::get("/queues").query_if("cursor", cursor)).await?;
            let now = self.now();
            found.extend(page.queues.into_iter().map(|queue| queue.into_info(now)));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return Ok(found);
            }
        }
    }

    pub(crate) async fn oldest_ready(&self, queue: &QueueName) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.queue(queue).await?.oldest)
    }

    pub(crate) async fn stats(&self) -> Result<Stats, StoreError> {
        let shown: ShownStats = self.client.ask(Call::get("/stats")).await?;
        Ok(shown.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_is_counted_back_from_now() {
        let text = r#"{"name":"mail","depth":{"scheduled":2},"oldest_age":"1m30s","paused":null,"max_running":3,"timeouts":{},"retention":{},
            "rates":{"last_minute":{"submitted":5,"claimed":0,"completed":0,"failed":0,"retried":0,"dead_letter":0,
            "cancelled":0,"reaped":0},"last_hour":{}}}"#;
        let shown: ShownQueue = serde_json::from_str(text).unwrap();
        let queue = shown.into_info(Timestamp::from_millis(600_000));
        assert_eq!(queue.oldest, Some(Timestamp::from_millis(510_000)));
        assert_eq!(queue.minutes[&9].submitted, 5);
        assert_eq!(queue.settings.max_running, Some(3));
        assert_eq!(queue.depth[&JobState::Scheduled], 2);
    }
}
