//! A server with a store of its own to look at, and the ways to fill it.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use windlass::Store;
use windlass::job::{Failure, JobId, JobRecord, JobType, NewJob, Payload, Progress, QueueName};
use windlass::store::caller::{Caller, Role};
use windlass::store::command::attempt_writes::{AttemptWrite, LeaseRef};
use windlass::store::command::claim::ClaimRequest;
use windlass::store::command::finish::{Outcome, Report};
use windlass::store::command::key::NewKey;
use windlass::store::command::submit::SubmitOptions;
use windlass::store::command::worker::NewWorker;
use windlass::store::environment::StoreOptions;
use windlass_server::server::{Options, Server};

/// A server that runs until the test is over.
pub(super) struct Site {
    pub(super) store: Store,
    pub(super) url: String,
    pub(super) host: String,
    running: Option<(tokio::sync::oneshot::Sender<()>, tokio::task::JoinHandle<()>)>,
    _folder: tempfile::TempDir,
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.running.take());
    }
}

impl Site {
    pub(super) async fn start() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("sqlite:{}", folder.path().join("jobs.db").display());
        let store = Store::open(&address, StoreOptions::default()).unwrap();
        let host = "127.0.0.1:0".to_owned();
        let mut site = Site { store, url: String::new(), host, running: None, _folder: folder };
        site.serve().await;
        site
    }

    /// Serves, where it served before if it did.
    pub(super) async fn serve(&mut self) {
        let options = Options { listen: self.host.parse().unwrap(), ..Options::default() };
        let server = Server::bind(self.store.clone(), options).await.unwrap();
        (self.url, self.host) = (server.url(), server.address().to_string());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let kept = self.store.clone();
        let task = tokio::spawn(async move {
            windlass::maintenance::run(&kept, server.run(async { drop(stopped.await) })).await;
        });
        self.running = Some((stop, task));
    }

    /// Serves no more; what it stored stays.
    pub(super) async fn stop(&mut self) {
        let (stop, task) = self.running.take().expect("it runs");
        drop(stop);
        task.await.unwrap();
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

    /// Asks without a browser; the answer's head and body.
    pub(super) async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.host).await.unwrap();
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            head.extend(["host: ", &self.host, "\r\n"]);
        }
        for (name, value) in headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        stream.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).await.unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").expect("an answer has a head and a body");
        let status =
            head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("an answer has a status");
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
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
        self.store.note(&Caller::local(), hand, vec![note]).await.unwrap();
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
