//! A store with callbacks and pushes, as in a server.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use windlass::client::Client;
use windlass::error::SubmitError;
use windlass::job::{Category, JobId, JobState, JobType, NewJob, Payload, QueueName, RetryPolicy, Tenant};
use windlass::settings::Push;
use windlass::settings::patch::{Field, QueuePatch, SettingsPatch};
use windlass::store::caller::Caller;
use windlass::store::{Snapshot, Store, StoreOptions, SubmitOptions};
use windlass::webhook_url::TargetPolicy;
use windlass_server::webhooks::signature::{Endpoint, Purpose};
use windlass_server::webhooks::{self, WebhookClient};
use windlass_testkit::PATIENCE;

/// A store in memory, kept going, with callbacks delivered and queues pushed.
pub(crate) struct CallingStore {
    pub(crate) store: Store,
    pub(crate) me: Caller,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<()>,
    _kept: Client,
}

impl CallingStore {
    /// One that may call anything.
    pub(crate) fn open() -> CallingStore {
        CallingStore::with(TargetPolicy::anywhere())
    }

    /// One whose submissions are free, and whose calls are bound by this policy.
    pub(crate) fn with(policy: TargetPolicy) -> CallingStore {
        let options = StoreOptions { targets: TargetPolicy::anywhere(), ..StoreOptions::default() };
        CallingStore::over(Store::open("memory:", options).unwrap(), policy)
    }

    pub(crate) fn over(store: Store, policy: TargetPolicy) -> CallingStore {
        let (stop, stopped) = oneshot::channel::<()>();
        let calls = webhooks::run(store.clone(), WebhookClient::new(policy), async move {
            // Dropping it stops as well.
            let _ = stopped.await;
        });
        let running = tokio::spawn(calls);
        CallingStore {
            _kept: Client::from_store(store.clone()),
            store,
            me: Caller::local(),
            stop: Some(stop),
            running,
        }
    }

    /// Has a queue's jobs sent somewhere.
    pub(crate) async fn push(&self, queue: &str, push: Option<Push>) {
        self.push_as(&self.me, queue, push).await;
    }

    pub(crate) async fn push_as(&self, who: &Caller, queue: &str, push: Option<Push>) {
        let patch = QueuePatch { push: Field::from(push), ..QueuePatch::default() };
        self.configure_as(who, queue, patch).await;
    }

    pub(crate) async fn configure_as(&self, who: &Caller, queue: &str, patch: QueuePatch) {
        let patch = SettingsPatch::Queue(QueueName::new(queue).unwrap(), patch);
        self.store.configure(who, patch).await.unwrap();
    }

    pub(crate) async fn submit(&self, new: NewJob) -> JobId {
        self.try_submit(new).await.unwrap()
    }

    pub(crate) async fn try_submit(&self, new: NewJob) -> Result<JobId, SubmitError> {
        let receipts = self.store.submit(&self.me, vec![new], SubmitOptions::default()).await?;
        Ok(receipts[0].job.id)
    }

    /// The job once it has ended.
    pub(crate) async fn ended(&self, id: JobId) -> Snapshot {
        let found = self.store.wait(&self.me, id, PATIENCE).await.unwrap().unwrap();
        assert!(found.job.state.is_final(), "{:?}: {:?}", found.job.state, found.why);
        found
    }

    /// How a job ended: its state, and the category and code of its error.
    pub(crate) async fn outcome(&self, id: JobId) -> (JobState, Option<(Category, String)>) {
        let found = self.ended(id).await;
        let error = found.job.details.error.clone();
        (found.job.state, error.map(|error| (error.category, error.code.unwrap_or_default())))
    }

    /// A job's result.
    pub(crate) async fn result(&self, id: JobId) -> Option<String> {
        let result = self.store.result(&self.me, id).await.unwrap().unwrap();
        result.0.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap())
    }

    /// The secret by which a tenant's calls to this address are signed.
    pub(crate) async fn secret(&self, tenant: &str, purpose: Purpose, url: &str) -> String {
        let tenant = Some(Tenant::new(tenant).unwrap());
        let secrets = self.store.webhook_secrets(&self.me, tenant).await.unwrap();
        Endpoint::new(purpose, url).unwrap().secret(secrets[0].reveal()).unwrap()
    }

    /// Stops calls, as a stopping server does.
    pub(crate) async fn close(mut self) {
        drop(self.stop.take());
        self.running.await.unwrap();
    }
}

/// A job that is tried once.
pub(crate) fn once(queue: &str, payload: &str) -> NewJob {
    let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::fixed() };
    NewJob { retry: Some(retry), ..job(queue, payload) }
}

/// A job that is tried three times, at once.
pub(crate) fn job(queue: &str, payload: &str) -> NewJob {
    let initial_delay = Duration::from_millis(1);
    let retry = RetryPolicy { initial_delay, max_attempts: 3, ..RetryPolicy::fixed() };
    NewJob {
        queue: QueueName::new(queue).unwrap(),
        retry: Some(retry),
        ..NewJob::new(JobType::new("greet").unwrap(), Payload::json(payload))
    }
}
