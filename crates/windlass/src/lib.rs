//! Durable background jobs: work that must happen later, survive a crash, be retried, paused, watched and proved to have
//! happened. Four things carry it all: a [`Job`] is a type, a [`Client`] keeps jobs in a file, a [`Worker`] runs your async
//! functions on them, and a [`Cx`] lets such a function go on where it was interrupted.
//!
//! ```
//! use std::time::Duration;
//! use serde::{Deserialize, Serialize};
//! use windlass::{Cx, Failure, Job, Client, State, Worker};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Order { cents: u32 }
//!
//! impl Job for Order {
//!     const TYPE: &'static str = "order"; // stored with every job
//!     type Output = String;               // what its handler returns
//! }
//!
//! // A handler: the job first, then whatever it asks for. Any error is tried again, unless it says otherwise.
//! async fn order(order: Order, cx: Cx, State(shop): State<&'static str>) -> anyhow::Result<String> {
//!     if order.cents == 0 {
//!         return Err(Failure::permanent("empty", "there is nothing to pay").into());
//!     }
//!     // Done once, whatever crashes: later attempts get what was saved.
//!     let receipt = cx.step("pay", async { anyhow::Ok(format!("{} cents", order.cents)) }).await?;
//!     // Holds no slot, no thread and no process; survives a restart.
//!     cx.sleep(Duration::from_millis(10)).await?;
//!     Ok(format!("{shop}: {receipt}"))
//! }
//!
//! #[tokio::main]
//! async fn main() -> anyhow::Result<()> {
//!     # let folder = tempfile::tempdir()?;
//!     # let address = format!("sqlite:{}", folder.path().join("jobs.db").display());
//!     # let address = address.as_str();
//!     let client = Client::open(address).await?; // for example "sqlite:jobs.db"
//!     let job = client.submit(Order { cents: 1200 }).priority(80).key("order-7").await?; // on disk
//!
//!     // Here or in any other process on the same file.
//!     let worker = Worker::new(&client).with("the shop").queue("default", 10).handle(order);
//!     tokio::spawn(worker.run_until(tokio::signal::ctrl_c()));
//!
//!     assert_eq!(job.result(Duration::from_secs(10)).await?, "the shop: 1200 cents");
//!     Ok(())
//! }
//! ```
//!
//! - **Submit** with builders that you await: see [`client::Submit`] for all that a job can ask for, [`Client::batch`] and
//!   [`Client::chain`] for many at once, `Client::submit_within` for one in a transaction of your own.
//! - **Look and act** through the [`Handle`]: [`result`](Handle::result), [`suspend`](client::AnyJob::suspend),
//!   [`cancel`](client::AnyJob::cancel), [`explain`](client::AnyJob::explain); pause more than one job with
//!   [`Client::pause_queue`] and its like. Actions say whether they [changed](ActionResult) anything.
//! - **Handle** with [extractors](handler), [layers](Worker::layer) and [errors](Failure) that say what they mean.
//! - **Go on** after a crash: [`Cx::step`], [`Cx::sleep`], [`Cx::wait_signal`], [`Cx::spawn_all`], [`Cx::checkpoint`].
//! - **Go elsewhere**: with feature `remote`, `Client::open("http://…")` is the same queue against a server.
//! - **Test** all of it in virtual time, with workers that die where told to: [`testing`].
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `sqlite` | yes | `sqlite:PATH`, with SQLite compiled in; `Client::submit_within` |
//! | `postgres` | | `postgres://…`, for many machines; `Client::submit_within_postgres` |
//! | `remote` | | `http://…` and `https://…`, a store that a Windlass server has |
//! | `bench` | | the workloads of `windlass bench`; not covered by semantic versioning |
//!
//! `memory:` is always there, for tests.
//!
//! Beneath is the [`Store`], the one door to durable state: every verb of the job model as a method, for programs that
//! need more than typed jobs. [`job`] holds the rules, pure and complete ([`job::transition()`] decides every change of
//! state); [`store::engine`] is the contract a database must meet.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod audit;
#[cfg(feature = "bench")]
pub mod bench;
pub mod callback;
pub mod client;
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
pub mod schedule;
pub mod similar;
pub mod store;
pub mod testing;
pub mod ticket;
pub mod webhook_url;
pub mod worker;

pub use client::{ActionResult, Client, Handle, Job, JobBuilder, Pause, Suspend};
pub use clock::Timestamp;
pub use context::Cx;
pub use handler::{BatchOptions, Snooze, State};
pub use job::{Failure, GroupStrategy, JobId, RetryPolicy};
pub use store::Store;
pub use store::documents::config::PauseMode;
pub use worker::{Worker, WorkerControl};

/// The SQLite library this crate is built with, for transactions of your own on the same file.
#[cfg(feature = "sqlite")]
pub use rusqlite;
