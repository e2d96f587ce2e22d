//! Durable background jobs: work that must happen later, survive a crash, be retried, paused, watched and proved to have
//! happened.
//!
//! A [`Store`] is the one door to durable state. It opens a SQLite file (or, for tests, memory), and every verb of the job
//! model is a method on it: [`submit`](Store::submit), [`claim`](Store::claim), [`heartbeat`](Store::heartbeat),
//! [`finish`](Store::finish), [`act`](Store::act) (suspend, resume, cancel, priority), [`pause`](Store::pause),
//! [`verify`](Store::verify) and the rest. What is acknowledged is on disk; a worker that lost its lease writes nothing.
//!
//! ```
//! use std::time::Duration;
//! use windlass::job::{JobType, NewJob, Payload, State};
//! use windlass::store::caller::Caller;
//! use windlass::store::command::claim::ClaimRequest;
//! use windlass::store::command::finish::{Finish, Outcome, Report};
//! use windlass::store::command::submit::SubmitOptions;
//! use windlass::store::command::worker::NewWorker;
//! use windlass::store::environment::StoreOptions;
//! use windlass::Store;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let address = format!("sqlite:{}", folder.path().join("jobs.db").display());
//! # let address = address.as_str();
//! let store = Store::open(address, StoreOptions::default())?; // for example "sqlite:jobs.db"
//! let me = Caller::local();
//!
//! // Somebody submits.
//! let job = NewJob::new(JobType::new("email.send")?, Payload::json(r#"{"to":"a@b.c"}"#));
//! store.submit(&me, vec![job], SubmitOptions::default()).await?;
//!
//! // Somebody works, perhaps in another process on the same file.
//! let worker = store.register(&me, NewWorker::default()).await?.id;
//! let claimed = store.claim(&me, &ClaimRequest::new(worker, 10), Duration::from_secs(5)).await?.jobs;
//! let done = Report::new(claimed[0].job.id, claimed[0].job.fence, Outcome::Completed { result: None });
//! let answers = store.finish(&me, worker, vec![done]).await?;
//! assert_eq!(answers, [Finish::Applied(State::Completed)]);
//! # store.close();
//! # Ok(())
//! # }
//! ```
//!
//! Where to read on: [`job`] holds the rules, pure and complete ([`job::transition()`] decides every change of state);
//! [`store::engine`] is the contract a database must meet; [`maintenance::run`] keeps a store going by itself.

pub mod audit;
pub mod callback;
pub mod clock;
pub mod context;
#[cfg(doctest)]
mod doctests;
pub mod entropy;
pub mod error;
pub mod handler;
pub mod job;
pub mod key;
pub mod limits;
pub mod maintenance;
pub mod queue;
pub mod schedule;
pub mod store;
pub mod testing;
pub mod ticket;
pub mod worker;

pub use clock::Timestamp;
pub use context::Cx;
pub use handler::{Snooze, State};
pub use job::{Failure, GroupStrategy, JobId, RetryPolicy};
pub use queue::{Draft, Handle, Job, Outcome, Pause, Queue, Suspend};
pub use store::Store;
pub use worker::{Worker, WorkerControl};

/// The SQLite library this crate is built with, for transactions of your own on the same file.
#[cfg(feature = "sqlite")]
pub use rusqlite;
