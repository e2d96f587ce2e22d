//! A server with a store of its own to look at, and the ways to fill it.

use std::time::Duration;

use windlass::Store;
use windlass::job::{Failure, JobId, JobRecord, JobType, NewJob, Payload, Progress, QueueName};
use windlass::store::caller::{Caller, Role};
use windlass::store::{
    AttemptWrite, ClaimRequest, LeaseRef, NewKey, NewWorker, Outcome, Report, StoreOptions, SubmitOptions,
};
use windlass_testkit::client::{Request, TestResponse};
use windlass_testkit::{InProcessServer, store_folder, store_in};

/// A server that runs until the test is over.
pub(super) struct Site {
    pub(super) store: Store,
    pub(super) url: String,
    pub(super) host: String,
    server: Option<InProcessServer>,
    _folder: tempfile::TempDir,
}

impl Site {
    pub(super) async fn start() -> Site {
        let folder = store_folder();
        let address = store_in(folder.path());
        let opened = tokio::task::spawn_blocking(move || Store::open(&address, StoreOptions::default()));
        let store = opened.await.unwrap().unwrap();
        let host = "127.0.0.1:0".to_owned();
        let mut site = Site { store, url: String::new(), host, server: None, _folder: folder };
        site.serve();
        site
    }

    /// Serves, where it served before if it did.
    pub(super) fn serve(&mut self) {
        let listen = self.host.parse().unwrap();
        let server = InProcessServer::with_maintenance(self.store.clone(), listen);
        (self.url, self.host) = (server.url.clone(), server.address.to_string());
        self.server = Some(server);
    }

    /// Serves no more; what it stored stays.
    pub(super) async fn stop(&mut self) {
        self.server.take().expect("it runs").stop().await;
    }

    pub(super) fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url)
    }

    /// Submits a job.
    pub(super) async fn submit(&self, job: NewJob) -> JobRecord {
        let receipts =
            self.store.submit(&Caller::local(), vec![job], SubmitOptions::default()).await.unwrap();
        receipts[0].job.clone()
    }

    /// Submits an ordinary job.
    pub(super) async fn job(&self, job_type: &str) -> JobId {
        self.submit(new(job_type)).await.id
    }

    /// Claims the next job, with what is needed to report on it.
    pub(super) async fn claim(&self) -> Claimed {
        let worker =
            NewWorker { name: "bench".into(), concurrency: 4, heartbeats: false, ..NewWorker::default() };
        let worker = self.store.register(&Caller::local(), worker).await.unwrap().id;
        let request = ClaimRequest::new(worker, 1);
        let mut answer = self.store.claim(&Caller::local(), &request, Duration::from_secs(10)).await.unwrap();
        let job = answer.jobs.pop().expect("there is a job to claim").job;
        Claimed { store: self.store.clone(), worker, job }
    }

    /// Makes a key and answers with its secret.
    pub(super) async fn key(&self, name: &str, role: Role) -> String {
        let created = self.store.create_key(&Caller::local(), NewKey::new(name, role)).await.unwrap();
        created.secret.reveal().to_owned()
    }

    /// Revokes the key of this name.
    pub(super) async fn revoke(&self, admin: &str, name: &str) {
        let caller = self.store.authenticate(admin).await.unwrap().unwrap();
        let keys = self.store.keys(&caller).await.unwrap();
        let id = keys.into_iter().find(|key| key.name == name).unwrap().id;
        self.store.revoke_key(&caller, id).await.unwrap();
    }

    /// Gets a page as its bytes.
    pub(super) async fn ask_bytes(&self, path: &str, headers: &[(&str, &str)]) -> TestResponse {
        let request = Request::new(self.host.parse().unwrap(), "GET", path);
        headers.iter().fold(request, |request, (name, value)| request.header(name, value)).send().await
    }

    /// Asks without a browser.
    pub(super) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Page {
        let mut request = Request::new(self.host.parse().unwrap(), method, path).body(body);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let answer = request.send().await;
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        Page { status: answer.status, body, answer }
    }
}

/// An answer with a text.
pub(super) struct Page {
    pub(super) status: u16,
    pub(super) body: String,
    answer: TestResponse,
}

impl Page {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.answer.header(name)
    }

    pub(super) fn headers(&self) -> &[(String, String)] {
        &self.answer.headers
    }

    /// The token that this page's forms carry.
    pub(super) fn token(&self) -> String {
        let (_, rest) = self.body.split_once(r#"name="token" value=""#).expect("the page has a form");
        rest.split('"').next().unwrap_or_default().to_owned()
    }
}

pub(super) fn new(job_type: &str) -> NewJob {
    NewJob::new(JobType::new(job_type).unwrap(), Payload::json(r#"{"to":"ada@example.com"}"#))
}

pub(super) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

/// A claimed job.
pub(super) struct Claimed {
    store: Store,
    pub(super) worker: windlass::job::WorkerId,
    pub(super) job: JobRecord,
}

impl Claimed {
    pub(super) async fn note(&self, note: AttemptWrite) {
        let hand = LeaseRef { job: self.job.id, fence: self.job.fence, worker: Some(self.worker) };
        self.store.record(&Caller::local(), hand, vec![note]).await.unwrap();
    }

    pub(super) async fn progress(&self, percent: f64, message: &str) {
        self.note(AttemptWrite::Progress(Progress { percent, message: Some(message.to_owned()) })).await;
    }

    pub(super) async fn log(&self, line: &str) {
        self.note(AttemptWrite::Logs(vec![line.to_owned()])).await;
    }

    pub(super) async fn end(&self, outcome: Outcome) {
        let report = Report::new(self.job.id, self.job.fence, outcome);
        self.store.finish(&Caller::local(), self.worker, vec![report]).await.unwrap();
    }

    pub(super) async fn complete(&self, result: &str) {
        self.end(Outcome::Completed { result: Some(result.as_bytes().to_vec()) }).await;
    }

    pub(super) async fn fail(&self, failure: Failure) {
        self.end(Outcome::Failed(failure)).await;
    }
}
